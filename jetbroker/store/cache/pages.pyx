# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The pages of the cache's data file, before LMDB maps them.

LMDB trusts its file: a page number, node or length that leads elsewhere is followed there, or ends the process. So the
trees of the newest transaction are walked here once.  Each page belongs to one of them, or to one entry of the list of
free pages; each node ends within its page.
"""
from libc.stdint cimport uint16_t, uint64_t
from libc.stdlib cimport calloc, free

from jetbroker.store.format.records cimport load_u16, load_u32, load_u64

cdef enum:
    PAGE_HEADER = 16               # u64 number, u16 unused, u16 kind, u16 lower, u16 upper (or u32 pages)
    NODE_HEADER = 8                # u16 and u16 of the data's length, u16 flags, u16 length of the key
    BRANCH = 1
    LEAF = 2
    OVERFLOW = 4
    NODE_BIG = 1                   # the data stand in pages of their own
    NODE_TREE = 2                  # the data describe a tree
    TREE_BYTES = 48                # u32, u16 flags, u16 depth, three u64, u64 entries, u64 root
    TREE_FREE = 40                 # in a meta page: the tree of free pages, and behind it that of the names
    META_LAST_PAGE = 136
    META_TRANSACTION = 144
    INTEGER_KEYS = 8
    MAX_DEPTH = 16
    MAX_KEY = 511

cdef uint64_t NO_ROOT = 0xFFFFFFFFFFFFFFFFULL


cdef class Pages:
    """The pages that were met so far."""
    cdef const char* data
    cdef uint64_t count
    cdef uint64_t size
    cdef char* met

    def __dealloc__(self):
        free(self.met)

    cdef bint meet(self, uint64_t first, uint64_t pages) noexcept:
        """These pages are there, and nobody else's."""
        cdef uint64_t i
        if first < 2 or pages == 0 or first >= self.count or pages > self.count - first:
            return False
        for i in range(first, first + pages):
            if self.met[i]:
                return False
            self.met[i] = 1
        return True

    cdef bint tree(self, const char* described, uint16_t flags, bint has_trees, bint is_free) noexcept:
        """A tree that a meta page or a node describes."""
        cdef uint64_t root = load_u64(described + 40)
        cdef uint16_t depth = load_u16(described + 6)
        cdef uint64_t entries = 0
        if load_u16(described + 4) != flags or depth > MAX_DEPTH:
            return False
        if root == NO_ROOT:
            return depth == 0 and load_u64(described + 32) == 0
        return depth > 0 and self.page(root, depth, &entries, has_trees, is_free) \
            and entries == load_u64(described + 32)

    cdef bint page(self, uint64_t number, int depth, uint64_t* entries, bint has_trees, bint is_free) noexcept:
        cdef const char* p
        cdef uint64_t lower
        cdef uint64_t upper
        cdef uint64_t at
        cdef uint64_t i
        if not self.meet(number, 1):
            return False
        p = self.data + number * self.size
        if load_u64(p) != number or load_u16(p + 10) != (LEAF if depth == 1 else BRANCH):
            return False
        lower = load_u16(p + 12)
        upper = load_u16(p + 14)
        if lower & 1 or lower < PAGE_HEADER + (2 if depth == 1 else 4) or lower > upper or upper > self.size:
            return False
        for i in range((lower - PAGE_HEADER) // 2):
            at = load_u16(p + PAGE_HEADER + 2 * i)
            if at & 1 or at < upper or at + NODE_HEADER > self.size \
                    or at + NODE_HEADER + load_u16(p + at + 6) > self.size:
                return False
            if depth > 1:
                if not self.page(load_u32(p + at) | <uint64_t>load_u16(p + at + 4) << 32, depth - 1, entries, has_trees,
                                 is_free):
                    return False
                continue
            entries[0] += 1
            if not self.leaf_node(p + at, self.size - at, has_trees, is_free):
                return False
        return True

    cdef bint leaf_node(self, const char* node, uint64_t room, bint has_trees, bint is_free) noexcept:
        cdef uint64_t length = load_u32(node)
        cdef uint16_t flags = load_u16(node + 4)
        cdef uint64_t start = NODE_HEADER + <uint64_t>load_u16(node + 6)
        cdef const char* data = node + start
        if start == NODE_HEADER or start > NODE_HEADER + MAX_KEY or (is_free and start != NODE_HEADER + 8):
            return False
        if flags == NODE_BIG:
            if start + 8 > room:
                return False
            data = self.overflow(load_u64(data), length)
            if data == NULL:
                return False
        elif start + length > room or flags != (NODE_TREE if has_trees else 0):
            return False
        if has_trees:
            return flags == NODE_TREE and length == TREE_BYTES and self.tree(data, 0, False, False)
        return not is_free or self.free_list(data, length)

    cdef const char* overflow(self, uint64_t number, uint64_t length) noexcept:
        """Data of this length in pages of their own; NULL: they are not there."""
        cdef const char* p
        cdef uint64_t pages
        if number < 2 or number >= self.count:
            return NULL
        p = self.data + number * self.size
        pages = load_u32(p + 12)
        if load_u64(p) != number or load_u16(p + 10) != OVERFLOW or PAGE_HEADER + length > pages * self.size \
                or not self.meet(number, pages):
            return NULL
        return p + PAGE_HEADER

    cdef bint free_list(self, const char* data, uint64_t length) noexcept:
        """Free pages: how many, and their numbers from the last to the first."""
        cdef uint64_t count
        cdef uint64_t i
        cdef uint64_t before = self.count
        if length < 8:
            return False
        count = load_u64(data)
        if count > (length - 8) // 8:
            return False
        for i in range(1, count + 1):
            if load_u64(data + 8 * i) >= before or not self.meet(load_u64(data + 8 * i), 1):
                return False
            before = load_u64(data + 8 * i)
        return True


def pages_are_sound(const unsigned char[::1] data not None, uint64_t page_size):
    """Does every page of the newest transaction lead to where it may? The meta pages themselves were checked."""
    cdef Pages pages = Pages()
    cdef const char* first = <const char*>&data[0]
    cdef const char* second = first + page_size
    cdef const char* meta = second if load_u64(first + META_TRANSACTION) < load_u64(second + META_TRANSACTION) else first
    pages.data = first
    pages.size = page_size
    pages.count = load_u64(meta + META_LAST_PAGE) + 1
    if pages.count < 2 or pages.count > <uint64_t>data.shape[0] // page_size:
        return False
    pages.met = <char*>calloc(pages.count, 1)
    if pages.met == NULL:
        raise MemoryError("no memory to check the cache")
    return (load_u64(meta + META_TRANSACTION) < NO_ROOT // 2
            and pages.tree(meta + TREE_FREE, INTEGER_KEYS, False, True)
            and pages.tree(meta + TREE_FREE + TREE_BYTES, 0, True, False))
