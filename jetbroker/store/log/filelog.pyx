# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A stream's log in segment files: write buffer, positions, sealing and reading (see filelog.pxd)."""
import os
from functools import partial

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.log.atomic import sync_apart
from jetbroker.store.faults import Fault, Retry
from jetbroker.store.format.frames import load_index

from jetbroker.store.format.blocks cimport BlockCache
from jetbroker.store.log.commit cimport GroupCommit
from jetbroker.store.disk cimport Disk
from jetbroker.store.format.frames cimport FrameCache
from jetbroker.store.format.footers cimport sound_segment_footer
from jetbroker.store.format.records cimport (
    KIND_CONFIG, KIND_DELETIONS, PREVIOUS_SEALED, RECORD_HEADER, SIZE_MASK, TRAILER_BYTES,
    build_footer, crc32c_update, put_record, record_is_valid, record_length, record_seed,
)
from jetbroker.store.log.health cimport COMMITTED, GIVEN_UP, MOVING, PAUSED, SYNCED, TRIED, WORKS, Health
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.segment cimport Ranges, Segment, footer_ranges, is_record_of
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.tail cimport Tail
from jetbroker.store.log.waiters cimport Waiters
from jetbroker.tick cimport PHASE_LOGS, Tick

DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
# Ranges in one D record: 1 MiB
cdef Py_ssize_t RANGES_PER_RECORD = 65536
# Sealed segments whose columns stay in memory; more when segments are small.
cdef Py_ssize_t LOADED_SEGMENTS = 4
cdef Py_ssize_t LOADED_SMALL = 16

cdef class FileSegment(Segment):
    """A segment and its file."""

    def __init__(self, uint64_t first_seq, str path):
        Segment.__init__(self, first_seq)
        self.path = path
        self.fd = -1
        self.summarized_live = -1


