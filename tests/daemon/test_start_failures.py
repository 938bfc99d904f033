"""Starts that must fail: exit code 1, and a message an operator can act on."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.daemon import ANY_PORT, CONNECT, Daemon, run

# What a user may do who is not root, also when the tests run as root
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


def fails(*arguments: str, cwd: Path, before: Sequence[str] = ()) -> str:
    """stderr of a start that must end with exit code 1 and without a traceback."""
    result = run(*arguments, cwd=cwd, before=before)
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert "Server is ready" not in result.stderr
    return result.stderr


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_unknown_flag_names_it(tmp_path: Path) -> None:
    result = run("-js", "--frobnicate", cwd=tmp_path)
    told = "flag provided but not defined: -frobnicate\njetbroker --help shows all flags\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", told)


def test_missing_config(tmp_path: Path) -> None:
    assert fails("-c", "nowhere.conf", cwd=tmp_path) == "jetbroker: open nowhere.conf: no such file or directory\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port: 4222\nfrobnicate: 1\n", 'bad.conf:2:1: unknown field "frobnicate"'),
        ("port: 4222\n\njetstream {\n  store_dir: 5\n}\n", "bad.conf:4:3:"),
        ("port: [\n", "Parse error"),
        ("authorization {\n  users: [ {user: a, password: b}, {user: a, password: c} ]\n}\n", 'Duplicate user "a"'),
        ("gateway { port: 7422 }\n", '"gateway" not supported yet'),
        ("accounts { A { frob: 1 } }\n", 'unknown field "frob"'),
    ],
)
def test_broken_config_names_place_and_key(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.conf").write_text(text)
    assert expected.lower() in fails(*ANY_PORT, "-c", "bad.conf", cwd=tmp_path).lower()


def test_config_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "folder: is a directory" in fails("-c", "folder", cwd=tmp_path)


def test_port_in_use_names_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = fails("-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "store"), cwd=tmp_path)
    assert f"[FTL] Error listening on port: 127.0.0.1:{port}" in text
    assert "address already in use" in text
    # its store was closed in order: the next start finds nothing to complain about
    with Daemon("-js", "-sd", str(tmp_path / "store")) as daemon:
        assert not [line for line in daemon.log if "[WRN]" in line or "[ERR]" in line]


def test_address_of_another_machine(tmp_path: Path) -> None:
    assert "[FTL] Error listening on port: 192.0.2.1:" in fails("-a", "192.0.2.1", "-p", "-1", cwd=tmp_path)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_name_that_no_host_can_have(tmp_path: Path, host: str) -> None:
    text = fails("-a", host, "-p", "-1", cwd=tmp_path)
    assert f'[FTL] Error listening on port: {host}:0, "listen tcp: lookup {host}: no such host"' in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("file", "storage directory is not a directory"),
        ("file/below", "storage directory is not a directory"),
        ("/proc/jetbroker", "could not create storage directory"),
    ],
)
def test_store_that_cannot_be_made(tmp_path: Path, place: str, expected: str) -> None:
    (tmp_path / "file").touch()
    text = fails(*ANY_PORT, "-js", "-sd", place, cwd=tmp_path)
    assert f"[FTL] Can't start JetStream: {expected}" in text


def test_store_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "jetstream").touch()
    text = fails(*ANY_PORT, "-js", "-sd", str(tmp_path), cwd=tmp_path)
    assert "[FTL] Can't start JetStream: storage directory is not a directory" in text


def test_store_of_another_broker(tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)) as owner:
        before = tree(tmp_path)
        text = fails(*ANY_PORT, "-js", "-sd", str(tmp_path), cwd=tmp_path)
        assert f"in use by another broker (pid {owner.pid})" in text
        assert tree(tmp_path) == before
        with owner.open() as client:
            body = b'{"name":"S","subjects":["s.>"]}'
            client.send(CONNECT + b"SUB r 1\r\nPUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body))
            assert b'"did_create":true' in client.until(b'"did_create":true')
        assert owner.stop() == 0


def test_store_of_a_later_release(tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)):
        pass
    marker = tmp_path / "jetstream" / "jetbroker.json"
    from jetbroker.store.disk import Disk
    from jetbroker.store.recovery.decisions import write_checked_json

    write_checked_json(Disk(), str(marker), {"format": 99})
    before = tree(tmp_path)
    text = fails(*ANY_PORT, "-js", "-sd", str(tmp_path), cwd=tmp_path)
    assert "jetbroker.json: the store has format 99, this release knows up to 2" in text
    after = tree(tmp_path)
    assert {name: data for name, data in after.items() if not name.endswith("/lock")} == {
        name: data for name, data in before.items() if not name.endswith("/lock")
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-l", "/nonexistent/log"], "error opening file: open /nonexistent/log: no such file or directory"),
        (["-l", "/proc"], "error opening file: open /proc: is a directory"),
        (["-P", "/nonexistent/pid"], "Could not write pidfile: open /nonexistent/pid: no such file or directory"),
        (["-P", "/proc/jetbroker/pid"], "Could not write pidfile: open /proc/jetbroker/pid: no such file or directory"),
    ],
)
def test_files_that_cannot_be_written(tmp_path: Path, arguments: Sequence[str], expected: str) -> None:
    assert expected in fails(*ANY_PORT, *arguments, cwd=tmp_path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one stream, whose broker has ended."""
    store = tmp_path_factory.mktemp("stored")
    with Daemon("-js", "-sd", str(store)) as daemon, daemon.open() as client:
        body = b'{"name":"S","subjects":["s"]}'
        client.send(CONNECT + b"SUB r 1\r\nPUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body))
        assert b'"did_create":true' in client.until(b'"did_create":true')
    return store


@pytest.mark.parametrize(
    ("place", "mode", "expected"),
    [
        ("", 0o500, "could not create storage directory - mkdir {}/jetstream: permission denied"),
        ("jetstream", 0o500, "storage directory is not writable"),
        ("jetstream/%24G/S/stream.json", 0o000, "{}/jetstream/%24G/S/stream.json: Permission denied; the broker"),
        ("jetstream/%24G/S/00000000000000000001.seg", 0o400, "00000000000000000001.seg: Permission denied; the broker"),
    ],
)
def test_a_volume_that_belongs_to_another_user(
    tmp_path: Path, stored: Path, place: str, mode: int, expected: str
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    if place:
        shutil.copytree(stored / "jetstream", volume / "jetstream")
    (volume / place).chmod(mode)
    try:
        text = fails(*ANY_PORT, "-js", "-sd", str(volume), cwd=tmp_path, before=UNPRIVILEGED)
    finally:
        (volume / place).chmod(0o700)
    (line,) = [line for line in text.splitlines() if "[FTL]" in line or "[ERR]" in line]
    assert "[FTL] Can't start JetStream: " in line and expected.format(volume) in line


def test_a_failed_start_leaves_no_ports_file(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        fails("-a", "127.0.0.1", "-p", port, "--ports_file_dir", str(tmp_path), cwd=tmp_path)
    assert os.listdir(tmp_path) == []
