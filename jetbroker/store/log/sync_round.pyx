# cython: boundscheck=False, wraparound=False
"""Which of a log's files wait for their fdatasync, and what the round under way covers (see sync_round.pxd)."""
from functools import partial

from libc.stdint cimport uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.segment_files cimport FileSegment


cdef class SyncRound:
    """The files of one log between write and fdatasync."""

    def __init__(self, Disk disk not None):
        self.disk = disk
        self.unsynced = []
        self.directories = set()
        self.erased = set()
        self.dead = []
        self.round_erased = set()
        self.round_directories = set()

    def seal(self, FileSegment segment not None):
        """It was the active one, and waits for its fdatasync."""
        self.unsynced.append(segment)

    def changed_directory(self, str path not None):
        """A file in it was made or got another name."""
        self.directories.add(path)

    def changed_bytes(self, FileSegment segment not None):
        """Something in the segment's file was overwritten."""
        self.erased.add(segment)

    cpdef list begin(self, FileSegment active, uint64_t change, uint64_t seq, uint64_t offset):
        """What a round must do that covers everything up to this change, sequence and place in the active file.

        All files are open.
        """
        cdef FileSegment segment
        cdef list targets = []
        self.running = True
        self.active = active
        self.upto = Position(change, seq, offset)
        self.round_erased, self.erased = self.erased, set()
        self.round_directories, self.directories = self.directories, set()
        for segment in [*self.unsynced, *self.round_erased, active]:
            targets.append(segment.fd)
            if segment.temporary is not None:
                targets.append(partial(self.disk.rename, segment.temporary, segment.path))
        targets.extend(self.round_directories)
        return targets

    cpdef int end(self) except -1:
        """The round worked: what is sealed from its active segment on waits for the next one."""
        cdef FileSegment segment
        self.running = False
        self.round_erased = set()
        self.round_directories = set()
        while self.unsynced and self.unsynced[0] is not self.active:
            segment = self.unsynced.pop(0)
            segment.temporary = None
            segment.retained = None
            if segment.footer_at:
                segment.recorded = None    # its file says it
        if self.unsynced and self.active.retained is not None:
            # it was sealed meanwhile, and only what came behind is still to be synced
            self.active.retained = self.active.retained[self.upto.offset - self.active.retained_at:]
            self.active.retained_at = self.upto.offset
        self.active.temporary = None
        return 0

    cpdef int fail(self) except -1:
        """The round did not work: what was overwritten elsewhere than in the files it was for waits for the next one."""
        self.running = False
        self.erased = (self.erased | self.round_erased).difference(self.unsynced, [self.active])
        self.round_erased = set()
        self.directories |= self.round_directories
        self.round_directories = set()
        return 0

    cpdef bint leave(self) except -1:
        """The files of the round that failed are never synced again; is the log's active one among them?"""
        cdef bint is_sealed = self.active in self.unsynced
        self.unsynced = self.unsynced[self.unsynced.index(self.active) + 1:] if is_sealed else []
        return not is_sealed

    cpdef list removable(self, uint64_t change):
        """The dropped segments whose files may go now that `change` is synced."""
        cdef list found = [segment for needed, segment in self.dead if needed <= change]
        self.dead = [(needed, segment) for needed, segment in self.dead if needed > change]
        return found

    cpdef set held(self):
        """Segments whose files are being synced, or wait for it."""
        return {*self.unsynced, *self.erased, *self.round_erased}

    cdef int drop(self, FileSegment segment, uint64_t change) except -1:
        """Nothing in the segment is alive; its file goes when `change`, which says so, is synced."""
        self.dead.append((change, segment))
        if segment in self.unsynced and not (self.running and self.active is segment):
            self.unsynced.remove(segment)
        return 0

    def moved_to(self, str directory not None):
        """The log's directory has another name now, and that is on disk."""
        if self.directories:
            self.directories = {directory}
