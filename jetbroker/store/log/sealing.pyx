# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The end of a segment: its footer (see sealing.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.log.atomic import sync_apart

from jetbroker.store.disk cimport Disk
from jetbroker.store.format.records cimport TRAILER_BYTES, build_footer, crc32c_update
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment


cdef bytes segment_footer(FileSegment segment, uint64_t at, Ranges recorded):
    cdef uint32_t no_text = 0
    recorded.normalize()
    return build_footer(at, segment.first_seq, segment.slots, segment.offsets, segment.times, segment.sizes,
                        segment.ids, segment.subjects,
                        segment.text_offsets if segment.text_offsets != NULL else &no_text, segment.text,
                        recorded.data, recorded.count, segment.msg_ids)


cdef class Sealing:
    """Seals the segments of one log."""

    def __init__(self, Disk disk not None, bint syncs_batches):
        self.disk = disk
        self.syncs_batches = syncs_batches

    cpdef int seal(self, FileSegment segment, uint64_t synced) except -1:
        """Write the footer of a segment of which the first `synced` bytes are on disk.

        Raises OSError: then it is sealed all the same, but has no footer.
        """
        cdef uint64_t at = (segment.end + 7) & ~<uint64_t>7
        cdef bytes footer
        segment.sealed = True
        if self.syncs_batches and self.batches_end > synced:
            sync_apart(self.disk, segment.path if segment.temporary is None else segment.temporary)
        footer = segment_footer(segment, at, segment.recorded)
        self.disk.write_all(segment.fd, footer, at)
        segment.footer_at = at
        segment.footer_len = PyBytes_GET_SIZE(footer) - TRAILER_BYTES
        segment.footer_crc = crc32c_update(0, PyBytes_AS_STRING(footer), segment.footer_len)
        return 0
