"""The store: every account's streams under one folder, owned by one process."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from jetbroker.errors import StorageError, StoreLockedError, StoreOpenError, StoreVersionError
from jetbroker.store.cache.cache import Cache, Reader
from jetbroker.store.cache.checkpoints import Checkpoints, stream_folder
from jetbroker.store.cache.summary import Summary
from jetbroker.store.compression.packer import PACKED_SEGMENT_BYTES, Packer
from jetbroker.store.disk import Disk
from jetbroker.store.faults import Fault, Faults, Retry
from jetbroker.store.format.documents import (
    clean_positions,
    encode_document,
    header_meta,
    is_domain,
    is_name,
    stream_template,
    template_document,
)
from jetbroker.store.format.names import decode_name, encode_name
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.creation import Creation
from jetbroker.store.log.filelog import DEFAULT_SEGMENT_BYTES, FileLog
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.segmented import SegmentedLog, StoreTotals
from jetbroker.store.log.staging import Staging
from jetbroker.store.log.statelog import StateLog
from jetbroker.store.recovery.assemble import assemble, resume
from jetbroker.store.recovery.decisions import (
    StreamFiles,
    read_checked_json,
    recover_segments,
    stream_id_of,
    survey,
    write_checked_json,
)
from jetbroker.store.reserve import Reserve
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.logs.logger import Logger

STORE_FORMAT = 1
PACKED_STORE_FORMAT = 2  # there may be packed segments
STORE_FILE = "jetbroker.json"
LOCK_FILE = "lock"
RESERVE_FILE = "reserve"
CLEAN_FILE = "clean.json"
CACHE_FOLDER = "cache.mdb"
PROBE_FILE = ".probe"
PROBE_BYTES = 4096
TEMPLATE_PREFIX, TEMPLATE_SUFFIX = "template-", ".json"
# Folders under construction and folders on their way out; both vanish at start-up.
HIDDEN_PREFIX = "."
# Logs that rest give their write buffers back after one to two of these.
REST_SECONDS = 5.0

T = TypeVar("T")


@dataclass
class RecoveredConsumer:
    """A consumer as found on disk."""

    name: str
    config: dict[str, Any]
    created_ns: int
    state_log: StateLog


@dataclass
class RecoveredStream:
    """A stream as found on disk; `damage` has a line for everything that was not as it should be."""

    name: str
    config: dict[str, Any]
    created_ns: int
    log: SegmentedLog
    template: str = ""  # that made it
    consumers: list[RecoveredConsumer] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


@dataclass
class OfflineStream:
    """A stream whose files cannot be used; they stay as they are until it is deleted."""

    name: str
    reason: str
    directory: str


class Store:
    """Opened with `Store.open`; all methods belong to the event loop's thread."""

    def __init__(
        self,
        path: str,
        tick: Tick,
        disk: Disk,
        sync: float | None,
        segment_bytes: int,
        lock_fd: int,
        epoch: str,
        log: Logger | None = None,
    ) -> None:
        self.path = path
        self.tick = tick
        self.disk = disk
        self.segment_bytes = segment_bytes
        self.group = GroupCommit(tick, disk, sync, log)
        self.faults: Faults = self.group.faults
        self._retry = Retry(tick.loop, self._try_again)
        self.file_totals = StoreTotals()
        self.memory_totals = StoreTotals()
        self._lock_fd = lock_fd
        self._files = ThreadPoolExecutor(1, "jetbroker-files")
        self._logs: dict[tuple[str, str], SegmentedLog] = {}
        self._state_logs: dict[tuple[str, str, str], StateLog] = {}
        self._offline: dict[tuple[str, str], OfflineStream] = {}
        self._reserve = Reserve(disk, f"{path}/{RESERVE_FILE}")
        self._reserve.restore()
        # what the last clean stop recorded: stream_id -> last sequence
        self._expected = self._take_clean_positions()
        self._cache = Cache(f"{path}/{CACHE_FOLDER}", disk, epoch)
        self._checkpoints = Checkpoints(self._cache, tick.loop, self._files, self._report)
        self._packer = Packer(tick.loop, disk, self._report, self._note_packed)
        self._rest_timer = tick.loop.call_later(REST_SECONDS, self._rest)

    def _rest(self) -> None:
        for log in self._logs.values():
            if isinstance(log, FileLog):
                log.rest()
        self._rest_timer = self.tick.loop.call_later(REST_SECONDS, self._rest)

    def _report(self, text: str) -> None:
        """What an operator should know but nobody waits for."""
        self.tick.loop.call_exception_handler({"message": "Store", "exception": StorageError(text)})

    def _take_clean_positions(self) -> dict[int, int]:
        return clean_positions(read_checked_json(self.disk, f"{self.path}/{CLEAN_FILE}"))

    @classmethod
    def open(
        cls,
        path: str,
        tick: Tick,
        *,
        sync: float | None = None,
        disk: Disk | None = None,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        domain: str = "",
        log: Logger | None = None,
    ) -> Store:
        """Open or make the store at `path` and lock it.

        `domain` is JetStream's, "" for none: the store names it to those who read it without the broker.

        `sync` is the seconds between fdatasyncs; None means that every commit waits for its own. `log` is told when
        the disk begins to refuse, and when it works again.
        Raises StoreOpenError, StoreLockedError (another broker owns it) or StoreVersionError (nothing is changed).
        """
        disk = disk or Disk()
        _make_root(path, disk)
        lock_fd = _lock(path)
        try:
            with _refusals_named(path):
                epoch = _check_marker(path, disk, domain)
                return cls(path, tick, disk, sync, segment_bytes, lock_fd, epoch, log)
        except BaseException:
            os.close(lock_fd)
            raise

    # --- recovery ---

    def accounts(self) -> list[str]:
        """Names of the accounts that have a folder here; for a start, which removes what is left of those purged."""
        names = []
        for entry in self.disk.listdir(self.path):
            if not os.path.isdir(f"{self.path}/{entry}") or entry == CACHE_FOLDER:
                continue
            if entry.startswith(HIDDEN_PREFIX):
                self._remove_tree(f"{self.path}/{entry}")
                continue
            account = read_checked_json(self.disk, f"{self.path}/{entry}/account.json") or {}
            name = account.get("name")
            names.append(name if is_name(name) and encode_name(name) == entry else decode_name(entry))
        return names

    def recover(self, account: str) -> list[RecoveredStream]:
        """Open every stream of an account; those that cannot be opened are in `offline` then.

        Raises StoreOpenError when the disk refuses.
        """
        with _refusals_named(self._account_directory(account)):
            return self._recover(account)

    def _recover(self, account: str) -> list[RecoveredStream]:
        directory = self._account_directory(account)
        if not os.path.isdir(directory):
            return []
        out = []
        with self._cache.reading() as cached:
            for entry in self.disk.listdir(directory):
                path = f"{directory}/{entry}"
                if not os.path.isdir(path):
                    continue
                if entry.startswith(HIDDEN_PREFIX):
                    self._remove_tree(path)
                    continue
                try:
                    out.append(self._recover_stream(account, path, cached))
                except (StorageError, MemoryError) as error:
                    name = decode_name(entry)
                    self._offline[account, name] = OfflineStream(name, str(error) or "not enough memory", path)
        if self._cache.thrown_away:
            self._report(f"the cache was thrown away and is made anew: {self._cache.thrown_away}")
            self._cache.thrown_away = ""
        return out

    def offline(self, account: str) -> list[OfflineStream]:
        """The streams of an account that `recover` could not open."""
        return [stream for (owner, _), stream in self._offline.items() if owner == account]

    def _recover_stream(self, account: str, directory: str, cached: Reader) -> RecoveredStream:
        """Raises StorageError, OSError or MemoryError; then nothing of it is open."""
        known: dict[int, Summary] = {}

        def summaries() -> dict[int, Summary]:
            known.update(cached.stream("/".join(directory.split(os.sep)[-2:])))
            return known

        files = survey(self.disk, directory, summaries)
        try:
            log = self._assemble(account, directory, files)
            self._checkpoints.watch(log)
            for first_seq in known.keys() - {found.name_seq for found in files.segments}:
                self._checkpoints.forget_segment(stream_folder(log), first_seq)
            self._pack_as_configured(log)
        except BaseException:
            files.close(self.disk)
            raise
        meta = log.meta
        self._logs[account, meta["name"]] = log
        consumers = self._recover_consumers(account, meta["name"], log, files.damage)
        template = stream_template(meta)
        return RecoveredStream(meta["name"], meta["config"], meta["created"], log, template, consumers, files.damage)

    def _assemble(self, account: str, directory: str, files: StreamFiles) -> FileLog:
        """The log of a stream's files, ready to be appended to. Raises StorageError or OSError."""
        meta = files.meta
        if meta is None:
            headers = [s.header for s in reversed(files.segments) if s.header is not None]
            found = [header_meta(header.meta, header.stream_id) for header in headers]
            meta = next((each for each in found if each is not None), None)
        if meta is None:
            raise StorageError(f"{directory} is damaged: neither stream.json nor a segment header is sound")
        _check_place(directory, account, meta)
        stream_id = stream_id_of(files) or meta["stream_id"]
        log = self._file_log(directory, stream_id, meta)
        log.on_sealed = self._checkpoints.describe(log)
        segments, active = recover_segments(self.disk, files, log)
        if files.meta is not None:
            log.meta = files.meta
        _check_place(directory, account, log.meta)
        expected = self._expected.get(stream_id, 0)
        if assemble(log, segments, expected):
            files.damage.append(f"{directory}: ends before sequence {expected}, where the last clean stop left it")
            active = None
        resume(log, active)
        return log

    def _recover_consumers(self, account: str, stream: str, log: FileLog, damage: list[str]) -> list[RecoveredConsumer]:
        folder = f"{log.directory}/consumers"
        out = []
        entries = self.disk.listdir(folder) if os.path.isdir(folder) else []
        # first, for a damaged log is given such a file again
        for entry in entries:
            if ".log.new" in entry:
                self.disk.unlink(f"{folder}/{entry}")
        for entry in entries:
            path = f"{folder}/{entry}"
            if entry.endswith(".log"):
                state_log = StateLog.recover(
                    self.tick, self.disk, self.group, path, log.stream_id, damage, self._reserve
                )
                if state_log is not None and f"{encode_name(state_log.head['name'])}.log" != entry:
                    damage.append(f"{path}: is the state of another consumer; it is left alone")
                    state_log.abandon()
                elif state_log is not None:
                    head = state_log.head
                    self._state_logs[account, stream, head["name"]] = state_log
                    out.append(RecoveredConsumer(head["name"], head["config"], head["created"], state_log))
        return out

    def _file_log(self, directory: str, stream_id: int, meta: dict[str, Any]) -> FileLog:
        log = FileLog(self.tick, self.disk, self.group, directory, stream_id, meta, self.segment_bytes, self._reserve)
        log.totals = self.file_totals
        log.packer = self._packer
        return log

    def _pack_as_configured(self, log: FileLog) -> None:
        """Streams with compression have smaller segments, which are packed once they are sealed."""
        packs = log.meta["config"].get("compression", "none") != "none"
        log.set_packing(packs, min(self.segment_bytes, PACKED_SEGMENT_BYTES) if packs else self.segment_bytes)

    def _note_packed(self) -> None:
        """In a thread, before the first segment is packed: releases that do not know of it leave the store alone."""
        file = f"{self.path}/{STORE_FILE}"
        found = read_checked_json(self.disk, file)
        if found is not None and found.get("format") == STORE_FORMAT:
            write_checked_json(self.disk, file, {**found, "format": PACKED_STORE_FORMAT})

    # --- streams ---

    async def create_stream(
        self, account: str, name: str, config: dict[str, Any], storage: str, created_ns: int, template: str = ""
    ) -> SegmentedLog:
        """Make a stream; it is durable when this returns. `template`: the one that made it. Raises StorageError."""
        if storage == "memory":
            memory = MemoryLog(self.tick)
            memory.totals = self.memory_totals
            self._logs[account, name] = memory
            return memory
        log, note = await self._hidden_log(account, name, config, created_ns, template)
        directory = f"{self._account_directory(account)}/{encode_name(name)}"
        creation = Creation(self.group, self.disk, log, note, directory)
        try:
            log.start()
            await creation.finish()
        except (OSError, StorageError) as error:
            log.abandon()
            await self._in_thread(self._remove_tree, creation.path)
            raise StorageError(f"{directory}: {error}") from error
        finally:
            self.disk.close(note)
        self._checkpoints.watch(log)
        self._pack_as_configured(log)
        self._logs[account, name] = log
        return log

    async def _hidden_log(
        self, account: str, name: str, config: dict[str, Any], created_ns: int, template: str = ""
    ) -> tuple[FileLog, int]:
        """A log that is not started, in a folder with a hidden name, and the open stream.json, which is not synced."""
        stream_id = int.from_bytes(self.disk.random_bytes(8), "little")
        meta = {
            "account": account,
            "stream": name,
            "name": name,
            "created": created_ns,
            "stream_id": stream_id,
            "config": config,
        }
        if template:
            meta["template"] = template
        hidden = f"{self._account_directory(account)}/.new-{self.disk.random_bytes(8).hex()}"
        log = self._file_log(hidden, stream_id, meta)
        return log, await self._in_thread(self._make_stream_files, account, hidden, meta)

    async def stage_stream(self, account: str, name: str, config: dict[str, Any], created_ns: int) -> Staging:
        """A stream that nobody sees before :meth:`publish_stream`; a start removes it. Raises StorageError."""
        log, note = await self._hidden_log(account, name, config, created_ns)
        staging = Staging(self.tick, self.disk, self.group, log, self._reserve)
        try:
            await self._in_thread(self.disk.fdatasync, note)
            log.start()
        except StorageError:
            await self.discard_stream(staging)
            raise
        finally:
            self.disk.close(note)
        return staging

    async def publish_stream(self, staging: Staging) -> None:
        """Give a staged stream, whose name is free, its place; it is durable when this returns. Raises StorageError.

        What its log's `meta` says by now holds.
        """
        log = staging.log
        await self._in_thread(write_checked_json, self.disk, f"{log.directory}/stream.json", log.meta)
        account, name = log.meta["account"], log.meta["name"]
        directory = f"{self._account_directory(account)}/{encode_name(name)}"
        await staging.publish(directory)
        self._checkpoints.watch(log)
        self._pack_as_configured(log)
        self._logs[account, name] = log
        for consumer, state_log in staging.consumers.items():
            self._state_logs[account, name, consumer] = state_log

    async def discard_stream(self, staging: Staging) -> None:
        """Nothing is left of a staged stream. Raises StorageError."""
        await staging.close()
        self.file_totals.discount(staging.log)
        await self._in_thread(self._remove_tree, staging.log.directory)

    def _make_stream_files(self, account: str, directory: str, meta: dict[str, Any]) -> int:
        """The folder of a stream without its first segment, nothing of it synced; returns the open stream.json."""
        self._make_account(account)
        self.disk.mkdir(directory)
        note = -1
        try:
            self.disk.mkdir(f"{directory}/consumers")
            note = self.disk.open(f"{directory}/stream.json", os.O_RDWR | os.O_CREAT)
            self.disk.write_all(note, encode_document(meta), 0)
        except OSError:
            if note >= 0:
                self.disk.close(note)
            self._remove_tree(directory)
            raise
        return note

    def _publish_directory(self, hidden: str, directory: str) -> None:
        self.disk.rename(hidden, directory)
        self.disk.sync_directory(os.path.dirname(directory))

    def _hide_directory(self, directory: str, gone: str) -> bool:
        """Give what is to be removed another name; False: an earlier try has, and the next start removes it."""
        is_there = os.path.isdir(directory)
        if is_there:
            self.disk.rename(directory, gone)
        self.disk.sync_directory(os.path.dirname(directory))
        return is_there

    def _make_account(self, account: str) -> None:
        directory = self._account_directory(account)
        if os.path.exists(f"{directory}/account.json"):
            return
        if not os.path.isdir(directory):
            self.disk.mkdir(directory)
        write_checked_json(self.disk, f"{directory}/account.json", {"name": account})
        self.disk.sync_directory(self.path)

    async def update_stream(self, account: str, name: str, config: dict[str, Any]) -> None:
        """Store a stream's new configuration; durable when this returns. Raises StorageError."""
        log = self._logs[account, name]
        if not isinstance(log, FileLog):
            return
        meta = {**log.meta, "config": config}
        await self._in_thread(write_checked_json, self.disk, f"{log.directory}/stream.json", meta)
        log.write_config(meta)
        self._pack_as_configured(log)
        await log.commit()

    async def delete_stream(self, account: str, name: str) -> None:
        """Remove a stream; it cannot come back once this returns. Raises StorageError."""
        offline = self._offline.get((account, name))
        if offline is not None:
            await self._remove_directory(account, offline.directory)
            self._offline.pop((account, name), None)
            return
        log = self._logs.pop((account, name))
        for key in [key for key in self._state_logs if key[:2] == (account, name)]:
            self._state_logs.pop(key).abandon()
        with suppress(StorageError):  # what could not be written is not missed
            await log.close()
        if isinstance(log, FileLog):
            self.file_totals.discount(log)
            await self._packer.leave(log)
            self._checkpoints.forget_stream(log)
            await self._remove_directory(account, log.directory)

    async def _remove_directory(self, account: str, directory: str) -> None:
        gone = f"{self._account_directory(account)}/.gone-{self.disk.random_bytes(8).hex()}"
        if await self._in_thread(self._hide_directory, directory, gone):
            await self._in_thread(self._remove_tree, gone)

    # --- consumers ---

    async def create_consumer(
        self, account: str, stream: str, name: str, config: dict[str, Any], created_ns: int, memory: bool
    ) -> StateLog:
        """Make a consumer's state log; it is durable when this returns. Raises StorageError."""
        state_log = self.begin_consumer(account, stream, name, config, created_ns, memory)
        await state_log.commit()
        return state_log

    def begin_consumer(
        self, account: str, stream: str, name: str, config: dict[str, Any], created_ns: int, memory: bool
    ) -> StateLog:
        """Make a consumer's state log; it is durable after its first commit. Raises StorageError."""
        log = self._logs[account, stream]
        head = {"stream": stream, "account": account, "name": name, "created": created_ns, "config": config}
        if memory or not isinstance(log, FileLog):
            state_log = StateLog.in_memory(self.tick, head)
        else:
            path = f"{log.directory}/consumers/{encode_name(name)}.log"
            state_log = StateLog.create(self.tick, self.disk, self.group, path, log.stream_id, head, self._reserve)
        self._state_logs[account, stream, name] = state_log
        return state_log

    async def delete_consumer(self, account: str, stream: str, name: str) -> None:
        """Remove a consumer's state; it cannot come back once this returns. Raises StorageError."""
        state_log = self._state_logs.pop((account, stream, name))
        if state_log.memory:
            state_log.abandon()
            return
        await state_log.close()
        await self._in_thread(self._unlink_durably, state_log.path)

    def _unlink_durably(self, path: str) -> None:
        with suppress(FileNotFoundError):  # one that never reached the disk
            self.disk.unlink(path)
        self.disk.sync_directory(os.path.dirname(path))

    # --- stream templates ---

    def templates(self, account: str) -> list[dict[str, Any]]:
        """What :meth:`write_template` was given; a damaged file is reported and left alone."""
        directory = self._account_directory(account)
        found = []
        for entry in self.disk.listdir(directory) if os.path.isdir(directory) else []:
            if not (entry.startswith(TEMPLATE_PREFIX) and entry.endswith(TEMPLATE_SUFFIX)):
                continue
            document = template_document(read_checked_json(self.disk, f"{directory}/{entry}"))
            if document is None or self._template_file(account, document["name"]) != f"{directory}/{entry}":
                self._report(f"{directory}/{entry} is damaged, or not a template of this account; it is left alone")
            else:
                found.append(document)
        return found

    async def write_template(self, account: str, name: str, document: dict[str, Any]) -> None:
        """Store a stream template; durable when this returns. Raises StorageError."""
        await self._in_thread(self._write_template, account, self._template_file(account, name), document)

    def _write_template(self, account: str, file: str, document: dict[str, Any]) -> None:
        self._make_account(account)
        write_checked_json(self.disk, file, document)

    async def remove_template(self, account: str, name: str) -> None:
        """Remove a template; it cannot come back once this returns. Raises StorageError."""
        await self._in_thread(self._unlink_durably, self._template_file(account, name))

    def _template_file(self, account: str, name: str) -> str:
        return f"{self._account_directory(account)}/{TEMPLATE_PREFIX}{encode_name(name)}{TEMPLATE_SUFFIX}"

    def _account_directory(self, account: str) -> str:
        return f"{self.path}/{encode_name(account)}"

    def _remove_tree(self, path: str) -> None:
        for entry in self.disk.listdir(path):
            child = f"{path}/{entry}"
            if os.path.isdir(child) and not os.path.islink(child):
                self._remove_tree(child)
            else:
                self.disk.unlink(child)
        self.disk.rmdir(path)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking file work beside the event loop; its OSError becomes a StorageError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._files, work, *arguments)
        except OSError as error:
            file = str(error.filename or self.path)
            self.faults.begin(self, Fault("", "", "", file, str(error.strerror)))
            self._retry.again()
            raise StorageError(f"{file}: {error.strerror}") from error

    def _try_again(self) -> None:
        """Configurations and folders could not be written: does a file of no meaning get to the disk?"""
        self.tick.loop.run_in_executor(self._files, self._probe).add_done_callback(self._tried)

    def _probe(self) -> None:
        path = f"{self.path}/{PROBE_FILE}"
        fd = self.disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self.disk.write_all(fd, bytes(PROBE_BYTES), 0)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        self.disk.unlink(path)

    def _tried(self, done: asyncio.Future[None]) -> None:
        if isinstance(done.exception(), OSError):
            self._retry.again()
            return
        done.result()
        self._retry.worked()
        self.faults.over(self)

    async def close_account(self, account: str) -> None:
        """Commit and close everything of one account: :meth:`recover` opens it again, without its memory streams."""
        for key in [key for key in self._state_logs if key[0] == account]:
            await self._state_logs.pop(key).close()
        for name in [name for name in self._logs if name[0] == account]:
            log = self._logs.pop(name)
            await log.close()
            if isinstance(log, FileLog):
                self.file_totals.discount(log)
                await self._packer.leave(log)

    async def remove_account(self, account: str) -> None:
        """Remove the folder of an account that has no streams open. Raises StorageError."""
        await self._in_thread(self._remove_account, self._account_directory(account))

    def _remove_account(self, directory: str) -> None:
        if os.path.isdir(directory):
            gone = f"{self.path}/.gone-{self.disk.random_bytes(8).hex()}"
            self._publish_directory(directory, gone)
            self._remove_tree(gone)

    async def close(self) -> None:
        """Commit everything, close all files and give up the lock."""
        positions = {}
        self._rest_timer.cancel()
        self._retry.cancel()
        await self._packer.stop()
        await self._checkpoints.close([log for log in self._logs.values() if isinstance(log, FileLog)])
        for state_log in self._state_logs.values():
            await state_log.close()
        for log in self._logs.values():
            await log.close()
            if isinstance(log, FileLog) and log.failed is None:
                positions[str(log.stream_id)] = log.synced
        await self._in_thread(write_checked_json, self.disk, f"{self.path}/{CLEAN_FILE}", {"positions": positions})
        self._state_logs.clear()
        self._logs.clear()
        await self._packer.close()
        await self.group.close()
        self._files.shutdown(wait=True)
        os.close(self._lock_fd)


