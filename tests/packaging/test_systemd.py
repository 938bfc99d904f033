"""systemd's unit: what it starts is a command line of ours, and what it may do is little."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jetbroker.daemon import flags

ROOT = Path(__file__).resolve().parent.parent.parent
UNIT = ROOT / "systemd" / "jetbroker.service"
MOST_EXPOSED = 1.5
ANALYZE = shutil.which("systemd-analyze")
with_systemd = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze on the PATH (apt-get install systemd)")

# Without one of these the score is above 1.5, or the broker reaches what it does not need.
REQUIRED = {
    "CapabilityBoundingSet": "",
    "NoNewPrivileges": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "PrivateUsers": "yes",
    "ProtectHome": "yes",
    "ProtectSystem": "strict",
    "RestrictNamespaces": "yes",
    "SystemCallArchitectures": "native",
    "User": "jetbroker",
}


def settings(text: str) -> dict[str, list[str]]:
    """The values of each key, in their order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"(\w+)=(.*)$", line):
            found.setdefault(match[1], []).append(match[2])
    return found


TOLD = settings(UNIT.read_text())


def test_it_starts_the_broker_by_flags_that_there_are() -> None:
    for key, is_test in (("ExecStartPre", True), ("ExecStart", False)):
        (command,) = TOLD[key]
        program, *words = command.split()
        line = flags.parse(words)
        assert program.endswith("/jetbroker") and not line.words and not line.refused
        assert line.actions["config"] == "/etc/jetbroker/jetbroker.conf"
        assert ("test" in line.actions) is is_test
    assert ("jetstream.store_dir", "${STATE_DIRECTORY}") in flags.parse(TOLD["ExecStart"][0].split()[1:]).settings


def test_it_signals_what_the_broker_understands() -> None:
    assert TOLD["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert TOLD["Type"] == ["exec"]  # nobody notifies
    assert "KillSignal" not in TOLD  # SIGTERM: an end in good order


def test_it_may_do_little() -> None:
    assert {key: TOLD[key][-1] for key in REQUIRED} == REQUIRED
    assert TOLD["SystemCallFilter"] == ["@system-service", "~@privileged @resources"]
    assert set(TOLD["RestrictAddressFamilies"][0].split()) == {"AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"}


def test_the_streams_are_where_it_may_write() -> None:
    (name,) = TOLD["StateDirectory"]
    assert TOLD["WorkingDirectory"] == [f"/var/lib/{name}"]
    user = (ROOT / "systemd" / "jetbroker.sysusers").read_text().split()
    assert user[:2] == ["u", TOLD["User"][0]] and user[-1] == f"/var/lib/{name}"


@with_systemd
def test_systemd_calls_it_hardly_exposed() -> None:
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than 250, and does not judge files")
    match = re.search(r"Overall exposure level for jetbroker.service: ([\d.]+)", done.stdout)
    assert match is not None, done.stdout + done.stderr
    assert float(match[1]) <= MOST_EXPOSED, done.stdout


@with_systemd
def test_systemd_understands_it(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/jetbroker/bin/jetbroker", "/bin/true"))  # which has to be there
    command = [str(ANALYZE), "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, UNIT.name in done.stderr) == (0, False), done.stderr