cdef class FileLog(SegmentedLog):
    """A log in a directory of segment files. Made by `Store`, or by recovery."""

    def __init__(self, Tick tick not None, Disk disk not None, GroupCommit group not None, str directory,
                 uint64_t stream_id, dict meta, uint64_t segment_bytes=DEFAULT_SEGMENT_BYTES, reserve=None):
        self.tick = tick
        self.disk = disk
        self.group = group
        self.always = group.interval is None
        self.directory = directory
        self.stream_id = stream_id
        self.seed = record_seed(stream_id)
        self.meta = meta
        self.segment_bytes = min(segment_bytes, 0xF0000000)
        self.message_cost = 30
        self.headers_cost = 4
        self.tail = Tail()
        self.blocks = BlockCache()
        self.loaded_bound = LOADED_SEGMENTS
        self.removals = PendingRemovals()
        self.health = Health(Retry(tick.loop, self.try_again), group.faults, reserve)
        self.waiters = Waiters()
        self.unsynced = []
        self.unlinks = []
        self.directories = set()
        self.erased = set()
        self.round_erased = set()
        self.successor_valid_before = PREVIOUS_SEALED

    def start(self, uint64_t first_seq=1):
        """Make the first segment of a new log; it is on disk after the next commit."""
        segment = self.new_segment(first_seq, self.successor_valid_before, None)
        self.make_file(segment)
        self.start_segment(segment)
        self.successor_valid_before = PREVIOUS_SEALED
        self.changed()

    def close_open_end(self, FileSegment segment not None):
        """The last recovered segment is not appended to any more; its successor's header says how far it is valid."""
        self.active = segment
        if not segment.sealed:
            segment.sealed = True
            self.successor_valid_before = segment.end

    def set_packing(self, bint on, uint64_t segment_bytes):
        """From now on sealed segments are packed or not, and segments end at `segment_bytes`."""
        self.packs = on
        self.loaded_bound = LOADED_SMALL if on else LOADED_SEGMENTS
        self.segment_bytes = min(segment_bytes, 0xF0000000)
        if on:
            self.packer.wake(self)

    # --- positions ---

    cdef int changed(self) except -1:
        self.changes += 1
        if not self.scheduled:
            self.tick.schedule(PHASE_LOGS, self)
        return 0

    cdef int run_tick(self) except -1:
        self.flush()
        return 0

    cdef int flush(self) except -1:
        """Write everything accepted; on failure take the unwritten appends back and tell the observer."""
        if self.closed or self.health.state == PAUSED \
                or (self.changes_written == self.changes and self.removals.pending.count == 0):
            return 0
        self.put_deletions()
        try:
            self.write_tail()
        except OSError as error:
            self.write_failed(error)
            return 0
        self.removals.written()
        self.changes_written = self.changes
        self.written = self.last_seq
        if self.always:
            self.tail.trim()
            self.group.request(self)
            return 0
        if self.health.state != WORKS:
            self.health.take(COMMITTED)
        self.tail.forget_written()     # readers find it in the page cache
        self.advance_committed()
        if self.unsynced:
            self.group.request(self)
        else:
            self.group.request_later(self)
        return 0

    cdef int advance_committed(self) except -1:
        cdef uint64_t seq = self.synced if self.always else self.written
        cdef uint64_t change = self.changes_synced if self.always else self.changes_written
        if not self.synced <= self.written <= self.last_seq:
            raise RuntimeError(f"positions out of order: {self.synced} {self.written} {self.last_seq}")
        if seq > self.committed:
            self.committed = seq
            if self.observer is not None:
                self.observer.on_committed(seq)
        return self.waiters.release(change)

    async def commit(self):
        """Wait until everything accepted so far, removals included, is committed. Raises StorageError."""
        if self.erasing is not None:
            await self.packer.erased(self)
        if self.changes_synced >= self.changes:
            return
        if self.health.state == PAUSED:
            raise self.health.failed
        change = self.changes
        future = self.waiters.add(self.tick.loop, change)
        if not self.scheduled:
            self.tick.schedule(PHASE_LOGS, self)
        if self.always and self.changes_written >= change:
            self.group.request(self)
        elif not self.always and self.changes_written >= change:
            self.advance_committed()
        await future

    def begin_sync(self):
        """What the next round must sync; None when there is nothing."""
        from jetbroker.store.log.rewrite import abandon_suspects
        if self.health.state == PAUSED or (not self.always and self.health.state != WORKS and self.health.waits):
            return None
        if self.suspect is not None:
            abandon_suspects(self, self.suspect)
        self.flush()
        if self.suspect is not None or (<FileSegment>self.active).fd < 0:
            # there is no new file yet, and the old one is never synced again
            self.health.try_later()
            return None
        if self.changes_synced == self.changes_written and not self.erased:
            self.advance_committed()
            return None
        try:
            for segment in self.erased:
                self.open_segment(segment)
        except StorageError as error:
            self.waiters.fail(error)
            self.health.try_later()
            return None
        self.in_round = True
        self.round_changes = self.changes_written
        self.round_seq = self.written
        self.round_offset = self.tail.written
        self.round_segment = <FileSegment>self.active
        targets = []
        for segment in [*self.unsynced, *self.erased, self.active]:
            targets.append((<FileSegment>segment).fd)
            if (<FileSegment>segment).temporary is not None:
                targets.append(partial(self.disk.rename, (<FileSegment>segment).temporary,
                                       (<FileSegment>segment).path))
        targets.extend(self.directories)
        self.round_erased = self.erased
        self.erased = set()
        return targets

    def end_sync(self, error):
        """The outcome of the round: commits move, or what is not on disk is written again elsewhere."""
        cdef bint settled = self.unsynced or self.round_erased
        self.in_round = False
        self.round_erased = set()
        if error is not None:
            self.sync_failed(error)
            return
        if self.health.state != WORKS:
            self.health.take(COMMITTED if self.always else SYNCED)
        for segment in [*self.unsynced, self.round_segment]:
            (<FileSegment>segment).temporary = None
            if segment is self.round_segment:
                break
        self.directories.clear()
        self.changes_synced = self.round_changes
        self.synced = self.round_seq
        for segment in self.unsynced:
            if segment is self.round_segment:
                break
            if (<FileSegment>segment).footer_at:
                (<FileSegment>segment).recorded = None
        if self.round_segment is self.active:
            self.unsynced.clear()
            self.tail.synced = self.round_offset
        else:
            # segments were sealed during the round: those from the round's active one on wait for the next round
            self.unsynced = self.unsynced[self.unsynced.index(self.round_segment):]
        if self.always:
            self.advance_committed()
        self.finish_unlinks()
        if settled:
            self.shed(self.loaded_bound)
            if self.packs:
                self.packer.wake(self)

    def sync_failed(self, error):
        """The group failed: its data goes to a new file; when that fails too, its appends are taken back."""
        from jetbroker.store.log.rewrite import abandon_suspects, give_up, rewrite_unsynced
        if not self.always:
            abandon_suspects(self, error)
            return
        self.refuse(f"fdatasync failed: {error.strerror}")
        if self.health.state == MOVING:
            give_up(self, error)
            return
        try:
            rewrite_unsynced(self)
        except OSError as failure:
            give_up(self, failure)
            return
        except StorageError:
            # nothing has moved: the old file is not touched before that can be done
            self.suspect = error
            self.health.take(GIVEN_UP)
            return
        self.group.request(self)

    def finish_unlinks(self):
        """Remove the files of dead segments whose successors are on disk."""
        cdef FileSegment segment
        waiting = []
        for change, segment in self.unlinks:
            if change > self.changes_synced:
                waiting.append((change, segment))
                continue
            self.close_file(segment)
            if any([other.path == segment.path for other in self.segments]):
                # a later segment has its name; the file was set aside
                continue
            try:
                self.disk.unlink(segment.temporary or segment.path)
            except OSError as error:
                # the file holds nothing alive; recovery drops it again
                self.tick.loop.call_exception_handler({"message": f"cannot remove {segment.path}", "exception": error})
        self.unlinks = waiting

    # --- the write buffer ---

    cdef char* room(self, uint32_t length, uint32_t* offset) except NULL:
        cdef FileSegment segment = <FileSegment>self.active
        cdef char* p
        if segment.end + length > self.segment_bytes and segment.slots and not self.batch_seq:
            self.roll(self.last_seq + 1)
            segment = <FileSegment>self.active
        p = self.tail.extend(length)
        offset[0] = <uint32_t>segment.end
        segment.end += length
        return p

    cdef int begin_batch(self, uint64_t size) except -1:
        # in one segment and in one write, so that recovery finds it whole or torn at the end
        self.ready()
        if (<FileSegment>self.active).end + size > self.segment_bytes and self.active.slots:
            self.roll(self.last_seq + 1)
        self.tail.reserve(size)
        self.batch_start = self.tail.end()
        self.batch_seq = self.last_seq + 1
        return 0

    cdef int end_batch(self) except -1:
        self.batch_seq = 0
        self.batches_end = (<FileSegment>self.active).end
        return 0

    cdef int abort_batch(self) except -1:
        self.take_back(self.batch_seq)
        self.tail.cut(self.batch_start)
        (<FileSegment>self.active).end = self.batch_start
        self.batch_seq = 0
        return 0

    cdef int put_deletions(self) except -1:
        """One batch of D records: what is pending, and the batch before once more."""
        cdef FileSegment active = <FileSegment>self.active
        cdef Ranges batch = self.removals.next_batch()
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t n
        if batch is None:
            return 0
        while at < batch.count:
            n = min(batch.count - at, RANGES_PER_RECORD)
            self.put_own_record(KIND_DELETIONS, <const char*>(batch.data + 2 * at), 16 * n)
            at += n
        active.recorded.extend(batch)
        if active.recorded.count > 100_000:
            active.recorded.normalize()
        return 0

    def write_config(self, dict meta not None):
        """Log a new configuration; later segments carry it in their header."""
        cdef bytes text = store_format.encode_json(meta)
        self.meta = meta
        self.put_own_record(KIND_CONFIG, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self.changed()

    cdef int put_own_record(self, int kind, const char* payload, Py_ssize_t n) except -1:
        """A record of what is no message."""
        cdef Py_ssize_t length = RECORD_HEADER + n
        put_record(self.tail.extend(length), kind, self.seed, self.last_seq, self.last_time_ns, 0,
                   NULL, 0, NULL, 0, payload, n)
        (<FileSegment>self.active).end += length
        return 0

    cdef int write_tail(self) except -1:
        if (<FileSegment>self.active).fd < 0:
            # it could not be made when it was needed first
            self.make_file(<FileSegment>self.active)
        return self.tail.write(self.disk, (<FileSegment>self.active).fd)

    # --- failed writes ---

    @property
    def failed(self):
        """None, or the StorageError that makes appends fail until writing works again."""
        return self.health.failed

    def fault(self, str reason not None):
        """What the disk refuses, for those who are told of it."""
        cdef FileSegment segment = <FileSegment>self.active
        return Fault(self.meta.get("account", ""), self.meta.get("name", ""), "", segment.temporary or segment.path,
                     reason)

    cdef int refuse(self, str reason) except -1:
        """Appends fail from now on, until a try succeeds."""
        self.health.refuse(self.fault(reason), StorageError(f"{self.directory}: {reason}"))
        return 0

    def try_again(self):
        """Find out whether writing works again: a record that says nothing goes the way of all others."""
        if self.closed:
            return
        if self.health.failed is None:
            self.group.request(self)   # only a sync failed
            return
        if self.in_round or self.health.state == MOVING or not self.health.has_reserve():
            self.health.try_later()
            return
        if self.always and self.suspect is not None:
            error = self.suspect
            self.suspect = None
            self.sync_failed(error)
            return
        self.health.take(TRIED)
        if self.must_roll and self.active.slots:
            try:
                self.roll(self.last_seq + 1)
            except StorageError:
                return                 # it has been told, and the next try is to come
        elif (<FileSegment>self.active).fd >= 0 and not self.has_room():
            return
        self.must_roll = False         # nor is there a successor to an empty one: it would have its name
        self.put_own_record(KIND_DELETIONS, NULL, 0)
        self.changed()

    def has_room(self):
        """Can the active file grow by whatever may be published? When not, the next try is to come."""
        cdef uint64_t end = self.tail.end()
        try:
            self.disk.write_all((<FileSegment>self.active).fd, bytes(limits.STORAGE_PROBE_BYTES), end)
        except OSError as error:
            self.refuse(f"{error.strerror or error}")
            return False
        finally:
            self.cut_file(self.active, end)
        return True

    cdef int ready(self) except -1:
        if self.closed:
            raise StorageError(f"{self.directory}: the log is closed")
        if self.health.failed is not None and not self.batch_seq:
            raise self.health.failed
        return 0

    cdef int write_failed(self, object error) except -1:
        from jetbroker.store.log.write_failure import write_failed
        write_failed(self, error)
        return 0

    def restore(self, list sequences not None):
        """Undo removals that are not written yet: those that limits made for appends which were taken back.

        Returns how many messages are back; one whose segment has been dropped stays removed.
        """
        from jetbroker.store.log.write_failure import restore
        return restore(self, sequences)

    def record_size(self, Segment segment not None, Py_ssize_t slot):
        """Bytes of a slot's record in the file (0 for an empty slot)."""
        if segment.offsets[slot] == 0 or segment.offsets[slot] == <uint32_t>0xFFFFFFFF:
            return 0
        return RECORD_HEADER + segment.subject_len(segment.ids[slot]) + (segment.sizes[slot] & SIZE_MASK)

    def cut_file(self, FileSegment segment not None, boundary):
        """Take back what a failed write left behind the last whole record."""
        self.blocks.forget(segment.tag)
        if segment.fd < 0:
            return
        try:
            self.disk.truncate(segment.fd, boundary)
        except OSError as error:
            # the next write overwrites it; until then recovery finds a torn tail there
            self.tick.loop.call_exception_handler({"message": f"cannot cut {segment.path}", "exception": error})

    def discard_file(self, FileSegment segment not None):
        """Close and remove a file that never got the segment's name; the next write makes it anew."""
        self.blocks.forget(segment.tag)
        self.close_file(segment)
        try:
            self.disk.unlink(segment.temporary)
        except FileNotFoundError:
            return                     # it could not even be made
        except OSError as error:
            # the next start removes it
            self.tick.loop.call_exception_handler({"message": f"cannot remove {segment.temporary}", "exception": error})

    cdef int take_back(self, uint64_t first_lost) except -1:
        """Undo the appends from first_lost on; all of them are in the active segment."""
        cdef Segment segment = self.active
        cdef Py_ssize_t slot
        for slot in range(segment.slots - 1, <Py_ssize_t>(first_lost - segment.first_seq) - 1, -1):
            if not segment.is_dead(slot):
                self.forget_message(segment, slot)
        segment.truncate_slots(first_lost - segment.first_seq)
        self.last_seq = first_lost - 1
        self.advance_first()
        return 0

    # --- segments ---

    cdef int note_removed(self, uint64_t first, uint64_t last) except -1:
        return self.removals.add(first, last)

    cdef FileSegment new_segment(self, uint64_t first_seq, uint64_t valid_before, str path):
        cdef FileSegment segment
        if path is None:
            path = f"{self.directory}/{first_seq:020d}.seg"
        segment = FileSegment(first_seq, path)
        segment.recorded = Ranges()
        segment.valid_before = valid_before
        segment.created_ns = self.disk.time_ns()
        segment.last_time = self.last_time_ns
        if self.active is not None:
            segment.previous = self.active.first_seq
        return segment

    cdef int make_file(self, FileSegment segment) except -1:
        if segment.temporary is None and os.path.lexists(segment.path) and os.lstat(segment.path).st_size:
            # recovery has left it alone: it is damaged, or of another stream
            self.disk.rename(segment.path, f"{segment.path}.damaged-{self.disk.time_ns()}")
        segment.fd = self.disk.open(segment.path if segment.temporary is None else segment.temporary,
                                    os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.directories.add(self.directory)
        return 0

    cdef int start_segment(self, FileSegment segment) except -1:
        """Make `segment` the active one; its header is the first thing in the write buffer."""
        cdef bytes header = store_format.encode_header(self.stream_id, segment.first_seq, segment.created_ns,
                                                       segment.previous, segment.valid_before, self.meta)
        segment.header_len = len(header)
        segment.end = segment.header_len
        self.tail.begin(header)
        self.batches_end = 0
        self.active = segment
        self.segments.append(segment)
        return 0

    cdef int roll(self, uint64_t first_seq) except -1:
        cdef FileSegment old = <FileSegment>self.active
        cdef FileSegment new
        try:
            new = self.new_segment(first_seq, PREVIOUS_SEALED, None)
            self.make_file(new)
        except OSError as error:
            self.must_roll = True
            self.refuse(f"no new segment can be made: {error.strerror}")
            raise self.health.failed from error
        try:
            self.write_tail()
        except OSError as error:
            self.close_file(new)
            self.disk.unlink(new.path)
            self.write_failed(error)
            raise self.health.failed from error
        self.removals.written()
        try:
            self.seal(old)
        except OSError:
            # no room for the footer: the records are all there, and the next header says up to where
            self.cut_file(old, old.end)
            new.valid_before = old.end
        if self.always:
            old.retained_at = self.tail.unsynced_from()
            old.retained = self.tail.bytes_from(old.retained_at)
        self.unsynced.append(old)
        self.removals.new_file()
        self.start_segment(new)
        if self.on_sealed is not None:
            self.on_sealed(old)
        if old.live == 0 and old.lost is None:
            self.drop_dead_segments()
        return 0

    cdef int seal(self, FileSegment segment) except -1:
        cdef uint64_t at = (segment.end + 7) & ~<uint64_t>7
        cdef uint32_t no_text = 0
        cdef bytes footer
        segment.recorded.normalize()
        if self.always and self.batches_end > self.tail.synced:
            sync_apart(self.disk, segment.path if segment.temporary is None else segment.temporary)
        footer = build_footer(at, segment.first_seq, segment.slots, segment.offsets, segment.times, segment.sizes,
                              segment.ids, segment.subjects,
                              segment.text_offsets if segment.text_offsets != NULL else &no_text, segment.text,
                              segment.recorded.data, segment.recorded.count, segment.msg_ids)
        segment.sealed = True
        self.clock += 1
        segment.used_at = self.clock
        self.disk.write_all(segment.fd, footer, at)
        segment.footer_at = at
        segment.footer_len = len(footer) - TRAILER_BYTES
        segment.footer_crc = crc32c_update(0, PyBytes_AS_STRING(footer), segment.footer_len)
        return 0

    cdef bytes read_footer(self, FileSegment segment):
        cdef bytes footer
        try:
            footer = self.disk.read(segment.fd, segment.footer_len, segment.footer_at)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error
        if <uint64_t>PyBytes_GET_SIZE(footer) != segment.footer_len \
                or crc32c_update(0, PyBytes_AS_STRING(footer), PyBytes_GET_SIZE(footer)) != segment.footer_crc:
            return None
        return sound_segment_footer(footer, segment.packed, segment.first_seq, segment.footer_at, segment.slots)

    cdef Ranges recorded_ranges(self, FileSegment segment):
        """Every deletion range this segment's file records."""
        cdef Ranges ranges = Ranges()
        cdef bytes footer
        if segment.recorded is not None:
            ranges.extend(segment.recorded)
            return ranges
        self.open_segment(segment)
        footer = self.read_footer(segment)
        if footer is not None:
            return footer_ranges(footer)
        self.rebuild_columns(segment)
        ranges.extend(segment.recorded)
        return ranges

    cdef int drop(self, Segment dead) except -1:
        cdef FileSegment segment = <FileSegment>dead
        cdef Py_ssize_t i = self.index_of(segment.first_seq)
        cdef uint64_t gap_first = 1
        cdef uint64_t gap_last
        cdef Ranges ranges
        # nothing may come back: what this file says of others is said again, and that it is gone itself
        ranges = self.recorded_ranges(segment)
        if i >= 0:
            gap_first = (<Segment>self.segments[i]).first_seq + (<Segment>self.segments[i]).slots
        gap_last = (<Segment>self.segments[i + 1]).first_seq - 1
        for first, last in self.lost_gaps:
            if gap_first <= last < segment.first_seq:
                gap_first = last + 1
            if segment.first_seq < first <= gap_last:
                gap_last = first - 1
        ranges.add(gap_first, gap_last)
        ranges.normalize()
        self.removals.extend(ranges)
        self.unlinks.append((self.changes + 1, segment))
        if segment in self.unsynced and not (self.in_round and self.round_segment is segment):
            self.unsynced.remove(segment)
        segment.retained = None
        self.blocks.forget(segment.tag)
        segment.unload()
        if self.on_removed is not None:
            self.on_removed(segment)
        self.changed()
        return 0

    # --- reading ---

    cdef int open_segment(self, FileSegment segment) except -1:
        if segment.fd < 0:
            try:
                segment.fd = self.disk.open(segment.path, os.O_RDWR)
            except OSError as error:
                raise StorageError(f"{segment.path}: {error.strerror}") from error
        return 0

    def close_file(self, FileSegment segment not None):
        """Close the segment's file, if it is open."""
        if segment.fd >= 0:
            fd = segment.fd
            segment.fd = -1
            self.disk.close(fd)

    cdef int shed(self, Py_ssize_t keep) except -1:
        """Close sealed segments, those used longest ago first, until `keep` have their columns in memory."""
        cdef FileSegment other
        cdef list loaded = []
        for other in self.segments:
            if other.sealed and other.offsets != NULL and other.footer_at and other not in self.unsynced \
                    and other not in self.round_erased:
                # what is not synced may have to be written again: no reading then
                loaded.append((other.used_at, other.tag, other))
        loaded.sort()
        for _, _, other in loaded[:max(0, len(loaded) - keep)]:
            # only what a footer gives back; the columns of a damaged segment stay
            other.unload()
            other.frames = None
            self.close_file(other)
        return 0

    cdef int load(self, Segment wanted) except -1:
        cdef FileSegment segment = <FileSegment>wanted
        cdef bytes footer
        if segment.used_at != self.clock:
            self.clock += 1
            segment.used_at = self.clock
        if segment.offsets != NULL or segment.slots == 0:
            return 0
        self.shed(self.loaded_bound - 1)
        self.open_segment(segment)
        if segment.footer_at:
            footer = self.read_footer(segment)
            if footer is not None:
                segment.adopt_footer(footer)
                return 0
        self.rebuild_columns(segment)
        return 0

    cdef const char* fetch(self, Segment wanted, Py_ssize_t slot) except? NULL:
        cdef FileSegment segment = <FileSegment>wanted
        cdef uint64_t offset = segment.offsets[slot]
        cdef Py_ssize_t length = (RECORD_HEADER + segment.subject_len(segment.ids[slot])
                                  + (segment.sizes[slot] & SIZE_MASK))
        cdef const char* p
        if segment is self.active and offset >= self.tail.base:
            return self.tail.at(offset)
        if segment.fd < 0:
            self.open_segment(segment)
        try:
            if segment.packed:
                p = self.unpacked(segment, offset, length)
            else:
                p = self.blocks.get(self.disk, segment.fd, segment.tag, offset, length,
                                    self.tail.written if segment is self.active else segment.end)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error
        if p == NULL or not record_is_valid(p, length, self.seed) or record_length(p) != <uint64_t>length \
                or not is_record_of(p, segment, slot):
            return NULL
        return p

    cdef const char* unpacked(self, FileSegment segment, uint64_t offset, Py_ssize_t length) except? NULL:
        """Bytes of a packed segment's plain form, valid until the next call; NULL: damaged. Raises OSError."""
        if self.frames is None:
            self.frames = FrameCache()
        if segment.frames is None:
            segment.frames = load_index(self.disk, segment.fd, segment.footer_at, segment.index_len, self.seed)
        return self.frames.get(self.disk, segment.fd, self.seed, segment.frames, segment.tag, offset, length)

    cdef int erase_slot(self, Segment segment, Py_ssize_t slot) except -1:
        from jetbroker.store.log.erase import erase_slot
        erase_slot(self, segment, slot)
        return 0

    cdef int recount(self) except -1:
        from jetbroker.store.log.rebuild import recount
        recount(self)
        return 0

    cdef int rebuild_columns(self, FileSegment segment) except -1:
        from jetbroker.store.log.rebuild import rebuild_columns
        rebuild_columns(self, segment)
        return 0

    def rest(self):
        """Give the write buffer back when nothing was written since the last call. Called every few seconds."""
        stored = self.changes_synced if self.always else self.changes_written
        idle = self.changes == self.changes_at_rest == stored
        self.changes_at_rest = self.changes
        if idle and self.tail.capacity and not self.in_round and self.health.failed is None:
            self.tail.give_back()

    async def close(self):
        """Commit what is accepted and close the files. Raises StorageError when it could not be committed."""
        if self.closed:
            return
        try:
            await self.commit()
            if not self.always:
                self.group.request(self)
                await self.group.drain()
        finally:
            self.abandon()

    def abandon(self):
        """Close the files without writing anything more."""
        self.closed = True
        self.health.close()
        self.group.forget(self)
        for segment in [*self.segments, *[s for _, s in self.unlinks]]:
            self.close_file(segment)
        self.blocks.clear()
        self.frames = None

    def buffer_bytes(self):
        """Memory held for writing."""
        return self.tail.capacity

    def changed_segments(self):
        """Sealed segments of which the cache does not know what is alive."""
        cdef FileSegment segment
        found = []
        for segment in self.segments:
            if segment.footer_at and segment.live != segment.summarized_live:
                found.append(segment)
        return found

    def moved_to(self, directory):
        """The directory was renamed."""
        cdef FileSegment segment
        for segment in self.segments:
            segment.path = f"{directory}/{os.path.basename(segment.path)}"
        self.directory = directory
        self.directories.clear()
