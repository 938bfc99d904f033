"""A stream is there after its creation has returned, and not by halves before: whenever the power goes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from jetbroker.errors import StorageError
from jetbroker.store.disk import ObservedDisk
from tests.store.support import ACCOUNT, FaultyDisk, kill, open_store, run


class PowerDisk(ObservedDisk):
    """Knows what is on disk: bytes since fdatasync, names since their folder's sync. Snapshots both before each call.

    `least` is what a power failure leaves at least. `names` has every name, as when the journal was written just then,
    with the bytes of `least`.
    """

    def __init__(self, root: Path, images: Path) -> None:
        self.root = root
        self.images = images
        self.synced: dict[int, bytes] = {}  # inode -> content
        self.folders: dict[int, dict[str, int]] = {}  # inode -> names
        self.active = False
        self.calls: list[str] = []

    def before(self, call: str, path: str, size: int, offset: int) -> None:
        if not self.active or call == "read":
            return
        self.snapshot()
        self.calls.append(call)
        if call == "fdatasync":
            # the file may have been renamed since it was opened
            for found in self.root.rglob("*"):
                if found.name in (os.path.basename(path), os.path.basename(path).removesuffix(".new")):
                    self.synced[found.stat().st_ino] = found.read_bytes() if found.is_file() else b""
        elif call == "sync_directory":
            self.sync_names(Path(path))

    def sync_names(self, path: Path) -> None:
        self.folders[path.stat().st_ino] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}

    def settle(self) -> None:
        """Everything that is there is on disk."""
        for path in [self.root, *self.root.rglob("*")]:
            if path.is_dir():
                self.sync_names(path)
            else:
                self.synced[path.stat().st_ino] = path.read_bytes()

    def snapshot(self) -> None:
        inodes = {path.stat().st_ino: path for path in [self.root, *self.root.rglob("*")]}
        for kind in ("least", "names"):
            image = self.images / f"{len(self.calls):03d}-{kind}"
            self._copy(self.root, image, inodes, kind == "names")

    def _copy(self, source: Path, target: Path, inodes: dict[int, Path], all_names: bool) -> None:
        target.mkdir(parents=True)
        if all_names:
            entries = {entry.name: entry.stat().st_ino for entry in source.iterdir()}
        else:
            entries = self.folders.get(source.stat().st_ino, {})
        for name, inode in entries.items():
            found = inodes.get(inode)
            if found is not None and found.is_dir():
                self._copy(found, target / name, inodes, all_names)
            elif found is not None:
                (target / name).write_bytes(self.synced.get(inode, b""))


@pytest.mark.parametrize("sync", [None, 3600.0])
def test_power_failure_at_every_call(tmp_path: Path, sync: float | None) -> None:
    async def scenario() -> None:
        root = tmp_path / "s"
        disk = PowerDisk(root, tmp_path / "images")
        store = open_store(str(root), disk=disk, sync=sync)
        disk.settle()
        disk.active = True
        await store.create_stream(ACCOUNT, "S", {"subjects": ["a"]}, "file", 1)
        answered = len(disk.calls)
        await store.create_stream(ACCOUNT, "T", {"subjects": ["b"]}, "file", 2)
        disk.snapshot()
        disk.active = False
        await store.close()
        seen = set()
        for image in sorted((tmp_path / "images").iterdir()):
            found = found_streams(image)
            seen.add(tuple(found))
            at = int(image.name[:3])
            assert found in ([], ["S"], ["S", "T"])
            assert "S" in found or at < answered, image.name
            assert "T" in found or at < len(disk.calls), image.name
        assert len(seen) == 3

    run(scenario())


def found_streams(path: Path) -> list[str]:
    """Names of the streams; nothing else may be there, and nothing to complain of."""
    reports: list[str] = []
    store = open_store(str(path))
    store._report = reports.append  # type: ignore[method-assign, assignment]
    found = []
    for account in store.accounts():
        for recovered in store.recover(account):
            assert recovered.damage == []
            assert recovered.config == {"subjects": ["a" if recovered.name == "S" else "b"]}
            assert recovered.log.append_message(recovered.config["subjects"][0].encode(), b"x") == 1
            found.append(recovered.name)
    assert reports == []
    assert [entry for entry in os.listdir(path / "%24G") if entry.startswith(".")] == [] if found else True
    kill(store)
    return found


@pytest.mark.parametrize("failing", ["mkdir", "open", "write", "fdatasync", "sync_directory", "rename"])
def test_a_failure_at_any_call_leaves_nothing(tmp_path: Path, failing: str) -> None:
    """The n-th call of its kind fails, for each n: the answer is an error, the next attempt is fine."""

    async def scenario() -> None:
        left = 0

        def rule(call: str, path: str, size: int) -> int | None:
            nonlocal left
            if call == failing and left:
                left -= 1
                if not left:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return None

        store = open_store(str(tmp_path / "s"), disk=FaultyDisk(rule))
        await store.create_stream(ACCOUNT, "before", {}, "file", 1)
        folder = tmp_path / "s" / "%24G"
        failures = 0
        for n in range(1, 10):
            left = n
            try:
                await store.create_stream(ACCOUNT, "S", {}, "file", 1)
            except StorageError:
                failures += 1
                assert sorted(os.listdir(folder)) == ["account.json", "before"]
            else:
                left = 0
                break
        assert failures >= 1
        assert sorted(os.listdir(folder)) == ["S", "account.json", "before"]
        await store.close()

    run(scenario())


def test_a_folder_that_is_in_the_way_stays(tmp_path: Path) -> None:
    """A damaged stream that recovery has left alone is no part of a failed creation."""

    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"))
        await store.create_stream(ACCOUNT, "other", {}, "file", 1)
        in_the_way = tmp_path / "s" / "%24G" / "S"
        shutil.copytree(tmp_path / "s" / "%24G" / "other", in_the_way)
        with pytest.raises(StorageError):
            await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        assert (in_the_way / "stream.json").exists()
        assert sorted(os.listdir(in_the_way.parent)) == ["S", "account.json", "other"]
        await store.close()

    run(scenario())
