# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: embedsignature=False, binding=False
"""The machine's part of reading records: walk them, find what they hold, copy it once.

It knows no Arrow and no numpy: whoever calls passes buffers and their meaning. Each
size is checked here against the buffer it is used on, so that no argument makes it read
or write outside; the interpreter's lock is released for all work on bytes.
"""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_WRITABLE,
    Py_buffer,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport (
    INT32_MAX,
    INT64_MAX,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.string cimport memcpy, memset


cdef extern from "_crc32c.h" nogil:
    int crc32c_init()
    uint32_t crc32c_extend(uint32_t crc, const uint8_t *at, size_t size)
    uint32_t crc32c_by_table(uint32_t crc, const uint8_t *at, size_t size)


CRC_IN_HARDWARE = bool(crc32c_init())

# What is wrong with some records; 0 when nothing is.
cdef enum:
    FINE
    BAD_VARINT
    NEGATIVE_LENGTH
    BAD_LENGTH
    BAD_COUNT
    NOT_FILLED
    BATCH_NOT_FILLED
    OFFSET_OUTSIDE
    OFFSET_FALLS
    HEADER_VARINT
    NO_HEADER_KEY

FAULTS = (
    "",
    "a varint is too long or runs past the end",
    "a record has a negative length",
    "a length does not fit its record",
    "a header count does not fit its record",
    "a record does not fill its length",
    "the records do not fill the batch",
    "an offset lies outside its batch",
    "offsets do not rise",
    "a header is too long or runs past the end",
    "a header has no key",
)

# Rows of what is found of each record.
FIELD_ROWS = 9


cdef class _View:
    """A buffer, held as long as this object lives."""

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
        """Refuse a buffer of fewer than ``count`` items of ``size`` bytes."""
        if count < 0 or self.held.len // size < count:
            raise ValueError(f"a buffer of {self.held.len} bytes is too small")
        return 0


def crc32c(object data, uint32_t crc=0):
    """Return the CRC-32C of some bytes, or that of those before them extended."""
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
    """Do as ``crc32c`` does on a processor that does not help."""
    cdef _View view = _View(data)
    with nogil:
        crc = crc32c_by_table(crc, <const uint8_t *>view.held.buf, <size_t>view.held.len)
    return crc


# Where the fields of a batch's header lie, and what is read: see batch.py.
cdef enum:
    HEADER_SIZE = 61
    LENGTH_AT = 12
    MAGIC_AT = 16
    CRC_END = 21
    LEAST_RECORD = 7
    MOST_HEADERS_AT_ONCE = 256


cdef inline uint32_t read_32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t read_64(const uint8_t *at) noexcept nogil:
    return <int64_t>(<uint64_t>read_32(at) << 32 | read_32(at + 4))


cdef inline int16_t read_16(const uint8_t *at) noexcept nogil:
    return <int16_t>(at[0] << 8 | at[1])


cdef bint is_right(const uint8_t *at, int64_t size, int64_t previous) noexcept nogil:
    """Whether a whole batch of ``size`` bytes is one that read_header accepts."""
    cdef int64_t base = read_64(at)
    cdef int64_t delta = <int32_t>read_32(at + 23)
    cdef int64_t count = <int32_t>read_32(at + 57)
    cdef int codec = read_16(at + 21) & 7
    if at[MAGIC_AT] != 2 or codec > 4 or <int32_t>read_32(at + 12) < -1:
        return False
    if base < 0 or base <= previous or delta < 0 or delta > INT64_MAX - base:
        return False
    if count < 0 or count > delta + 1:
        return False
    if codec == 0 and count > (size - HEADER_SIZE) // LEAST_RECORD:
        return False
    return crc32c_extend(0, at + CRC_END, <size_t>(size - CRC_END)) == read_32(at + 17)


cdef int find_batches(
    const uint8_t *data,
    int64_t size,
    int64_t start,
    int64_t previous,
    int64_t ahead,
    int64_t *places,
) noexcept nogil:
    """Find whole batches that are right; return how many."""
    cdef int64_t position = start
    cdef int64_t length
    cdef int found = 0
    while found < MOST_HEADERS_AT_ONCE and position - start < ahead:
        if size - position < HEADER_SIZE:
            break
        length = <int64_t><int32_t>read_32(data + position + 8) + LENGTH_AT
        if length < HEADER_SIZE or length > size - position:
            break
        if not is_right(data + position, length, previous):
            break
        previous = read_64(data + position) + <int32_t>read_32(data + position + 23)
        places[found] = position
        position += length
        found += 1
    return found


def scan_headers(
    object data, int64_t start, int64_t offset, int64_t previous, int64_t ahead
):
    """Read the headers of batches that follow one another, checksums and all.

    It stops before a batch that is cut off or in any way wrong, and does not say why:
    ``read_header`` does.

    Args:
        data: Log bytes.
        start: Where the first batch begins in them.
        offset: Position of the first of the bytes in the log.
        previous: Offset that the first batch must lie above.
        ahead: Batches that begin so many bytes after the first are left for later.

    Returns:
        The fields of each BatchHeader, in their order.
    """
    cdef _View source = _View(data)
    cdef int64_t places[MOST_HEADERS_AT_ONCE]
    cdef const uint8_t *at
    cdef int found, index
    if start < 0:
        raise ValueError("a negative position")
    with nogil:
        found = find_batches(
            <const uint8_t *>source.held.buf,
            source.held.len,
            start,
            previous,
            ahead,
            places,
        )
    headers = []
    for index in range(found):
        at = <const uint8_t *>source.held.buf + places[index]
        headers.append(
            (
                places[index] + offset,
                <int64_t><int32_t>read_32(at + 8) + LENGTH_AT,
                read_64(at),
                read_64(at) + <int32_t>read_32(at + 23),
                <int32_t>read_32(at + 12),
                read_32(at + 17),
                read_16(at + 21),
                read_64(at + 27),
                read_64(at + 35),
                read_64(at + 43),
                read_16(at + 51),
                <int32_t>read_32(at + 53),
                <int32_t>read_32(at + 57),
            )
        )
    return headers


cdef inline bint read_varint(
    const uint8_t *data, int64_t *at, int64_t end, int longest, int64_t *value
) noexcept nogil:
    """Decode the varint at ``at`` and move behind it; false when there is none."""
    cdef int64_t position = at[0]
    cdef uint64_t bits = 0
    cdef uint64_t byte
    cdef int shift = 0
    while position < end and shift < 7 * longest:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            at[0] = position
            value[0] = <int64_t>((bits >> 1) ^ (0 - (bits & 1)))
            return True
        shift += 7
    return False


cdef inline int read_payload(
    const uint8_t *data, int64_t *at, int64_t end, int64_t *start, int64_t *length
) noexcept nogil:
    """Find a field that its length precedes; -1 is null and has no bytes."""
    cdef int64_t size
    if not read_varint(data, at, end, 5, &size):
        return BAD_VARINT
    if size < -1 or size > end - at[0]:
        return BAD_LENGTH
    start[0] = at[0]
    length[0] = size
    if size > 0:
        at[0] += size
    return FINE


cdef int walk(
    const uint8_t *data,
    int64_t size,
    const int64_t *run,
    int64_t total,
    int64_t row,
    int64_t *out,
) noexcept nogil:
    """Decode the records of one run into row ``row`` and those that follow."""
    cdef int64_t position = run[0]
    cdef int64_t bound = run[1]
    cdef int64_t rows = run[2]
    cdef int64_t left = run[3]
    cdef int64_t above = run[4]
    cdef int64_t base = run[5]
    cdef int64_t most = run[6] - run[5]
    cdef uint64_t stamp = <uint64_t>run[7]
    cdef uint64_t moves = 0 if run[8] else 1
    cdef int64_t index, length, end, stamp_delta, delta, count
    cdef int fault
    if position < 0 or bound > size:
        return BATCH_NOT_FILLED
    for index in range(row, row + rows):
        if not read_varint(data, &position, bound, 5, &length):
            return BAD_VARINT
        if length < 0:
            return NEGATIVE_LENGTH
        if length > bound - position:
            return BAD_LENGTH
        end = position + length
        position += 1  # attributes, unused so far
        if not read_varint(data, &position, end, 10, &stamp_delta):
            return BAD_VARINT
        if not read_varint(data, &position, end, 5, &delta):
            return BAD_VARINT
        if delta < 0 or delta > most:
            return OFFSET_OUTSIDE
        delta += base
        if delta <= above:
            return OFFSET_FALLS
        above = delta
        out[index] = delta
        # Wraps like Java's long: the producer subtracted with the same wrap.
        out[total + index] = <int64_t>(stamp + moves * <uint64_t>stamp_delta)
        out[2 * total + index] = end
        fault = read_payload(
            data, &position, end, &out[3 * total + index], &out[4 * total + index]
        )
        if fault:
            return fault
        fault = read_payload(
            data, &position, end, &out[5 * total + index], &out[6 * total + index]
        )
        if fault:
            return fault
        if not read_varint(data, &position, end, 5, &count):
            return BAD_VARINT
        if count < 0 or count > (end - position) // 2:
            return BAD_COUNT
        if not count and position != end:
            return NOT_FILLED
        out[7 * total + index] = count
        out[8 * total + index] = position
        position = end
    if (position != bound) if left == rows else (position >= bound):
        return BATCH_NOT_FILLED
    return FINE


def decode_fields(object data, object runs, int64_t count, object out):
    """Decode all fields of the records of some runs, but their headers.

    Args:
        data: Bytes.
        runs: A row of int64 for each run: start, end, rows, rows left in the batch,
            offset that the first is above, base offset, last offset, timestamp to add
            to, whether that is already the timestamp of all.
        count: Rows of ``runs``.
        out: 9 rows of int64 for as many records as the runs have together: offset,
            timestamp, end, key start and length, value start and length, count of
            headers and where they start.

    Returns:
        What is wrong, as an index of FAULTS; 0 for nothing.
    """
    cdef _View source = _View(data)
    cdef _View table = _View(runs)
    cdef _View target = _View(out, True)
    cdef const int64_t *run
    cdef int64_t index
    cdef int64_t total = 0
    cdef int64_t row = 0
    cdef int fault = FINE
    table.hold(count, 9 * sizeof(int64_t))
    run = <const int64_t *>table.held.buf
    for index in range(count):
        if run[9 * index + 2] < 0 or run[9 * index + 2] > source.held.len:
            raise ValueError("more records than bytes")
        total += run[9 * index + 2]
    target.hold(total, 9 * sizeof(int64_t))
    with nogil:
        for index in range(count):
            fault = walk(
                <const uint8_t *>source.held.buf,
                source.held.len,
                run + 9 * index,
                total,
                row,
                <int64_t *>target.held.buf,
            )
            if fault:
                break
            row += run[9 * index + 2]
    return fault


cdef int walk_headers(
    const uint8_t *data,
    int64_t size,
    int64_t count,
    const int64_t *starts,
    const int64_t *counts,
    const int64_t *ends,
    int64_t total,
    int64_t *out,
) noexcept nogil:
    cdef int64_t row, header, position, end
    cdef int64_t found = 0
    cdef int fault
    for row in range(count):
        position, end = starts[row], ends[row]
        if not counts[row]:
            continue
        if counts[row] < 0 or counts[row] > total - found or position < 0 or end > size:
            return BAD_COUNT
        for header in range(counts[row]):
            fault = read_payload(
                data, &position, end, &out[found], &out[total + found]
            )
            if fault:
                return HEADER_VARINT if fault == BAD_VARINT else fault
            if out[total + found] < 0:
                return NO_HEADER_KEY
            fault = read_payload(
                data, &position, end, &out[2 * total + found], &out[3 * total + found]
            )
            if fault:
                return HEADER_VARINT if fault == BAD_VARINT else fault
            found += 1
        if position != end:
            return NOT_FILLED
    return FINE


def find_headers(
    object data,
    object starts,
    object counts,
    object ends,
    int64_t count,
    int64_t total,
    object out,
):
    """Find the keys and the values of the headers of some records.

    Args:
        data: Bytes.
        starts: Where the headers of each record begin, int64.
        counts: How many each has, int64.
        ends: Where each record ends, int64.
        count: Records.
        total: Headers.
        out: 4 rows of int64, one for each header: key start and length, value start
            and length.

    Returns:
        What is wrong, as an index of FAULTS; 0 for nothing.
    """
    cdef _View source = _View(data)
    cdef _View first = _View(starts)
    cdef _View many = _View(counts)
    cdef _View last = _View(ends)
    cdef _View target = _View(out, True)
    cdef int fault
    first.hold(count, sizeof(int64_t))
    many.hold(count, sizeof(int64_t))
    last.hold(count, sizeof(int64_t))
    target.hold(total, 4 * sizeof(int64_t))
    with nogil:
        fault = walk_headers(
            <const uint8_t *>source.held.buf,
            source.held.len,
            count,
            <const int64_t *>first.held.buf,
            <const int64_t *>many.held.buf,
            <const int64_t *>last.held.buf,
            total,
            <int64_t *>target.held.buf,
        )
    return fault


def payload_size(object lengths, int64_t count):
    """Return the bytes of some payloads, and how many of them are null.

    Raises:
        OverflowError: They are more than an Arrow array of bytes can have.
    """
    cdef _View sizes = _View(lengths)
    cdef const int64_t *size
    cdef int64_t index
    cdef int64_t total = 0
    cdef int64_t nulls = 0
    cdef bint fits = True
    sizes.hold(count, sizeof(int64_t))
    size = <const int64_t *>sizes.held.buf
    with nogil:
        for index in range(count):
            if size[index] < 0:
                nulls += 1
                continue
            if size[index] > INT32_MAX - total:
                fits = False
                break
            total += size[index]
    if not fits:
        raise OverflowError("payloads of 2 GiB or more")
    return total, nulls


cdef bint copy(
    const uint8_t *data,
    int64_t size,
    const int64_t *starts,
    const int64_t *lengths,
    int64_t count,
    int32_t *offsets,
    uint8_t *target,
    int64_t room,
    uint8_t *valid,
) noexcept nogil:
    cdef int64_t row, start, length
    cdef int64_t done = 0
    if valid:
        memset(valid, 0, <size_t>((count + 7) // 8))
    offsets[0] = 0
    for row in range(count):
        start, length = starts[row], lengths[row]
        if length >= 0:
            if start < 0 or start > size or length > size - start:
                return False
            if length > room - done:
                return False
            # A short one is copied as 16 bytes, if there are so many on both sides:
            # that takes no call.
            if length <= 16 and size - start >= 16 and room - done >= 16:
                memcpy(target + done, data + start, 16)
            else:
                memcpy(target + done, data + start, <size_t>length)
            done += length
            if valid:
                valid[row >> 3] |= <uint8_t>(1 << (row & 7))
        offsets[row + 1] = <int32_t>done
    return True


def copy_payloads(
    object data,
    object starts,
    object lengths,
    int64_t count,
    object offsets,
    object target,
    object valid,
):
    """Copy payloads one behind the other, as an Arrow array of bytes has them.

    Args:
        data: Bytes that they lie in.
        starts: Where each lies, int64.
        lengths: Of each, int64; negative for null.
        count: How many they are.
        offsets: int32, one more than there are payloads: filled.
        target: As many bytes as ``payload_size`` says: filled.
        valid: A bit for each: filled; None when none is null.

    Raises:
        ValueError: A payload does not lie inside ``data``, or a buffer is too small.
    """
    cdef _View source = _View(data)
    cdef _View first = _View(starts)
    cdef _View sizes = _View(lengths)
    cdef _View ends = _View(offsets, True)
    cdef _View room = _View(target, True)
    cdef _View bits = None
    cdef uint8_t *mask = NULL
    cdef bint fits
    first.hold(count, sizeof(int64_t))
    sizes.hold(count, sizeof(int64_t))
    ends.hold(count + 1, sizeof(int32_t))
    if valid is not None:
        bits = _View(valid, True)
        bits.hold((count + 7) // 8, 1)
        mask = <uint8_t *>bits.held.buf
    if room.held.len > INT32_MAX:
        raise ValueError("payloads of 2 GiB or more")
    with nogil:
        fits = copy(
            <const uint8_t *>source.held.buf,
            source.held.len,
            <const int64_t *>first.held.buf,
            <const int64_t *>sizes.held.buf,
            count,
            <int32_t *>ends.held.buf,
            <uint8_t *>room.held.buf,
            room.held.len,
            mask,
        )
    if not fits:
        raise ValueError("a payload lies outside the bytes")
