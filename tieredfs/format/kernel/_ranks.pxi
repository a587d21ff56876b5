# Sorted numbers, as indexes have them.

cdef class Ranks:
    """Sorted int64, held as long as this object lives.

    Args:
        numbers: Rising; what falls gives a rank that means nothing, and no harm.
    """

    cdef _View view

    def __cinit__(self, object numbers):
        self.view = _View(numbers)
        self.view.hold_int64(0)

    def of(self, object number):
        """Return how many of the numbers are no larger than one."""
        cdef const int64_t *first = <const int64_t *>self.view.held.buf
        cdef int64_t left = self.view.held.len // <int64_t>sizeof(int64_t)
        cdef int64_t half, value
        cdef const int64_t *at = first
        try:
            value = number
        except OverflowError:
            return left if number > 0 else 0
        # Without a branch that could be guessed wrong: half of the numbers go each time.
        while left > 1:
            half = left >> 1
            at += half if at[half - 1] <= value else 0
            left -= half
        return at - first + (left == 1 and at[0] <= value)


cdef class WireRanks:
    """Entries as an index file has them, each with a big-endian key in front.

    The buffer is held as long as this object lives.

    Args:
        data: Entries whose keys rise; what falls gives a rank that means nothing, and
            no harm. What is left at the end of no whole entry is not looked at.
        size: Bytes of an entry.
        width: Bytes of its key: 4 or 8.
    """

    cdef _View view
    cdef int64_t count
    cdef int64_t size
    cdef bint is_wide

    def __cinit__(self, object data, int64_t size, int width):
        if width not in (4, 8) or size < width:
            raise ValueError(f"a key of {width} in an entry of {size} bytes")
        self.view = _View(data)
        self.count = self.view.held.len // size
        self.size = size
        self.is_wide = width == 8

    cdef int64_t rank(self, int64_t number) noexcept nogil:
        cdef const uint8_t *first = <const uint8_t *>self.view.held.buf
        cdef const uint8_t *at = first
        cdef int64_t left = self.count
        cdef int64_t half
        # Without a branch that could be guessed wrong: half of them go each time.
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
        """Return how many of the keys are no larger than a number."""
        cdef int64_t value
        try:
            value = number
        except OverflowError:
            return self.count if number > 0 else 0
        return self.rank(value)

    def of_all(self, object numbers, object ranks):
        """Write the ranks of many numbers; both are int64, of the same length."""
        cdef _View asked = _View(numbers)
        cdef _View told = _View(ranks, True)
        asked.hold_int64(0)
        told.hold_int64(asked.held.len // <int64_t>sizeof(int64_t))
        cdef const int64_t *number = <const int64_t *>asked.held.buf
        cdef int64_t *rank = <int64_t *>told.held.buf
        cdef int64_t index
        with nogil:
            for index in range(asked.held.len // <int64_t>sizeof(int64_t)):
                rank[index] = self.rank(number[index])
