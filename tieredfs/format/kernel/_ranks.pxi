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
