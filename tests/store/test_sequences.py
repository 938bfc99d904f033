"""The range of sequences: how far a log may be moved, where it ends, and what skipped sequences cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetbroker import limits
from jetbroker.errors import SequenceError
from jetbroker.store.format import records as store_format
from jetbroker.store.log.segmented import SegmentedLog
from tests.store.support import ACCOUNT, open_store, run, walk

FAR = limits.STREAM_SKIP_SEQUENCE
END = limits.STREAM_LAST_SEQUENCE


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_log_is_moved_to_the_bound_and_no_farther(tmp_path: Path, storage: str) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path / "s"))
        log = await store.create_stream(ACCOUNT, "S", {}, storage, 1)
        for seq in (2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1, FAR + 1):
            with pytest.raises(SequenceError):
                log.skip_to(seq)
        assert (log.last_seq, log.first_seq) == (0, 0)
        log.append_message(b"a", b"first")
        log.skip_to(FAR)
        log.skip_to(FAR)
        for seq in (FAR, FAR + 1):
            assert log.append_message(b"a", b"far") == seq
        log.skip_to(FAR + 3)  # a sequence that nobody is interested in
        await log.commit()
        assert walk(log) == [1, FAR, FAR + 1]
        assert log.deleted_count() == FAR - 2 + 1
        assert log.deleted() == list(range(2, 2 + limits.JS_DELETED_LISTED))
        assert log.purge(b"a", 2**64 - 1, 1) == 2
        assert log.purge(b"", 2**64 - 1, 0) == 1
        assert log.first_seq == FAR + 3
        await store.close()
        if storage == "file":
            store = open_store(str(tmp_path / "s"))
            (recovered,) = store.recover(ACCOUNT)
            assert (recovered.log.messages, recovered.log.last_seq) == (0, FAR + 2)
            assert recovered.log.append_message(b"a", b"next") == FAR + 3
            await store.close()

    run(scenario())


def log_at_the_end(path: Path, first_seq: int) -> None:
    """Replace the stream's segment by one that begins at `first_seq`."""
    (segment,) = path.rglob("*.seg")
    header = store_format.decode_header(segment.read_bytes())
    assert header is not None
    segment.unlink()
    (path / "clean.json").unlink()
    content = store_format.encode_header(header.stream_id, first_seq, header.created_ns, 0, 2**64 - 1, header.meta)
    content += store_format.encode_deletions(header.stream_id, first_seq - 1, 1, [(1, first_seq - 1)])
    (segment.parent / f"{first_seq:020d}.seg").write_bytes(content)


def test_a_log_at_its_end_refuses_and_never_wraps(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        await store.close()
        log_at_the_end(path, END - 1)
        for expected in ([END - 1, END], []):
            store = open_store(str(path))
            (recovered,) = store.recover(ACCOUNT)
            log = recovered.log
            assert isinstance(log, SegmentedLog)
            for seq in expected:
                assert log.append_message(b"a", b"") == seq
            for _ in range(3):
                with pytest.raises(SequenceError, match="no sequences left"):
                    log.append_message(b"a", b"")
            with pytest.raises(SequenceError):
                log.skip_to(END + 2)
            assert walk(log) == [END - 1, END]
            assert log.read_next(None, END)[1] == END
            assert log.failed is None
            await store.close()

    run(scenario())


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_sequences_used_up_one_by_one_make_few_files_and_bounded_slots(tmp_path: Path, storage: str) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        log = await store.create_stream(ACCOUNT, "S", {}, storage, 1)
        for _ in range(200):
            log.skip_to(log.last_seq + 2)
        await log.commit()
        assert len(list(path.rglob("*.seg"))) == (storage == "file")
        assert log.append_message(b"a", b"x") == 201
        for _ in range(3 * limits.STREAM_EMPTY_SLOTS):
            log.skip_to(log.last_seq + 2)
        last = log.append_message(b"a", b"y")
        assert last == 202 + 3 * limits.STREAM_EMPTY_SLOTS
        await log.commit()
        assert log.deleted_count() == last - 202
        assert walk(log) == [201, last]
        await store.close()
        if storage == "file":
            # what lies between two messages costs nothing per sequence
            assert sum(file.stat().st_size for file in path.rglob("*.seg")) < 64 * limits.STREAM_EMPTY_SLOTS
            store = open_store(str(path))
            (recovered,) = store.recover(ACCOUNT)
            assert walk(recovered.log) == [201, last]
            assert recovered.log.lost_count() == 0
            await store.close()

    run(scenario())


def test_a_kill_behind_used_up_sequences_keeps_the_position(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        for _ in range(5):
            log.skip_to(log.last_seq + 2)
        await log.commit()
        store = None  # type: ignore[assignment]
        copy = tmp_path / "copy"
        import shutil

        shutil.copytree(path, copy)
        again = open_store(str(copy))
        (recovered,) = again.recover(ACCOUNT)
        assert (recovered.log.last_seq, recovered.log.messages, recovered.damage) == (5, 0, [])
        assert recovered.log.append_message(b"a", b"") == 6
        await again.close()

    run(scenario())


def test_missing_sequences_are_counted_not_listed(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s"
        store = open_store(str(path))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"")
        log.skip_to(2**40)
        log.append_message(b"a", b"")
        log.skip_to(2**41)
        log.append_message(b"a", b"")
        await store.close()
        # the segment that says that 2**40 + 1 to 2**41 were skipped, and the one before
        for name in (2**40, 1):
            (path / "%24G" / "S" / f"{name:020d}.seg").unlink()
        store = open_store(str(path))
        (recovered,) = store.recover(ACCOUNT)
        log = recovered.log
        assert log.messages == 1
        assert log.lost_count() + log.deleted_count() <= 2**41
        assert len(log.lost()) <= limits.JS_DELETED_LISTED
        assert log.lost() == sorted(log.lost())
        await store.close()

    run(scenario())
