# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A stream's log in segment files (see filelog.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.log.atomic import sync_apart
from jetbroker.store.log.scan import rebuild_columns, walk_records
from jetbroker.store.faults import Fault, Retry

from jetbroker.store.log.active_file cimport ActiveFile
from jetbroker.store.log.commit cimport Changes, GroupCommit
from jetbroker.store.disk cimport Disk
from jetbroker.store.format.records cimport (
    KIND_CONFIG, KIND_DELETIONS, PREVIOUS_SEALED, RECORD_HEADER, record_seed,
)
from jetbroker.store.log.health cimport COMMITTED, GIVEN_UP, MOVED, MOVING, PAUSED, SYNCED, TRIED, WORKS, Health
from jetbroker.store.log.removals cimport PendingRemovals
from jetbroker.store.log.scan cimport carry_dead, range_records, shorten, slots_before
from jetbroker.store.log.sealing cimport Sealing
from jetbroker.store.log.segment cimport Ranges, Segment
from jetbroker.store.log.segment_files cimport FileSegment, SegmentFiles
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.sync_round cimport SyncRound
from jetbroker.tick cimport PHASE_LOGS, Tick

DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
# Sealed segments whose columns stay in memory; more when segments are small.
cdef Py_ssize_t LOADED_SEGMENTS = 4
cdef Py_ssize_t LOADED_SMALL = 16


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
        self.loaded_bound = LOADED_SEGMENTS
        self.file = ActiveFile(disk, self.seed)
        self.files = SegmentFiles(disk, tick.loop, self.seed)
        self.changes = Changes()
        self.removals = PendingRemovals()
        self.round = SyncRound(disk)
        self.sealing = Sealing(disk, self.always)
        self.health = Health(Retry(tick.loop, self.try_again), group.faults, reserve)

    def start(self, uint64_t first_seq=1, uint64_t valid_before=PREVIOUS_SEALED):
        """Make the first segment of a new log; it is on disk after the next commit."""
        segment = self.new_segment(first_seq, valid_before)
        self.make_file(segment)
        self.start_segment(segment)
        self.changed()

    def close_open_end(self, FileSegment segment not None):
        """The last recovered segment is not appended to any more; returns what its successor says of it."""
        self.active = segment
        if segment.sealed:
            return PREVIOUS_SEALED
        segment.sealed = True
        return segment.end

    def set_packing(self, bint on, uint64_t segment_bytes):
        """From now on sealed segments are packed or not, and segments end at `segment_bytes`."""
        self.packs = on
        self.loaded_bound = LOADED_SMALL if on else LOADED_SEGMENTS
        self.segment_bytes = min(segment_bytes, 0xF0000000)
        if on:
            self.packer.wake(self)

    # --- positions ---

    cdef int changed(self) except -1:
        self.changes.accepted += 1
        if not self.scheduled:
            self.tick.schedule(PHASE_LOGS, self)
        return 0

    cdef int run_tick(self) except -1:
        self.flush()
        return 0

    cdef int flush(self) except -1:
        """Write everything accepted; on failure take the unwritten appends back and tell the observer."""
        if self.closed or self.health.state == PAUSED \
                or (self.changes.written == self.changes.accepted and self.removals.pending.count == 0):
            return 0
        self.put_deletions()
        try:
            self.write_tail()
        except OSError as error:
            self.write_failed(error)
            return 0
        self.all_written()
        if self.always:
            self.file.tail.trim()
            self.group.request(self)
            return 0
        if self.health.state != WORKS:
            self.health.take(COMMITTED)
        self.file.tail.forget_written()     # readers find it in the page cache
        self.advance_committed()
        if self.round.unsynced:
            self.group.request(self)
        else:
            self.group.request_later(self)
        return 0

    cdef int all_written(self) except -1:
        """Everything accepted is in the file."""
        self.file.record(self.removals)
        self.changes.written = self.changes.accepted
        self.written = self.last_seq
        return 0

    cdef int advance_committed(self) except -1:
        cdef uint64_t seq = self.synced if self.always else self.written
        cdef uint64_t change = self.changes.synced if self.always else self.changes.written
        if not self.synced <= self.written <= self.last_seq:
            raise RuntimeError(f"positions out of order: {self.synced} {self.written} {self.last_seq}")
        if seq > self.committed:
            self.committed = seq
            if self.observer is not None:
                self.observer.on_committed(seq)
        return self.changes.waiters.release(change)

    async def commit(self):
        """Wait until everything accepted so far, removals included, is committed. Raises StorageError."""
        if self.erasing is not None:
            await self.packer.erased(self)
        if self.changes.synced >= self.changes.accepted:
            return
        if self.health.state == PAUSED:
            raise self.health.failed
        change = self.changes.accepted
        future = self.changes.waiters.add(self.tick.loop, change)
        if not self.scheduled:
            self.tick.schedule(PHASE_LOGS, self)
        if self.always and self.changes.written >= change:
            self.group.request(self)
        elif not self.always and self.changes.written >= change:
            self.advance_committed()
        await future

    # --- sync rounds ---

    def begin_sync(self):
        """What the next round must sync; None when there is nothing."""
        if self.health.state == PAUSED or (not self.always and self.health.state != WORKS and self.health.waits):
            return None
        if self.round.suspect is not None:
            self.leave_suspect()
        self.flush()
        if self.round.suspect is not None or (<FileSegment>self.active).fd < 0:
            # there is no new file yet, and the old one is never synced again
            self.health.try_later()
            return None
        if self.changes.synced == self.changes.written and not self.round.erased:
            self.advance_committed()
            return None
        try:
            for segment in self.round.erased:
                self.files.open(segment)
        except StorageError as error:
            self.changes.waiters.fail(error)
            self.health.try_later()
            return None
        return self.round.begin(<FileSegment>self.active, self.changes.written, self.written, self.file.tail.written)

    def end_sync(self, error):
        """The outcome of the round: commits move, or what is not on disk is written again elsewhere."""
        cdef bint settled = self.round.unsynced or self.round.round_erased
        if error is not None:
            self.round.fail()
            self.sync_failed(error)
            return
        if self.health.state != WORKS:
            self.health.take(COMMITTED if self.always else SYNCED)
        self.round.end()
        self.group.figures.cover(self.round.upto.change - self.changes.synced)
        self.changes.synced = self.round.upto.change
        self.synced = self.round.upto.seq
        if self.round.active is self.active:
            self.file.tail.synced = self.round.upto.offset
        if self.always:
            self.advance_committed()
        for segment in self.round.removable(self.changes.synced):
            self.files.remove(segment, self.segments)
        if settled:
            self.files.shed(self.segments, self.round.held(), self.loaded_bound)
            if self.packs:
                self.packer.wake(self)

    def sync_failed(self, error):
        """The group failed: its data goes to a new file; when that fails too, its appends are taken back."""
        if not self.always:
            self.suspect_files(error)
            return
        self.refuse(f"fdatasync failed: {error.strerror}")
        if self.health.state == MOVING:
            self.give_up(error)
            return
        # until it has moved the old files are not touched, whatever happens: they are never synced again
        self.round.suspect = error
        self.health.take(GIVEN_UP)
        try:
            self.rewrite_unsynced()
        except OSError as failure:
            self.round.suspect = None
            self.give_up(failure)
            return
        except StorageError as failure:
            self.refuse(str(failure))  # nothing has moved, and the next try is to come
            return
        self.round.suspect = None
        self.group.request(self)

    # --- after a failed fdatasync ---

    def rewrite_unsynced(self):
        """Move everything not synced into a new active segment, written but for its fdatasync. Raises OSError."""
        # one that was dropped during the round is among them still
        cdef list unsynced = [segment for segment in self.round.unsynced if segment in self.segments]
        cdef FileSegment suspect = <FileSegment>(unsynced[0] if unsynced else self.active)
        cdef FileSegment new
        cdef uint64_t valid = suspect.retained_at if unsynced else self.file.tail.unsynced_from()
        cdef Py_ssize_t kept
        cdef list old = self.segments[self.segments.index(suspect):]
        cdef bytes header
        cdef bytes data
        self.put_deletions()
        data = self.file.unsynced_records(unsynced)
        self.load(suspect)
        if suspect.recorded is None:
            suspect.recorded = self.recorded_ranges(suspect)
        kept = slots_before(suspect, valid)
        if kept:
            new = self.new_segment(suspect.first_seq + kept, valid)
            new.previous = suspect.first_seq
        else:
            new = self.replacement(suspect)
        # what the old file says of others the new one says, whichever of it is on disk
        data = range_records(self.stream_id, suspect.recorded, new.first_seq - 1, 0) + data
        new.temporary = self.files.temporary_name(new.path)
        header = self.header_of(new)
        data = header + data
        new.last_time = 0              # its messages keep their times
        walk_records(new, data, len(data), self.seed, False)
        if new.first_seq + new.slots != self.last_seq + 1:
            raise StorageError(f"{new.path}: more sequences are skipped than one segment can have")
        carry_dead(new, old)
        new.count(self.message_cost, self.headers_cost)
        self.states.moved(new)
        self.retire(old, suspect if kept else None, new)
        if kept:
            shorten(suspect, kept, valid)
            suspect.count(self.message_cost, self.headers_cost)
        self.file.begin(new, data)
        self.active = new
        self.segments.append(new)
        self.recent = None
        self.health.take(MOVED)
        self.all_written()
        self.removals.new_file()
        self.write_tail()

    cdef FileSegment replacement(self, FileSegment old):
        """A new segment in the place of one of which nothing is on disk."""
        cdef FileSegment new = self.new_segment(old.first_seq, old.valid_before)
        new.previous = old.previous
        return new

    cdef int retire(self, list old, FileSegment kept, FileSegment new) except -1:
        """The files of all but `kept` go, once the new one is on disk."""
        cdef FileSegment segment
        for segment in old:
            self.files.forget(segment)
            segment.retained = None
            if segment is kept:
                continue
            self.segments.remove(segment)
            if segment.path != new.path:
                self.round.dead.append((self.changes.accepted, segment))
            elif segment.temporary is not None:
                self.files.discard(segment)
            else:
                self.files.close(segment)
        self.round.unsynced = []
        self.round.erased.difference_update(old)
        return 0

    def give_up(self, error):
        """The new file could not be synced either: take back everything that is not on disk and say so."""
        cdef FileSegment segment = <FileSegment>self.active
        cdef uint64_t first_lost = segment.first_seq
        cdef bint lost = segment.slots > 0
        self.removals.extend(segment.recorded)
        segment.recorded.clear()
        if lost:
            self.take_back(first_lost)
        self.removals.take_back(self.last_seq)
        self.file.cut_back(segment.header_len)
        self.file.tail.written = 0
        # what could not be synced is never synced again: the next try makes a file anew
        self.files.discard(segment)
        self.health.take(GIVEN_UP)
        self.written = self.last_seq
        self.changes.waiters.fail(StorageError(f"{self.directory}: {error.strerror}"))
        if lost and self.observer is not None:
            self.observer.on_write_failed(first_lost, self.health.failed)

    def suspect_files(self, error):
        """sync_interval mode: nothing is in memory any more, so the files stay as they are, never synced again.

        Later appends go to a new file; what reads find damaged in the old ones is reported there and then.
        """
        self.health.doubt(self.fault(
            f"fdatasync failed: {error.strerror}; messages since the last one may be lost if the power fails"))
        if self.round.suspect is None:
            for segment in self.round.unsynced:
                self.removals.extend(self.recorded_ranges(segment))
            if not self.round.leave():
                self.changed()
                return
            self.round.suspect = error
        self.leave_suspect()

    def leave_suspect(self):
        """Go on in a new file; when none can be made, a later round tries again."""
        cdef FileSegment old = <FileSegment>self.active
        cdef FileSegment new
        cdef bint is_empty
        self.flush()
        is_empty = self.last_seq + 1 == old.first_seq
        new = self.replacement(old) if is_empty else self.new_segment(self.last_seq + 1, PREVIOUS_SEALED)
        try:
            if is_empty:
                # what follows is acked without a sync: no start may find the old one in the place of this one
                new.temporary = self.files.temporary_name(new.path)
                self.make_file(new)
                self.files.settle(new, self.header_of(new) + range_records(self.stream_id, old.recorded, self.last_seq,
                                                                           self.last_time_ns))
            else:
                self.make_file(new)
        except OSError:
            if new.temporary is not None:
                self.files.discard(new)
            self.health.try_later()
            self.changed()
            return
        self.round.suspect = None
        self.removals.new_file()
        self.recent = None
        if is_empty:
            self.segments.remove(old)
            self.files.close(old)
            new.recorded.extend(old.recorded)
            self.sealing.batches_end = 0
            self.file.go_on(new)
            self.active = new
            self.segments.append(new)
        else:
            self.removals.extend(old.recorded)
            old.sealed = True
            self.start_segment(new)
        self.changed()

    # --- the write buffer ---

    cdef char* room(self, uint32_t length, uint32_t* offset) except NULL:
        if (<FileSegment>self.active).end + length > self.segment_bytes and self.active.slots and not self.batch_seq:
            self.roll(self.last_seq + 1)
        return self.file.room(length, offset)

    cdef int begin_batch(self, uint64_t size) except -1:
        # in one segment and in one write, so that recovery finds it whole or torn at the end
        self.ready()
        if (<FileSegment>self.active).end + size > self.segment_bytes and self.active.slots:
            self.roll(self.last_seq + 1)
        self.file.tail.reserve(size)
        self.file.batch_start = self.file.tail.end()
        self.batch_seq = self.last_seq + 1
        return 0

    cdef int end_batch(self) except -1:
        self.batch_seq = 0
        self.sealing.batches_end = (<FileSegment>self.active).end
        return 0

    cdef int abort_batch(self) except -1:
        self.take_back(self.batch_seq)
        self.file.cut_back(self.file.batch_start)
        self.batch_seq = 0
        return 0

    cdef int put_deletions(self) except -1:
        return self.file.put_deletions(self.removals, self.last_seq, self.last_time_ns)

    def write_config(self, dict meta not None):
        """Log a new configuration; later segments carry it in their header."""
        cdef bytes text = store_format.encode_json(meta)
        self.meta = meta
        self.file.put(KIND_CONFIG, self.last_seq, self.last_time_ns, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self.changed()

    cdef int write_tail(self) except -1:
        if (<FileSegment>self.active).fd < 0:
            # it could not be made when it was needed first
            self.make_file(<FileSegment>self.active)
        return self.file.write()

    # --- after a failed write ---

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
        if self.round.running or self.health.state == MOVING or not self.health.has_reserve():
            self.health.try_later()
            return
        if self.always and self.round.suspect is not None:
            error = self.round.suspect
            self.round.suspect = None
            self.sync_failed(error)
            return
        self.health.take(TRIED)
        if self.sealing.overdue and self.active.slots:
            try:
                self.roll(self.last_seq + 1)
            except StorageError:
                return                 # it has been told, and the next try is to come
        elif (<FileSegment>self.active).fd >= 0 and not self.has_room():
            return
        self.sealing.overdue = False   # nor is there a successor to an empty one: it would have its name
        self.file.put(KIND_DELETIONS, self.last_seq, self.last_time_ns, NULL, 0)
        self.changed()

    def has_room(self):
        """Can the active file grow by whatever may be published? When not, the next try is to come."""
        try:
            self.file.probe()
        except OSError as error:
            self.refuse(f"{error.strerror or error}")
            return False
        finally:
            self.files.cut(self.active, self.file.tail.end())
        return True

    cdef int ready(self) except -1:
        if self.closed:
            raise StorageError(f"{self.directory}: the log is closed")
        if self.health.failed is not None and not self.batch_seq:
            raise self.health.failed
        return 0

    cdef int write_failed(self, object error) except -1:
        """Keep what was wholly written, take the other appends back and answer for them."""
        cdef FileSegment segment = <FileSegment>self.active
        cdef Py_ssize_t slots = self.file.written_slots()
        cdef uint64_t boundary = self.file.written_boundary(slots)
        cdef uint64_t first_lost = segment.first_seq + slots
        cdef bint lost = first_lost <= self.last_seq
        self.refuse(f"{error.strerror or error}")
        if lost:
            self.take_back(first_lost)
            self.changes.waiters.fail(self.health.failed)
        self.removals.take_back(self.last_seq)
        self.file.cut_back(boundary)
        self.files.cut(segment, boundary)
        self.written = self.last_seq
        if lost and self.observer is not None:
            self.observer.on_write_failed(first_lost, self.health.failed)
        return self.write_reserved()

    cdef int write_reserved(self) except -1:
        """Removals must still become durable on a full disk: give the reserve back to the disk and write them.

        Appends that were written wholly, in front of the one that was not, are committed with them.
        """
        cdef uint64_t boundary = self.file.tail.end()
        if self.removals.pending.count or self.changes.waiters.waiting:
            self.health.use_reserve()
        self.put_deletions()
        try:
            self.write_tail()
        except OSError as error:
            if self.file.tail.written > boundary:
                self.files.cut(<FileSegment>self.active, boundary)
            self.file.cut_back(boundary)
            self.removals.take_back(self.last_seq)
            self.changes.waiters.fail(StorageError(f"{self.directory}: {error.strerror or error}"))
            return 0
        self.all_written()
        if self.always:
            return self.group.request(self)
        self.advance_committed()
        return self.group.request_later(self)

    def restore(self, list sequences not None):
        """Undo removals that are not written yet: those that limits made for appends which were taken back.

        Returns how many messages are back; one whose segment has been dropped stays removed.
        """
        cdef list back = sorted(sequences)
        self.removals.undo(back)
        return sum([self.revive_message(seq) for seq in back])

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

    cdef FileSegment new_segment(self, uint64_t first_seq, uint64_t valid_before):
        cdef FileSegment segment = self.files.new_segment(self.directory, first_seq, valid_before, self.active)
        segment.last_time = self.last_time_ns
        return segment

    cdef int make_file(self, FileSegment segment) except -1:
        self.files.make(segment)
        self.round.changed_directory(self.directory)
        return 0

    cdef bytes header_of(self, FileSegment segment):
        cdef bytes header = store_format.encode_header(self.stream_id, segment.first_seq, segment.created_ns,
                                                       segment.previous, segment.valid_before, self.meta)
        segment.header_len = len(header)
        return header

    cdef int start_segment(self, FileSegment segment) except -1:
        """Make `segment` the active one; its header is the first thing in the write buffer."""
        self.file.begin(segment, self.header_of(segment))
        segment.end = segment.header_len
        self.sealing.batches_end = 0
        self.active = segment
        self.segments.append(segment)
        return 0

    cdef int roll(self, uint64_t first_seq) except -1:
        cdef FileSegment old = <FileSegment>self.active
        cdef FileSegment new
        try:
            # before there is a newer file: who reads the folder takes what is missing in an older one for lost
            self.write_tail()
        except OSError as error:
            self.write_failed(error)
            raise self.health.failed from error
        try:
            new = self.new_segment(first_seq, PREVIOUS_SEALED)
            self.make_file(new)
        except OSError as error:
            self.sealing.overdue = True
            self.refuse(f"no new segment can be made: {error.strerror}")
            raise self.health.failed from error
        self.file.record(self.removals)
        try:
            self.sealing.seal(old, self.file.tail.synced)
        except OSError:
            # no room for the footer: the records are all there, and the next header says up to where
            self.files.cut(old, old.end)
            new.valid_before = old.end
        self.files.use(old)
        if self.always:
            self.file.retain()
        self.round.seal(old)
        self.removals.new_file()
        self.start_segment(new)
        if self.on_sealed is not None:
            self.on_sealed(old)
        if old.live == 0 and old.lost is None:
            self.drop_dead_segments()
        return 0

    cdef Ranges recorded_ranges(self, FileSegment segment):
        """Every deletion range this segment's file records."""
        cdef Ranges ranges = self.files.recorded(segment)
        if ranges is None:
            self.rebuild(segment)
            ranges = self.files.recorded(segment)
        return ranges

    cdef int rebuild(self, FileSegment segment) except -1:
        if rebuild_columns(self.files, segment):
            self.recount()
        return 0

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
        gap_first, gap_last = self.gaps.without(gap_first, gap_last, segment.first_seq)
        ranges.add(gap_first, gap_last)
        ranges.normalize()
        self.removals.extend(ranges)
        self.round.drop(segment, self.changes.accepted + 1)
        segment.retained = None
        self.files.forget(segment)
        segment.unload()
        if self.on_removed is not None:
            self.on_removed(segment)
        self.changed()
        return 0

    # --- reading ---

    cdef int load(self, Segment wanted) except -1:
        cdef FileSegment segment = <FileSegment>wanted
        if segment.used_at != self.files.clock:
            self.files.use(segment)
        if segment.offsets != NULL or segment.slots == 0:
            return 0
        self.files.shed(self.segments, self.round.held(), self.loaded_bound - 1)
        if not self.files.load(segment):
            self.rebuild(segment)
        return 0

    cdef const char* fetch(self, Segment wanted, Py_ssize_t slot) except? NULL:
        cdef FileSegment segment = <FileSegment>wanted
        if segment is not self.active:
            return self.files.fetch(segment, slot, segment.end)
        if segment.offsets[slot] >= self.file.tail.base:
            return self.file.tail.at(segment.offsets[slot])
        return self.files.fetch(segment, slot, self.file.tail.written)

    cdef int erase_slot(self, Segment wanted, Py_ssize_t slot) except -1:
        """Overwrite subject, headers and payload; the checksum is left, so that nothing reads it as a message.

        In a packed segment that is done in a thread, and the next `commit` waits for it. Raises StorageError.
        """
        cdef FileSegment segment = <FileSegment>wanted
        cdef uint64_t start = segment.offsets[slot] + RECORD_HEADER
        cdef uint64_t end = segment.offsets[slot] + <uint64_t>segment.record_size(slot)
        if segment.sealed and self.packer.erase(self, segment, start, end):
            return 0
        if segment is self.active and start < self.sealing.batches_end:
            # a batch that lacks a record is taken for torn, unless its removal is on disk before
            self.flush()
            if slot >= segment.slots:
                return 0
            self.sync_now(segment)
        if segment is self.active:
            end = self.file.erase(start, end)
        segment.erase_retained(start, end)
        if start < end:
            self.files.overwrite(segment, start, end)
            self.round.changed_bytes(segment)
        return self.files.forget(segment)

    def sync_now(self, FileSegment segment not None):
        """Have what is in the file on disk, without committing it. Raises StorageError."""
        cdef str path = segment.path if segment.temporary is None else segment.temporary
        try:
            sync_apart(self.disk, path)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error

    # --- life ---

    def rest(self):
        """Give the write buffer back when nothing was written since the last call. Called every few seconds."""
        if self.changes.rests(self.always) and self.file.tail.capacity and not self.round.running \
                and self.health.failed is None:
            self.file.tail.give_back()

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
        for segment in [*self.segments, *[s for _, s in self.round.dead]]:
            self.files.close(segment)
        self.files.clear()

    def buffer_bytes(self):
        """Memory held for writing."""
        return self.file.tail.capacity

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
        self.round.moved_to(directory)
