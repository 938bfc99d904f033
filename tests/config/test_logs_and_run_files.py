"""The log's lines, and the files a running broker leaves."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest

from jetbroker.config.options import Options
from jetbroker.errors import ConfigError
from jetbroker.logs import Logger
from jetbroker.runfiles import RunFiles

STAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}"


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), debug=True, trace=True))
    log.info("a")
    log.notice("b")
    log.warn("c")
    log.error("d")
    log.fatal("e")
    log.debug("f")
    log.trace("g")
    lines = path.read_text().splitlines()
    levels = ["INF", "INF", "WRN", "ERR", "FTL", "DBG", "TRC"]
    for line, level, text in zip(lines, levels, "abcdefg", strict=True):
        assert re.fullmatch(rf"\[{os.getpid()}\] {STAMP} \[{level}\] {text}", line)
    log.close()


def test_levels_and_time_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False))
    log.debug("no")
    log.trace("no")
    log.info("yes")
    assert path.read_text() == f"[{os.getpid()}] [INF] yes\n"
    log.close()


def test_time_in_utc(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime_utc=True))
    before = datetime.now(UTC)
    log.info("x")
    stamp = re.search(STAMP, path.read_text())
    assert stamp is not None
    logged = datetime.strptime(stamp[0], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
    assert before <= logged <= datetime.now(UTC)
    log.close()


def test_text_of_clients_cannot_forge_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False))
    log.info("name\n[1] [INF] forged \x1b[31m \udcff é")
    assert path.read_text() == f"[{os.getpid()}] [INF] name\\n[1] [INF] forged \\x1b[31m \\udcff é\n"
    log.close()


def test_reopen(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False))
    log.info("one")
    path.rename(tmp_path / "old")
    log.info("two")
    log.reopen()
    log.info("three")
    assert [line.split("] ")[-1] for line in (tmp_path / "old").read_text().splitlines()] == ["one", "two"]
    assert [line.split("] ")[-1] for line in path.read_text().splitlines()] == ["File log re-opened", "three"]
    log.close()


def test_reopen_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = Logger(Options(log_file=str(folder / "log"), logtime=False))
    folder.rename(tmp_path / "moved")
    log.reopen()
    assert "[ERR] Unable to re-open the log file" in (tmp_path / "moved" / "log").read_text()
    log.close()


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^error opening file: open /nonexistent/x: no such file or directory$"):
        Logger(Options(log_file="/nonexistent/x"))
    log = Logger(Options(log_file=str(tmp_path / "log"), logtime=False))
    with pytest.raises(ConfigError):
        log.configure(Options(log_file="/nonexistent/x"))
    log.info("still here")
    assert "still here" in (tmp_path / "log").read_text()
    log.close()


def test_writing_never_raises() -> None:
    log = Logger(Options(log_file="/dev/full"))
    log.error("lost")
    assert log.lost_lines == 1
    log.close()


def test_colours_only_on_a_terminal(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    stderr = os.dup(2)
    os.dup2(terminal, 2)
    try:
        log = Logger(Options(logtime=False))
        log.info("x")
        assert os.read(master, 1000) == f"[{os.getpid()}] [\x1b[32mINF\x1b[0m] x\r\n".encode()
        log.configure(Options(log_file=str(tmp_path / "log"), logtime=False))
        log.info("y")
        assert (tmp_path / "log").read_text() == f"[{os.getpid()}] [INF] y\n"
        log.close()
    finally:
        os.dup2(stderr, 2)
        for fd in (stderr, master, terminal):
            os.close(fd)


def test_pid_file(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    RunFiles(Options(pid_file=str(path))).write_pid()
    assert path.read_bytes() == str(os.getpid()).encode()
    assert os.listdir(tmp_path) == ["pid"]
    RunFiles(Options()).write_pid()  # none asked for
    with pytest.raises(ConfigError, match=r"^Could not write pidfile: open /nonexistent/x: no such file or directory$"):
        RunFiles(Options(pid_file="/nonexistent/x")).write_pid()


def test_ports_file(tmp_path: Path) -> None:
    files = RunFiles(Options(ports_file_dir=str(tmp_path)))
    urls = {"nats": ["nats://127.0.0.1:4222"]}
    files.write_ports(urls)
    (path,) = tmp_path.iterdir()
    assert path.name.endswith(f"_{os.getpid()}.ports")
    assert path.read_text() == json.dumps(urls, separators=(",", ":"))
    files.remove_ports()
    assert not list(tmp_path.iterdir())


def test_ports_file_failures_are_logged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path)))
    files = RunFiles(Options(ports_file_dir="/nonexistent"), log)
    files.write_ports({})
    files.remove_ports()
    text = path.read_text()
    assert re.search(r"\[ERR\] Error writing ports file \(/nonexistent/.*\.ports\): open .*: no such file", text)
    assert re.search(r"\[ERR\] Error cleaning up ports file /nonexistent/.*\.ports: remove .*: no such file", text)
    log.close()
