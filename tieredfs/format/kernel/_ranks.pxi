# The rank of a number among the sorted numbers of an index.

cdef class Ranks:
    """Sorted int64, held as long as this object exists.

    Args:
        numbers: Increasing numbers; others give a meaningless rank, but do no harm.
    """

    cdef _View view

    def __cinit__(self, object numbers):
        self.view = _View(numbers)
        self.view.hold_int64(0)

    def of(self, object number):
        """Return how many of the numbers are at most ``number``."""
        cdef const int64_t *first = <const int64_t *>self.view.held.buf
        cdef int64_t left = self.view.held.len // <int64_t>sizeof(int64_t)
        cdef int64_t half, value
        cdef const int64_t *at = first
        try:
            value = number
        except OverflowError:
            return left if number > 0 else 0
        # Without a branch to mispredict: each step drops half of the numbers.
        while left > 1:
            half = left >> 1
            at += half if at[half - 1] <= value else 0
            left -= half
        return at - first + (left == 1 and at[0] <= value)


cdef class WireRanks:
    """Entries in the format of an index file, each beginning with a big-endian key.

    The buffer is held as long as this object exists.

    Args:
        data: Entries with increasing keys; others give a meaningless rank, but do no
            harm. An incomplete entry at the end is ignored.
        size: Size of an entry in bytes.
        width: Size of its key in bytes: 4 or 8.
    """

    cdef _View view
    cdef int64_t count
    cdef int64_t size
    cdef bint is_wide

    def __cinit__(self, object data, int64_t size, int width):
        if width not in (4, 8) or size < width:
            raise ValueError(f"a key of {width} bytes in an entry of {size} bytes")
        self.view = _View(data)
        self.count = self.view.held.len // size
        self.size = size
        self.is_wide = width == 8

    cdef int64_t rank(self, int64_t number) noexcept nogil:
        cdef const uint8_t *first = <const uint8_t *>self.view.held.buf
        cdef const uint8_t *at = first
        cdef int64_t left = self.count
        cdef int64_t half
        # Without a branch to mispredict: each step drops half of the keys.
        while left > 1:
            half = left >> 1
            if self.is_wide:
                at += half * self.size if read_64(at + (half - 1) * self.size) <= number else 0
            else:
                at += half * self.size if <int32_t>read_32(at + (half - 1) * self.size) <= number else 0
            left -= half
        if left == 1:
            if self.is_wide:
                left = read_64(at) <= number
            else:
                left = <int32_t>read_32(at) <= number
        return (at - first) // self.size + left

    def of(self, object number):
        """Return how many of the keys are at most ``number``."""
        cdef int64_t value
        try:
            value = number
        except OverflowError:
            return self.count if number > 0 else 0
        return self.rank(value)

    def of_all(self, object numbers, object ranks):
        """Write the ranks of many numbers to ``ranks``; both are int64 of one length."""
        cdef _View source = _View(numbers)
        cdef _View target = _View(ranks, True)
        source.hold_int64(0)
        target.hold_int64(source.held.len // <int64_t>sizeof(int64_t))
        cdef const int64_t *number = <const int64_t *>source.held.buf
        cdef int64_t *rank = <int64_t *>target.held.buf
        cdef int64_t index
        with nogil:
            for index in range(source.held.len // <int64_t>sizeof(int64_t)):
                rank[index] = self.rank(number[index])
