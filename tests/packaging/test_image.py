"""The steps of docker/Dockerfile in a bare root that debootstrap made, without Docker: `make test-image` runs this."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import dockerfile
from tests.support.process import STOP_TIMEOUT_S, ServerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
STAGES = dockerfile.stages((ROOT / "docker" / "Dockerfile").read_text())
IMAGE = STAGES[-1]
BASE = os.environ.get("JETBROKER_BARE_ROOT", "")
# to reach the registries as this machine does
OF_THIS_MACHINE = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not BASE, reason="it compiles everything in a root of its own: make test-image does (as root)"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root that the last stage leaves behind."""
    folder = tmp_path_factory.mktemp("image")
    base = folder / "base"
    subprocess.run(["cp", "-a", "--reflink=auto", BASE, base], check=True)
    for name in OF_THIS_MACHINE:
        if Path(name).is_file():
            (base / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, base / name[1:])
    if OWN_AUTHORITIES.is_dir():
        shutil.copytree(OWN_AUTHORITIES, base / str(OWN_AUTHORITIES)[1:], dirs_exist_ok=True)
    return dockerfile.BareRoots(STAGES, base, ROOT, folder).built("")


@pytest.fixture(scope="module")
def broker(image: Path) -> Iterator[ServerProcess]:
    """The image's command, as its user and as process 1, on a port of the test's."""
    user, _, group = IMAGE.last("USER").partition(":")
    command = [
        "unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", f"--root={image}", "--mount-proc",
        "setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
        "env", "-i", "HOME=/data", "PATH=/opt/jetbroker/bin:/usr/bin:/bin",
        *dockerfile.exec_form(IMAGE.last("ENTRYPOINT")), *dockerfile.exec_form(IMAGE.last("CMD")),
    ]  # fmt: skip
    with ServerProcess(command) as started:
        yield started


def test_the_broker_runs_as_its_user(broker: ServerProcess, image: Path) -> None:
    assert any("Listening for client connections" in line for line in broker.log)
    store = image / "data" / "jetstream"
    assert store.is_dir() and store.stat().st_uid == int(IMAGE.last("USER").partition(":")[0])


def test_its_health_check_works(broker: ServerProcess, image: Path) -> None:
    command = dockerfile.exec_form(IMAGE.last("HEALTHCHECK").partition(" CMD ")[2])
    assert dockerfile.inside(image, command, "/") == ""


def test_nothing_of_the_build_is_left(image: Path) -> None:
    assert not (image / "src").exists()
    assert not list(image.glob("opt/jetbroker/lib/python3*/site-packages/pip"))
    assert not shutil.which("gcc", path=str(image / "usr/bin"))
    size = subprocess.run(["du", "-sm", "--exclude=proc", image], capture_output=True, text=True, check=True).stdout
    print(f"the image's files: {size.split()[0]} MB")
    assert int(size.split()[0]) < 500


def test_it_ends_in_good_order(broker: ServerProcess) -> None:
    assert broker.process is not None
    inner = subprocess.run(
        ["pgrep", "--parent", str(broker.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(inner[0]), 15)
    assert broker.process.wait(STOP_TIMEOUT_S) == 0
    assert any("Server Exiting" in line for line in broker.log)