@contextlib.contextmanager
def _refusals_named(path: str) -> Iterator[None]:
    """What the disk refuses during a start becomes a StoreOpenError that says where, and what to do."""
    try:
        yield
    except OSError as error:
        raise StoreOpenError(
            f"{error.filename or path}: {error.strerror or error}; the broker starts when the disk works"
            " (see its own log, its free space, and who may write there)"
        ) from error


def _make_root(path: str, disk: Disk) -> None:
    missing = []
    try:
        at = os.path.abspath(path)
        while not os.path.isdir(at):
            missing.append(at)
            if os.path.exists(at):
                raise StoreOpenError("storage directory is not a directory")
            at = os.path.dirname(at)
        for folder in reversed(missing):
            disk.mkdir(folder)
            disk.sync_directory(os.path.dirname(folder))
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise StoreOpenError(f"could not create storage directory - mkdir {missing[-1]}: {why}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise StoreOpenError("storage directory is not writable")


def _lock(path: str) -> int:
    try:
        fd = os.open(f"{path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise StoreOpenError(f"could not create storage directory - {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(fd, 32, 0).strip()
        os.close(fd)
        raise StoreLockedError(path, int(owner) if owner.isdigit() else 0) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _check_place(directory: str, account: str, meta: dict[str, Any]) -> None:
    """Is this folder the stream's own? Raises StorageError."""
    folders = directory.split(os.sep)[-2:]
    if folders != [encode_name(account), encode_name(meta["name"])] or meta["account"] != account:
        raise StorageError(
            f"{directory} holds the files of stream {meta['name']!r} of account {meta['account']!r}, not its own"
        )


def _check_marker(path: str, disk: Disk, domain: str) -> str:
    """The store's epoch: a random id that its cache must name too. The marker names this domain from now on."""
    file = f"{path}/{STORE_FILE}"
    found: dict[str, Any] | None = {"format": STORE_FORMAT}
    if os.path.exists(file):
        found = read_checked_json(disk, file)
    version = found.get("format") if found is not None else None
    if found is None or type(version) is not int:
        # only this marker is damaged; every segment names its own version
        return ""
    if version not in (STORE_FORMAT, PACKED_STORE_FORMAT):
        raise StoreVersionError(
            f"{file}: the store has format {version}, this release knows up to {PACKED_STORE_FORMAT}"
        )
    marker = {key: value for key, value in found.items() if key != "domain"}
    if not isinstance(marker.get("epoch"), str):
        marker["epoch"] = disk.random_bytes(16).hex()
    if is_domain(domain):
        marker["domain"] = domain
    if marker != found:
        write_checked_json(disk, file, marker)
    return str(marker["epoch"])
