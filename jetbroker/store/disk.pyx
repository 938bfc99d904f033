# cython: boundscheck=False, wraparound=False
"""The one narrow layer for disk, clock and randomness."""
import os
import time

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint64_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

cdef extern from "unistd.h" nogil:
    Py_ssize_t c_pwrite "pwrite"(int, const void*, size_t, int64_t)
    Py_ssize_t c_pread "pread"(int, void*, size_t, int64_t)
    int c_fdatasync "fdatasync"(int)

cdef extern from *:
    """
    #include <fcntl.h>
    #ifdef SYNC_FILE_RANGE_WRITE
    static void start_writing_file(int fd) { (void) !sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }
    #else
    static void start_writing_file(int fd) { (void) fd; }
    #endif
    """
    void start_writing_file(int fd) noexcept nogil

cdef extern from *:
    """
    #include <setjmp.h>
    #include <signal.h>
    #include <stdatomic.h>
    #include <string.h>
    #include <sys/mman.h>

    static __thread sigjmp_buf *volatile copying;
    static struct sigaction before;
    static int handled;

    static void on_bus_error(int number) {
        sigjmp_buf *back = copying;
        if (back != NULL) {
            copying = NULL;
            siglongjmp(*back, 1);
        }
        sigaction(number, &before, NULL); /* whoever faulted faults again */
        handled = 0;
    }

    /* SA_NODEFER: siglongjmp leaves the mask as it is, which spares a call of the system for each copy. */
    static int handle_bus_errors(void) {
        struct sigaction own;
        if (handled) return 0;
        memset(&own, 0, sizeof own);
        own.sa_handler = on_bus_error;
        own.sa_flags = SA_NODEFER;
        sigemptyset(&own.sa_mask);
        if (sigaction(SIGBUS, &own, &before) != 0) return -1;
        handled = 1;
        return 0;
    }

    static int copy_mapped(char *out, const char *from, size_t n) {
        sigjmp_buf back;
        if (sigsetjmp(back, 0)) return -1;
        copying = &back;
        atomic_signal_fence(memory_order_seq_cst);
        memcpy(out, from, n);
        atomic_signal_fence(memory_order_seq_cst);
        copying = NULL;
        return 0;
    }

    static const char *map_bytes(int fd, size_t length) {
        void *start = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
        if (start == MAP_FAILED) return NULL;
        (void) madvise(start, length, MADV_RANDOM); /* a record is wanted, not what stands beside it */
        return start;
    }

    static void unmap_bytes(const char *start, size_t length) { (void) munmap((void *) start, length); }
    """
    int handle_bus_errors() noexcept nogil
    int copy_mapped(char* out, const char* start, size_t n) noexcept nogil
    const char* map_bytes(int fd, size_t length) noexcept nogil
    void unmap_bytes(const char* start, size_t length) noexcept nogil


cdef class FileMap:
    """Made by Disk.map().

    A page that the disk does not give is told by a signal, SIGBUS, in the middle of a copy. Its handler takes the copy
    back to where it began. A SIGBUS from elsewhere is left to the handler that was there before.
    """

    def __dealloc__(self) -> None:
        if self.start != NULL:
            unmap_bytes(self.start, self.length)

    cdef bint copy(self, char* out, uint64_t offset, Py_ssize_t n) noexcept:
        if offset > self.length or <uint64_t>n > self.length - offset:
            return False
        return copy_mapped(out, self.start + offset, n) == 0


cdef FileMap map_file(int fd, uint64_t length):
    cdef FileMap made
    cdef const char* start
    if length == 0 or handle_bus_errors() != 0:
        return None
    start = map_bytes(fd, length)
    if start == NULL:
        return None
    made = FileMap()
    made.start = start
    made.length = length
    return made


