# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Overwriting a removed message in its segment file."""
from libc.stdint cimport uint64_t

from jetbroker.errors import StorageError
from jetbroker.store.log.atomic import sync_apart

from jetbroker.store.log.filelog cimport FileLog, FileSegment
from jetbroker.store.format.records cimport RECORD_HEADER


def erase_slot(FileLog log not None, FileSegment segment not None, Py_ssize_t slot):
    """Overwrite subject, headers and payload; the checksum is left, so that nothing reads it as a message.

    In a packed segment that is done in a thread, and the next `commit` waits for it. Raises StorageError.
    """
    cdef uint64_t offset = segment.offsets[slot] + RECORD_HEADER
    cdef uint64_t n = log.record_size(segment, slot) - RECORD_HEADER
    if segment.sealed and log.packer.erase(log, segment, offset, offset + n):
        return
    if segment is log.active and offset < log.batches_end:
        # a batch that lacks a record is taken for torn, unless its removal is on disk before
        log.flush()
        if slot >= segment.slots:
            return
        _sync(log, segment)
    if segment is log.active:
        log.tail.erase(offset, offset + n)
    if segment is not log.active or offset < log.tail.written:
        log.open_segment(segment)
        try:
            log.disk.write_all(segment.fd, bytes(min(n, log.tail.written - offset)
                                                 if segment is log.active else n), offset)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error
        log.erased.add(segment)
    log.blocks.forget(segment.tag)


cdef int _sync(FileLog log, FileSegment segment) except -1:
    cdef str path = segment.path if segment.temporary is None else segment.temporary
    try:
        sync_apart(log.disk, path)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    return 0
