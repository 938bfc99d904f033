"""The log's lines, and the files a running broker leaves."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import socket
from pathlib import Path

import pytest

from jetbroker import limits
from jetbroker.config.options import Options
from jetbroker.daemon.runfiles import RunFiles
from jetbroker.errors import ConfigError
from jetbroker.logs import logfile
from jetbroker.logs.logger import Logger
from jetbroker.program import program_name

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


def test_a_warning_that_clients_cause_is_written_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now = tmp_path / "log", [1000.0]
    monkeypatch.setattr("jetbroker.logs.logger.time.monotonic", lambda: now[0])
    log = Logger(Options(log_file=str(path), logtime=False))
    for text in ("a", "a", "b"):
        log.warn_seldom(text)
    now[0] += 1
    log.warn_seldom("a")
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["a", "b", "a"]
    for number in range(2 * limits.SELDOM_WARNINGS):
        log.warn_seldom(str(number))
    assert len(path.read_text().splitlines()) == 2 + limits.SELDOM_WARNINGS
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


def test_a_large_file_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=300))
    for number in range(20):
        log.info(f"line {number} {'x' * 50}")
    backups = sorted(tmp_path.glob("log.*"))
    assert len(backups) > 3
    assert all(re.fullmatch(r"log\.\d{4}(\.\d\d){5}\.\d{9}", backup.name) for backup in backups)
    texts = [backup.read_text() for backup in [*backups, path]]
    assert all(300 < len(text) < 600 for text in texts[:-1])
    assert [int(found) for found in re.findall(r"line (\d+)", "".join(texts))] == list(range(20))
    for backup, text in zip(backups, texts[1:], strict=True):
        assert text.startswith(f'[{os.getpid()}] [INF] Rotated log, backup saved as "{backup}"\n')
    log.close()


def test_the_oldest_backups_are_purged(tmp_path: Path) -> None:
    path = tmp_path / "log"
    kept = [tmp_path / name for name in ("log.old", "log.2026.01.02", "other.2026.01.02.03.04.05.000000006")]
    for file in kept:
        file.touch()
    old = tmp_path / "log.2020.01.02.03.04.05.000000006"
    old.touch()
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=100, log_max_num=3))
    for number in range(20):
        log.info(f"line {number} {'x' * 50}")
    assert len(set(tmp_path.glob("log.2*.*.*.*.*.*.*"))) == 2
    assert f'[INF] Purged log file "{old.name}"' not in path.read_text()
    assert "[INF] Purged log file " in path.read_text()
    assert not old.exists()
    assert all(file.exists() for file in kept)
    log.close()


def test_a_file_that_is_large_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 500)
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=300))
    (backup,) = tmp_path.glob("log.*")
    assert backup.read_text().endswith(f"x[{os.getpid()}] [INF] Rotating logfile...\n")
    log.close()


def test_a_rotation_that_fails_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=100))

    def refused(source: str, target: str) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "rename", refused)
    for number in range(4):
        log.info(f"line {number} {'x' * 50}")
    text = path.read_text()
    assert [int(found) for found in re.findall(r"line (\d+)", text)] == list(range(4))
    assert "[ERR] Unable to begin a new logfile ([Errno 1] no), will attempt next rotation at size 200" in text
    monkeypatch.undo()
    log.info("y" * 300)
    assert len(list(tmp_path.glob("log.*"))) == 1
    log.close()


def test_a_new_file_that_cannot_be_opened_leaves_the_old_one_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=100))

    def refused(*_: object) -> int:
        raise ConfigError("too many open files")

    monkeypatch.setattr(logfile, "_open", refused)
    log.info("x" * 100)
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
    monkeypatch.undo()
    log.info("y" * 300)
    assert len(list(tmp_path.glob("log.*"))) == 1
    assert path.read_text().startswith(f'[{os.getpid()}] [INF] Rotated log, backup saved as "{path}.')
    log.close()


def test_reopened_files_rotate_too(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Logger(Options(log_file=str(path), logtime=False, log_size_limit=100))
    path.rename(tmp_path / "moved")
    log.reopen()
    assert path.read_text().endswith("File log re-opened\n")
    log.info("x" * 100)
    assert len(list(tmp_path.glob("log.*"))) == 1
    log.close()


SYSLOG_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)"


def test_syslog_over_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        log = Logger(Options(remote_syslog=f"udp://127.0.0.1:{receiver.getsockname()[1]}", debug=True, trace=True))
        who = f" {socket.gethostname()} {program_name()}[{os.getpid()}]: ".encode()
        levels = {log.info: 5, log.warn: 4, log.error: 3, log.fatal: 2, log.debug: 7, log.trace: 5}
        for write, severity in levels.items():
            write("a\nb")
            line = receiver.recv(1000)
            assert re.fullmatch(rb"<%d>" % severity + SYSLOG_STAMP + re.escape(who) + rb"a\\nb\n", line)
        log.close()


def test_syslog_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        log = Logger(Options(remote_syslog=f"unix://{path}"))
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            log.info("x")
            line = connection.recv(1000)
        assert re.fullmatch(rb"<5>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+\[\d+\]: x\n", line)
        log.close()


def test_syslog_that_goes_away_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SYSLOG_RETRY_SECONDS", 0.0)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        log = Logger(Options(remote_syslog=f"tcp://127.0.0.1:{server.getsockname()[1]}"))
        first, _ = server.accept()
        first.close()
        server.settimeout(10)
        while not log.lost_lines:  # the first lines after the end go nowhere without an error
            log.info("lost")
        log.info("found")
        second, _ = server.accept()
        with second:
            second.settimeout(10)
            assert b"found" in second.recv(10_000)
        log.close()


def test_a_line_that_is_too_long_for_syslog_is_lost_alone() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        log = Logger(Options(remote_syslog=f"udp://127.0.0.1:{receiver.getsockname()[1]}"))
        log.info("x" * 100_000)
        log.info("short")
        assert receiver.recv(1000).endswith(b"short\n")
        assert log.lost_lines == 1
        log.close()


def test_a_syslog_that_takes_nothing_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SYSLOG_PENDING_BYTES", 10_000)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        log = Logger(Options(remote_syslog=f"tcp://127.0.0.1:{server.getsockname()[1]}"))
        while not log.lost_lines:
            log.info("x" * 5000)
        log.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("foo", 'error invalid network type: ""'),
        ("http://a:5", 'error invalid network type: "http"'),
        ("unix:///nope", 'error connecting to syslog: "dial unix /nope: connect: no such file or directory"'),
    ],
)
def test_syslog_errors(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Logger(Options(remote_syslog=url))
    assert str(caught.value) == message


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


def test_modes_of_the_files(tmp_path: Path) -> None:
    """The pid is its owner's, the ports are for everybody; a file that was there stays as it is."""
    before = os.umask(0o022)
    try:
        files = RunFiles(Options(pid_file=str(tmp_path / "pid"), ports_file_dir=str(tmp_path)))
        files.write_pid()
        files.write_ports({})
        found = {path.name.partition(".")[2] or path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert found == {"pid": 0o600, "ports": 0o644}
        (tmp_path / "pid").chmod(0o644)
        files.write_pid()
        assert (tmp_path / "pid").stat().st_mode & 0o777 == 0o644
        (tmp_path / "link").symlink_to("pid")
        RunFiles(Options(pid_file=str(tmp_path / "link"))).write_pid()
        assert (tmp_path / "link").is_symlink()
    finally:
        os.umask(before)


def test_only_the_pid_file_itself_may_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /run: somebody else has made the file, and nothing can be made beside it."""
    path = tmp_path / "pid"
    path.write_text("an older and longer one")

    open_file = os.open

    def refuse(name: str, flags: int, mode: int) -> int:
        if name == str(path):
            return open_file(name, flags, mode)
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr("jetbroker.daemon.runfiles.os.open", refuse)
    RunFiles(Options(pid_file=str(path))).write_pid()
    assert path.read_text() == str(os.getpid())
    with pytest.raises(ConfigError, match=r"Could not write pidfile: open .*: permission denied"):
        RunFiles(Options(pid_file=str(tmp_path / "new"))).write_pid()


def _in_a_folder_of_everybody(tmp_path: Path) -> tuple[Path, Path]:
    """The folder, and a file elsewhere that nobody may change through it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    return folder, victim


def test_links_that_were_prepared_in_a_folder_of_everybody_lead_nowhere(tmp_path: Path) -> None:
    folder, victim = _in_a_folder_of_everybody(tmp_path)
    files = RunFiles(Options(pid_file=str(folder / "pid"), ports_file_dir=str(folder)))
    ports = Path(files.ports_path)
    for name in (f"pid.{os.getpid()}.part", f"{ports.name}.{os.getpid()}.part", ports.name):
        (folder / name).symlink_to(victim)
    files.write_pid()
    files.write_ports({})
    assert victim.read_text() == "precious"
    assert (folder / "pid").read_text() == str(os.getpid())
    assert not ports.is_symlink()
    assert ports.read_text() == "{}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link that is somebody else's")