cdef class Disk:
    """The real disk, clock and randomness. Failures raise OSError."""

    def open(self, path, int flags, int mode=0o640):
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, int fd):
        os.close(fd)

    cdef Py_ssize_t write_at(self, int fd, const char* p, Py_ssize_t n, int64_t offset) except? -1:
        cdef Py_ssize_t k
        cdef int code = 0
        while True:
            with nogil:
                k = c_pwrite(fd, p, n, offset)
                if k < 0:
                    code = errno
            if k >= 0:
                return k
            if code != EINTR:
                raise OSError(code, os.strerror(code))

    cdef Py_ssize_t read_at(self, int fd, char* p, Py_ssize_t n, int64_t offset) except? -1:
        cdef Py_ssize_t k
        cdef Py_ssize_t done = 0
        cdef int code = 0
        while done < n:
            with nogil:
                k = c_pread(fd, p + done, n - done, offset + done)
                if k < 0:
                    code = errno
            if k == 0:
                break
            if k > 0:
                done += k
            elif code != EINTR:
                raise OSError(code, os.strerror(code))
        return done

    cdef FileMap map(self, int fd, uint64_t length):
        return map_file(fd, length)

    def write_all(self, int fd, bytes data, int64_t offset):
        """Write all of `data` at `offset`."""
        cdef Py_ssize_t done = 0
        cdef Py_ssize_t k
        cdef Py_ssize_t n = len(data)
        while done < n:
            k = self.write_at(fd, PyBytes_AS_STRING(data) + done, n - done, offset + done)
            if k == 0:
                raise OSError(28, "nothing was written")
            done += k

    def read(self, int fd, Py_ssize_t size, int64_t offset):
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
        cdef Py_ssize_t k = self.read_at(fd, PyBytes_AS_STRING(out), size, offset)
        return out if k == size else out[:k]

    cdef int sync_file(self, int fd) noexcept nogil:
        return 0 if c_fdatasync(fd) == 0 else errno

    cdef void start_writing(self, int fd) noexcept nogil:
        start_writing_file(fd)

    def fdatasync(self, int fd):
        cdef int code
        with nogil:
            code = self.sync_file(fd)
        if code:
            raise OSError(code, os.strerror(code))

    def sync_directory(self, path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def truncate(self, int fd, size):
        os.ftruncate(fd, size)

    def allocate(self, int fd, size):
        os.posix_fallocate(fd, 0, size)

    def size(self, int fd):
        return os.fstat(fd).st_size

    def stat(self, path):
        return os.stat(path)

    def rename(self, source, target):
        os.rename(source, target)

    def unlink(self, path):
        os.unlink(path)

    def mkdir(self, path):
        os.mkdir(path, 0o750)

    def rmdir(self, path):
        os.rmdir(path)

    def listdir(self, path):
        return sorted(os.listdir(path))

    cpdef int64_t time_ns(self) except? -1:
        cdef timespec now
        clock_gettime(CLOCK_REALTIME, &now)
        return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec

    def monotonic(self):
        return time.monotonic()

    def random_bytes(self, int n):
        return os.urandom(n)


cdef class ObservedDisk(Disk):
    """Calls `before` ahead of each call. Raise OSError there to fail it; return n to shorten a write to n bytes."""

    def __cinit__(self):
        self.paths = {}

    def before(self, call, path, size, offset):
        return None

    def open(self, path, int flags, int mode=0o640):
        self.before("open", path, flags, 0)
        fd = Disk.open(self, path, flags, mode)
        self.paths[fd] = path
        return fd

    def close(self, int fd):
        self.paths.pop(fd, None)
        Disk.close(self, fd)

    cdef Py_ssize_t write_at(self, int fd, const char* p, Py_ssize_t n, int64_t offset) except? -1:
        allowed = self.before("write", self.paths.get(fd, ""), n, offset)
        return Disk.write_at(self, fd, p, n if allowed is None else min(n, allowed), offset)

    cdef Py_ssize_t read_at(self, int fd, char* p, Py_ssize_t n, int64_t offset) except? -1:
        self.before("read", self.paths.get(fd, ""), n, offset)
        return Disk.read_at(self, fd, p, n, offset)

    cdef FileMap map(self, int fd, uint64_t length):
        return None                    # every read is observed

    cdef int sync_file(self, int fd) noexcept nogil:
        with gil:
            try:
                self.before("fdatasync", self.paths.get(fd, ""), 0, 0)
            except Exception as error:
                return getattr(error, "errno", None) or EIO
        return Disk.sync_file(self, fd)

    def sync_directory(self, path):
        self.before("sync_directory", path, 0, 0)
        Disk.sync_directory(self, path)

    def truncate(self, int fd, size):
        self.before("truncate", self.paths.get(fd, ""), size, 0)
        Disk.truncate(self, fd, size)

    def allocate(self, int fd, size):
        self.before("allocate", self.paths.get(fd, ""), size, 0)
        Disk.allocate(self, fd, size)

    def rename(self, source, target):
        self.before("rename", source, 0, 0)
        Disk.rename(self, source, target)

    def unlink(self, path):
        self.before("unlink", path, 0, 0)
        Disk.unlink(self, path)

    def mkdir(self, path):
        self.before("mkdir", path, 0, 0)
        Disk.mkdir(self, path)

    def rmdir(self, path):
        self.before("rmdir", path, 0, 0)
        Disk.rmdir(self, path)
