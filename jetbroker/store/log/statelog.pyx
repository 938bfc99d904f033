# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One consumer's state on disk (see statelog.pxd).

File: `JBCON\\0\\0` and the version (1), then frames: AB 'J' 'S' + kind (`H` head, `S` state), u32 CRC-32C of the bytes
behind it (started like the records of the stream, with the kind mixed in), u32 length of the payload, payload.  The head is JSON with the
consumer's name, creation time and configuration; it is always written twice, so that no single bit costs a consumer.
"""
import os
from functools import partial

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.format.documents import consumer_head
from jetbroker.store.faults import Fault, Retry

from jetbroker.store.log.commit cimport GroupCommit, Tail, Waiters
from jetbroker.store.disk cimport Disk
from jetbroker.store.format.records cimport crc32c_update, load_u32, record_seed, store_u32
from jetbroker.tick cimport PHASE_STATE_LOGS, Tick, TickTask

STATE_MAGIC = b"JBCON\0\0\x01"
cdef enum:
    FRAME_HEADER = 12
    FRAME_HEAD = 72        # 'H'
    FRAME_STATE = 83       # 'S'
# A file is worth rewriting when it is larger than this and than four snapshots.
cdef uint64_t REWRITE_BYTES = 1024 * 1024


cdef bint frame_is_valid(const char* p, uint64_t available, uint32_t seed) noexcept nogil:
    cdef uint64_t length
    if available < FRAME_HEADER or <unsigned char>p[0] != 0xAB or p[1] != c'J' or p[2] != c'S':
        return False
    if p[3] != FRAME_HEAD and p[3] != FRAME_STATE:
        return False
    length = load_u32(p + 8)
    return FRAME_HEADER + length <= available and crc32c_update(seed ^ p[3], p + 8, 4 + length) == load_u32(p + 4)


cdef Py_ssize_t next_frame(const char* data, Py_ssize_t n, Py_ssize_t at, uint32_t seed) noexcept nogil:
    """Offset of the first valid frame at or behind `at`, -1: none."""
    cdef const char* p
    while at + FRAME_HEADER <= n:
        p = <const char*>memchr(data + at, 0xAB, n - at)
        if p == NULL:
            return -1
        at = p - data
        if frame_is_valid(p, n - at, seed):
            return at
        at += 1
    return -1


def read_frames(bytes data not None, uint32_t seed):
    """(head or None, [entries before any damage], end of the last frame taken, damaged).

    `damaged` is True when entries were lost, not when the end of the file is torn.
    """
    cdef const char* p = PyBytes_AS_STRING(data)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t at = len(STATE_MAGIC)
    cdef Py_ssize_t found
    cdef Py_ssize_t head_size = -1
    cdef Py_ssize_t end = at
    head = None
    entries = []
    damaged = False
    while at < n:
        found = next_frame(p, n, at, seed)
        if found < 0:
            break
        # one damaged copy of the head costs nothing: the other is beside it
        if found != at and not (head_size == found - at or (p[found + 3] == FRAME_HEAD and found - at == FRAME_HEADER
                                                            + <Py_ssize_t>load_u32(p + found + 8))):
            damaged = True
        at = found + FRAME_HEADER + load_u32(p + found + 8)
        if p[found + 3] == FRAME_HEAD:
            head_size = at - found
            described = consumer_head(store_format.decode_object(p[found + FRAME_HEADER:at]))
            head = described if described is not None else head
            damaged = damaged or described is None
        elif not damaged:
            head_size = -1
            entries.append(p[found + FRAME_HEADER:at])
        if not damaged:
            end = at
    return head, entries, end, damaged


cdef class StateLog(TickTask):
    """One consumer's state on disk. Made by `create`, `recover` or `in_memory`."""

    def __cinit__(self):
        self.fd = self.round_fd = -1
        self.rewrite_above = REWRITE_BYTES
        self.recovered = []
        self.tail = Tail()
        self.waiters = Waiters()

    @staticmethod
    def in_memory(Tick tick not None, dict head not None):
        cdef StateLog log = StateLog()
        log.tick = tick
        log.memory = True
        log.head = head
        log.config = head["config"]
        return log

    @staticmethod
    def create(Tick tick not None, Disk disk not None, GroupCommit group not None, str path, uint64_t stream_id,
               dict head not None, reserve):
        """A new file; it has its name and is durable after the next commit. Raises StorageError."""
        cdef StateLog log = StateLog()
        log._set_up(tick, disk, group, path, stream_id, reserve)
        log.head = head
        log.config = head["config"]
        log._start_file()
        log.request_sync()
        return log

    @staticmethod
    def recover(Tick tick not None, Disk disk not None, GroupCommit group not None, str path, uint64_t stream_id,
                list damage not None, reserve):
        """Open an existing file; None when no head record in it is sound (the file is then left untouched)."""
        cdef StateLog log = StateLog()
        log._set_up(tick, disk, group, path, stream_id, reserve)
        log.fd = disk.open(path, os.O_RDWR)
        size = disk.size(log.fd)
        head, entries, end, damaged = read_frames(disk.read(log.fd, size, 0), log.seed)
        if head is None:
            damage.append(f"{path}: no sound head record; the file is left as it is")
            disk.close(log.fd)
            return None
        log.head = head
        log.config = head["config"]
        log.recovered = entries
        if damaged:
            log._set_aside(damage, entries)
        else:
            if end < size:
                damage.append(f"{path}: torn tail of {size - end} bytes cut")
                disk.truncate(log.fd, end)
            log.tail.go_on(end)
            log.size = end
        return log

    def _set_up(self, Tick tick, Disk disk, GroupCommit group, path, uint64_t stream_id, reserve):
        self.tick = tick
        self.disk = disk
        self.group = group
        self.always = group.interval is None
        self.path = path
        self.seed = record_seed(stream_id)
        self.reserve = reserve

    def _set_aside(self, damage, entries):
        """Go on with what is sound in a new file; until that is on disk the damaged one has its name."""
        self.aside = f"{self.path}.damaged-{self.disk.time_ns()}"
        damage.append(f"{self.path}: damaged; later state is lost, the file is kept as {os.path.basename(self.aside)}")
        self._start_file()
        for entry in entries:
            self.put_frame(FRAME_STATE, entry, len(entry))
        self.request_sync()

    def _start_file(self):
        """Begin a new file under a temporary name; the next round gives it its own."""
        try:
            fd, temporary = self._open_temporary()
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error
        self._leave_file()
        self.fd = fd
        self.temporary = temporary
        self.tail.begin(STATE_MAGIC)
        self.size = len(STATE_MAGIC)
        self.put_head()

    def _leave_file(self):
        """Close the file; one that never got its name is of no use any more. The round under way keeps its own."""
        if self.fd >= 0 and self.fd != self.round_fd:
            self.disk.close(self.fd)
        if self.temporary is not None and self.temporary != self.round_temporary:
            self._remove(self.temporary)

    def _remove(self, temporary):
        try:
            self.disk.unlink(temporary)
        except OSError as error:
            # the next start removes it
            self.tick.loop.call_exception_handler({"message": f"cannot remove {temporary}", "exception": error})

    def _open_temporary(self):
        # a name of its own: the round under way may still be about to rename the one before
        self.temporaries += 1
        temporary = f"{self.path}.new{self.temporaries}"
        return self.disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC), temporary

    def _take_name(self, temporary):
        """Let a new file replace the one before, of which a damaged one is kept first. In the thread, or on the loop."""
        if self.aside is not None:
            self._keep_damaged(self.aside)
            self.aside = None
        self.disk.rename(temporary, self.path)

    def _keep_damaged(self, aside):
        damaged = self.disk.open(self.path, os.O_RDONLY)
        try:
            data = self.disk.read(damaged, self.disk.size(damaged), 0)
        finally:
            self.disk.close(damaged)
        kept = self.disk.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self.disk.write_all(kept, data, 0)
            self.disk.fdatasync(kept)
        finally:
            self.disk.close(kept)

    cdef int put_frame(self, int kind, const char* p, Py_ssize_t n) except -1:
        cdef char* w = self.tail.extend(FRAME_HEADER + n)
        w[0] = <char>0xAB
        w[1] = c'J'
        w[2] = c'S'
        w[3] = <char>kind
        store_u32(w + 8, <uint32_t>n)
        memcpy(w + FRAME_HEADER, p, n)
        store_u32(w + 4, crc32c_update(self.seed ^ kind, w + 8, 4 + n))
        self.size += FRAME_HEADER + n
        return 0

    cdef int put_head(self) except -1:
        cdef bytes text = store_format.encode_json(self.head)
        self.put_frame(FRAME_HEAD, text, len(text))
        self.put_frame(FRAME_HEAD, text, len(text))
        return 0

    cdef uint64_t append(self, const char* p, Py_ssize_t n) except? 0:
        if self.closed:
            raise StorageError(f"{self.path}: the state log is closed")
        self.position += FRAME_HEADER + n
        if not self.memory:
            self.put_frame(FRAME_STATE, p, n)
        if not self.scheduled:
            self.tick.schedule(PHASE_STATE_LOGS, self)
        return self.position

    def append_entry(self, bytes entry not None):
        """`append` for Python callers."""
        return self.append(entry, len(entry))

    cpdef int request_sync(self) except -1:
        """What was appended so far is to be synced with the next group."""
        self.wants_sync = True
        if not self.scheduled:
            self.tick.schedule(PHASE_STATE_LOGS, self)
        return 0

    cpdef bint should_rewrite(self, Py_ssize_t snapshot_size) except -1:
        """Has the file grown enough that a snapshot of this size should replace it?"""
        return not self.memory and self.size > self.rewrite_above and self.size > 4 * <uint64_t>snapshot_size

    cpdef int rewrite(self, bytes snapshot) except -1:
        """Replace all entries so far by this one. Raises StorageError; then nothing has changed."""
        if self.memory or self.closed:
            return 0
        try:
            self._start_file()
            self.put_frame(FRAME_STATE, snapshot, PyBytes_GET_SIZE(snapshot))
        finally:
            # whatever the snapshot was thought to take, and also when the disk refuses: not again at once
            self.rewrite_above = max(REWRITE_BYTES, 2 * self.size)
        self.request_sync()
        return 0

    cpdef int update_config(self, dict config) except -1:
        """Store a new configuration; durable after the next commit. Raises StorageError while the disk refuses."""
        if self.failed is not None:
            raise self.failed
        self.undo_config(config)
        return 0

    def undo_config(self, dict config not None):
        """Go back to a configuration whose successor could not be stored: on disk, too, once the disk works."""
        self.config = config
        self.head = {**self.head, "config": config}
        self.position += 1
        if not self.memory:
            self.put_head()
        self.request_sync()

    cdef int run_tick(self) except -1:
        self.flush()
        return 0

    cdef int flush(self) except -1:
        if self.closed:
            return 0
        if self.memory:
            self.written = self.position
            return self.advance(self.position)
        if self.failed is not None and self.retry.waits:
            return 0                   # entries stay in memory until then
        try:
            self.tail.write(self.disk, self.fd)
        except OSError as error:
            self._write_failed(error)
            return 0
        self.written = self.position
        if not self.always and self.temporary is not None and not self._rename_now():
            return 0
        if self.always and (self.wants_sync or self.failed is not None):
            self.group.request(self)
        else:
            self.group.request_later(self)
        self.wants_sync = False
        if not self.always:
            if self.failed is not None:
                self._works()
            self.advance(self.written)
        return 0

    def _write_failed(self, error):
        """Entries wait in memory; the disk gets its reserve back and is tried again shortly."""
        if self.reserve is not None:
            self.reserve.free()
        self._tell_fault(f"{error.strerror or error}")

    def _tell_fault(self, reason):
        """Whoever waits is answered now; what was appended is tried again."""
        self.failed = StorageError(f"{self.path}: {reason}")
        self.group.faults.begin(
            self, Fault(self.head["account"], self.head["stream"], self.head["name"], self.temporary or self.path,
                        reason))
        if self.retry is None:
            self.retry = Retry(self.tick.loop, self._try_again)
        self.retry.again()
        if self.observer is not None:
            self.observer.on_write_failed(self.committed + 1, self.failed)
        self.waiters.fail(self.failed)

    def _works(self):
        self.failed = None
        self.retry.worked()
        self.group.faults.over(self)

    def _try_again(self):
        if self.closed or (self.suspect and not self._replace_file()):
            return
        if not self.scheduled:
            self.tick.schedule(PHASE_STATE_LOGS, self)

    def _rename_now(self):
        # without a promise against power loss the name need not wait for the bytes, but a killed broker must find it
        temporary = self.temporary
        self.temporary = None
        try:
            self._take_name(temporary)
        except OSError as error:
            self.temporary = temporary
            self._write_failed(error)
        return self.temporary is None

    cdef int advance(self, uint64_t position) except -1:
        if position > self.committed:
            self.committed = position
            if self.observer is not None:
                self.observer.on_committed(position)
        return self.waiters.release(position)

    def begin_sync(self):
        """What the next round must sync; None when there is nothing."""
        self.flush()
        if self.closed or (self.failed is not None and self.retry.waits):
            return None
        if self.tail.written == self.tail.base and self.temporary is None and self.failed is None:
            self.advance(self.written)
            return None
        self.round_fd = self.fd
        self.round_temporary = self.temporary
        self.round_position = self.written
        self.round_offset = self.tail.written
        if self.temporary is None:
            return [self.fd]
        return [self.fd, partial(self._take_name, self.temporary), os.path.dirname(self.path)]

    def end_sync(self, error):
        """The outcome of the round."""
        fd, self.round_fd = self.round_fd, -1
        temporary, self.round_temporary = self.round_temporary, None
        if fd != self.fd:
            self.disk.close(fd)
        if self.closed:
            return
        if fd != self.fd:
            self._end_overtaken(temporary, error)
            return
        if error is not None:
            self._sync_failed(error)
            return
        self.temporary = None
        self.tail.drop_before(self.round_offset)
        if self.failed is not None and not self.retry.waits:
            self._works()
        self.advance(self.round_position)

    def _end_overtaken(self, temporary, error):
        """A snapshot took the place of the file that was synced; its round is still to come."""
        self.request_sync()
        if error is None:
            # until then a start finds what was synced
            self.advance(self.round_position)
        elif temporary is not None and os.path.exists(temporary):
            self._remove(temporary)

    def _sync_failed(self, error):
        """The file is not to be trusted any more."""
        self.suspect = True
        self._tell_fault(f"fdatasync failed: {error.strerror}")

    def _replace_file(self):
        """What was synced and what is in memory go into a new file; False: it cannot be made now."""
        try:
            synced = self.disk.read(self.fd, self.tail.base, 0)
            fd, temporary = self._open_temporary()
        except OSError as error:
            self._write_failed(error)
            return False
        self._leave_file()
        self.fd = fd
        self.temporary = temporary
        self.suspect = False
        self.tail.begin(synced + self.tail.bytes_from(self.tail.base))
        self.size = self.tail.size
        self.wants_sync = True
        return True

    def moved_to(self, str path not None):
        """The folder of the file, which has been committed, was renamed."""
        self.path = path

    async def commit(self):
        """Wait until everything appended so far is committed. Raises StorageError when the log was closed before."""
        if self.committed >= self.position and (self.memory or (self.temporary is None and not self.wants_sync)):
            return
        if self.closed:
            raise StorageError(f"{self.path}: the state log is closed")
        if self.failed is not None and self.retry.waits:
            raise self.failed
        future = self.waiters.add(self.tick.loop, self.position)
        self.request_sync()
        await future

    async def close(self):
        """Commit what was appended and close the file."""
        if self.closed:
            return
        if not self.memory and self.failed is None:
            await self.commit()
            if self.tail.written != self.tail.base:
                self.group.request(self)
                await self.group.drain()
        self.abandon()

    def abandon(self):
        """Close without writing anything more: the consumer is being deleted."""
        self.closed = True
        if self.retry is not None:
            self.retry.cancel()
            self.group.faults.forget(self)
        self.waiters.fail(StorageError(f"{self.path}: the state log is closed"))
        if self.memory:
            return
        self.group.forget(self)
        self._leave_file()
        self.fd = -1