def test_a_pid_file_is_not_a_strangers_link_in_a_folder_of_everybody(tmp_path: Path) -> None:
    folder, victim = _in_a_folder_of_everybody(tmp_path)
    link = folder / "pid"
    link.symlink_to(victim)
    os.lchown(link, 12345, 12345)
    with pytest.raises(ConfigError, match=r"^Could not write pidfile: open .*: permission denied$"):
        RunFiles(Options(pid_file=str(link))).write_pid()
    assert victim.read_text() == "precious"
    folder.chmod(0o755)
    RunFiles(Options(pid_file=str(link))).write_pid()
    assert victim.read_text() == str(os.getpid())


def test_a_pid_file_that_links_to_itself(tmp_path: Path) -> None:
    (tmp_path / "pid").symlink_to("pid")
    with pytest.raises(ConfigError, match=r"too many levels of symbolic links$"):
        RunFiles(Options(pid_file=str(tmp_path / "pid"))).write_pid()


def test_a_rotated_log_does_not_go_on_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = tmp_path / "log"
    rename = os.rename

    def rename_and_link(source: str, target: str) -> None:
        rename(source, target)
        os.symlink(victim, source)

    monkeypatch.setattr("jetbroker.logs.logfile.os.rename", rename_and_link)
    log = Logger(Options(log_file=str(path), log_size_limit=10))
    for number in range(3):
        log.info(f"line {number}")
    log.close()
    assert victim.read_text() == "precious"
