# cython: boundscheck=False, wraparound=False
"""The one narrow layer for disk, clock and randomness."""
import os
import time

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t
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
