# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: embedsignature=False, binding=False
"""The hot loops of reading and writing records, which copy each byte only once.

The kernel does not use Arrow or numpy: the caller passes buffers. Each size is checked
against the buffer that it applies to, so that no argument can cause a read or write out
of bounds. The interpreter's lock is released for all work on bytes.
"""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_WRITABLE,
    Py_buffer,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy


cdef extern from "_crc32c.h" nogil:
    int crc32c_init()
    uint32_t crc32c_extend(uint32_t crc, const uint8_t *at, size_t size)
    uint32_t crc32c_by_table(uint32_t crc, const uint8_t *at, size_t size)
    void CRC32C_PREFETCH(const uint8_t *at)
    int64_t VARINT_SIZE(uint64_t bits)
    int64_t COUNT_BITS(uint64_t bits)


crc32c_init()


cdef class _View:
    """A buffer that is held as long as this object exists."""

    cdef Py_buffer held
    cdef bint is_held

    def __cinit__(self, object data, bint writable=False):
        cdef int flags = PyBUF_C_CONTIGUOUS
        if writable:
            flags |= PyBUF_WRITABLE
        PyObject_GetBuffer(data, &self.held, flags)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.held)

    cdef int hold(self, int64_t count, int64_t size) except -1:
        """Reject a buffer of fewer than ``count`` items of ``size`` bytes."""
        if count < 0 or self.held.len // size < count:
            raise ValueError(f"a buffer of {self.held.len} bytes is too small")
        return 0

    cdef int hold_int64(self, int64_t count) except -1:
        """Reject a buffer that is not aligned or has fewer than ``count`` int64."""
        if self.held.len and <size_t>self.held.buf % sizeof(int64_t):
            raise ValueError("a buffer is not aligned to 8 bytes")
        return self.hold(count, sizeof(int64_t))


def crc32c(object data, uint32_t crc=0):
    """Return the CRC-32C of some bytes, extending that of the bytes before them."""
    cdef Py_buffer view
    cdef uint32_t found
    PyObject_GetBuffer(data, &view, PyBUF_C_CONTIGUOUS)
    try:
        with nogil:
            found = crc32c_extend(crc, <const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return found


def crc32c_table(object data, uint32_t crc=0):
    """Return the same as ``crc32c`` without the processor's CRC instruction."""
    cdef _View view = _View(data)
    with nogil:
        crc = crc32c_by_table(crc, <const uint8_t *>view.held.buf, <size_t>view.held.len)
    return crc


include "_scan.pxi"
include "_fill.pxi"
include "_packed.pxi"
include "_ranks.pxi"
include "_write.pxi"
include "_lines.pxi"
include "_shared.pxi"
