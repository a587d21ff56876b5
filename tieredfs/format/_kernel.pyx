# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: embedsignature=False, binding=False
"""The machine's part of reading and writing records: walk them, and copy each byte once.

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

    cdef int hold_int64(self, int64_t count) except -1:
        """Refuse a buffer that is not one of at least ``count`` int64."""
        if self.held.len and <size_t>self.held.buf % sizeof(int64_t):
            raise ValueError("a buffer is not aligned")
        return self.hold(count, sizeof(int64_t))


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
    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08

# The columns of a table of batches: see BATCH_ROW in log_batches.py.
cdef enum:
    POSITION
    SIZE
    BASE_OFFSET
    LAST_OFFSET
    LEADER_EPOCH
    CRC
    ATTRIBUTES
    BASE_TIMESTAMP
    MAX_TIMESTAMP
    PRODUCER_ID
    PRODUCER_EPOCH
    BASE_SEQUENCE
    RECORD_COUNT
    MAGIC
    START
    END
    COLUMNS


cdef inline uint32_t read_32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t read_64(const uint8_t *at) noexcept nogil:
    return <int64_t>(<uint64_t>read_32(at) << 32 | read_32(at + 4))


cdef inline int16_t read_16(const uint8_t *at) noexcept nogil:
    return <int16_t>(at[0] << 8 | at[1])


cdef bint is_right(const int64_t *row, int64_t delta, int64_t previous) noexcept nogil:
    """Whether a header is one that read_header accepts, and follows another."""
    cdef int64_t base = row[BASE_OFFSET]
    cdef int codec = row[ATTRIBUTES] & CODEC_MASK
    if codec > 4 or row[LEADER_EPOCH] < -1:
        return False
    if base < 0 or base <= previous or delta < 0 or delta > INT64_MAX - base:
        return False
    if row[RECORD_COUNT] < 0 or row[RECORD_COUNT] > delta + 1:
        return False
    return (
        codec != 0
        or row[RECORD_COUNT] <= (row[SIZE] - HEADER_SIZE) // LEAST_RECORD
    )


cdef int64_t find_batches(
    const uint8_t *data,
    int64_t size,
    int64_t start,
    int64_t offset,
    int64_t previous,
    int64_t *row,
    int64_t room,
) noexcept nogil:
    """Find whole batches whose headers are right; return how many."""
    cdef int64_t position = start
    cdef int64_t length, delta
    cdef int64_t found = 0
    cdef const uint8_t *at
    while found < room:
        if size - position < HEADER_SIZE:
            break
        at = data + position
        length = <int64_t><int32_t>read_32(at + 8) + LENGTH_AT
        if length < HEADER_SIZE or length > size - position or at[MAGIC_AT] != 2:
            break
        # Each header tells where the next one is, which nobody has touched so far: that
        # took a tenth of the time for small batches. The fourth from here is about where
        # it would be if they were all as long; a prefetch is no access.
        CRC32C_PREFETCH(at + 4 * length - 64)
        CRC32C_PREFETCH(at + 4 * length)
        CRC32C_PREFETCH(at + 4 * length + 64)
        row[POSITION] = position + offset
        row[SIZE] = length
        row[BASE_OFFSET] = read_64(at)
        row[LEADER_EPOCH] = <int32_t>read_32(at + 12)
        row[CRC] = read_32(at + 17)
        row[ATTRIBUTES] = read_16(at + 21)
        row[BASE_TIMESTAMP] = read_64(at + 27)
        row[MAX_TIMESTAMP] = read_64(at + 35)
        row[PRODUCER_ID] = read_64(at + 43)
        row[PRODUCER_EPOCH] = read_16(at + 51)
        row[BASE_SEQUENCE] = <int32_t>read_32(at + 53)
        row[RECORD_COUNT] = <int32_t>read_32(at + 57)
        row[MAGIC] = 2
        row[START] = position + HEADER_SIZE
        row[END] = position + length
        delta = <int32_t>read_32(at + 23)
        if not is_right(row, delta, previous):
            break
        previous = row[BASE_OFFSET] + delta
        row[LAST_OFFSET] = previous
        position += length
        row += COLUMNS
        found += 1
    return found


def scan_headers(
    object data, int64_t start, int64_t offset, int64_t previous, object table
):
    """Read the headers of batches that follow one another; checksums are left for later.

    It stops before a batch that is cut off, not of version 2 or has a wrong header, and
    does not say why: ``read_header`` does.

    Args:
        data: Log bytes.
        start: Where the first batch begins in them.
        offset: Position of the first of the bytes in the log.
        previous: Offset that the first batch must lie above.
        table: Rows of BATCH_ROW: filled, as far as they reach.

    Returns:
        How many batches were found.
    """
    cdef _View source = _View(data)
    cdef _View rows = _View(table, True)
    cdef int64_t found
    rows.hold_int64(0)
    if not 0 <= start <= source.held.len:
        raise ValueError(f"position {start} is not in the bytes")
    with nogil:
        found = find_batches(
            <const uint8_t *>source.held.buf,
            source.held.len,
            start,
            offset,
            previous,
            <int64_t *>rows.held.buf,
            rows.held.len // <int64_t>(COLUMNS * sizeof(int64_t)),
        )
    return found


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
    TOO_MANY_HEADERS
    BAD_CRC

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
    "a record has more headers than any producer writes",
    "its CRC-32C is another",
)

# What a piece of the output holds so far; a buffer has room for some of one of them.
cdef enum:
    ROWS
    KEY_BYTES
    VALUE_BYTES
    HEADERS
    HEADER_KEY_BYTES
    HEADER_VALUE_BYTES
    KEY_NULLS
    VALUE_NULLS
    BARE  # rows without a header
    HEADER_VALUE_NULLS
    ROW_BYTES  # that Arrow takes, at most
    COUNTERS

# Where a reading stopped: behind the counters, and the counters as they were when the
# batch began, so that one that turns out wrong leaves no row.
cdef enum:
    BATCH = 2 * COUNTERS
    AT
    LEFT
    ABOVE
    NEEDED  # the counter that a buffer has no room for
    NEED
    STATE

# The buffers of a piece, in the order they are passed in.
cdef enum:
    KEY_VALID
    KEY_OFFSETS
    KEY_DATA
    VALUE_VALID
    VALUE_OFFSETS
    VALUE_DATA
    OFFSETS
    TIMESTAMPS
    TYPES
    LIST_VALID
    LIST_OFFSETS
    HEADER_KEY_OFFSETS
    HEADER_KEY_DATA
    HEADER_VALUE_VALID
    HEADER_VALUE_OFFSETS
    HEADER_VALUE_DATA
    BUFFERS

# How a reading ended, unless in a fault.
cdef enum:
    DONE = 0
    FULL = -1
    NO_ROOM = -2

# For whoever passes the buffers and the state.
STATE_SIZE = <int>STATE
COUNTER_COUNT = <int>COUNTERS
IS_FULL = <int>FULL
HAS_NO_ROOM = <int>NO_ROOM
STATE_BATCH = <int>BATCH
STATE_AT = <int>AT
STATE_NEEDED = <int>NEEDED
STATE_NEED = <int>NEED

cdef enum:
    MOST_HEADERS = 1 << 20  # of one record: more would be gigabytes from a small bomb
    HEADER_BYTES = 9  # what Arrow takes for a header beside its bytes
    MORE_BYTES = 2  # what it takes at most besides for a byte of a key: U+FFFD has 3
    PASS = 16  # bytes that are copied without a call
    SHORT = 128


# More than any of what is counted: sums of a few stay far inside an int64.
cdef int64_t MOST = <int64_t>1 << 48


cdef struct Limits:
    int64_t first  # offsets that are wanted
    int64_t last
    int64_t fixed  # bytes of a row beside its payloads
    int64_t soft  # bytes of a piece that is full
    int64_t hard  # bytes that a piece of several rows never has
    int64_t rows  # rows of a piece that is full


cdef struct Bytes:
    # A column of bytes under construction.
    uint8_t *valid
    int32_t *offsets
    uint8_t *data
    int64_t room
    int64_t filled
    int64_t nulls


cdef inline const uint8_t *read_bits(
    const uint8_t *at, const uint8_t *end, int longest, uint64_t *bits
) noexcept nogil:
    """Decode a varint but for its zigzag; return what is behind it, NULL for none.

    A number that is not negative is half of it, and -1 is 1.
    """
    cdef uint64_t byte
    cdef int shift = 0
    # The usual ones have a byte or two.
    if at < end and at[0] < 0x80:
        bits[0] = at[0]
        return at + 1
    if end - at > 1 and at[1] < 0x80:
        bits[0] = (at[0] & 0x7F) | <uint64_t>at[1] << 7
        return at + 2
    bits[0] = 0
    while at < end and shift < 7 * longest:
        byte = at[0]
        bits[0] |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return at
        shift += 7
    return NULL


cdef inline const uint8_t *read_payload(
    const uint8_t *at,
    const uint8_t *end,
    const uint8_t **payload,
    int64_t *length,
    int *fault,
) noexcept nogil:
    """Find a payload that fits; return what is behind it. -1 is null: no bytes."""
    cdef uint64_t bits = 0
    at = read_bits(at, end, 5, &bits)
    if at == NULL:
        fault[0] = BAD_VARINT
        return NULL
    payload[0] = at
    if bits & 1:
        length[0] = -1
        if bits == 1:
            return at
        fault[0] = BAD_LENGTH
        return NULL
    length[0] = <int64_t>(bits >> 1)
    if length[0] > end - at:
        fault[0] = BAD_LENGTH
        return NULL
    return at + length[0]


cdef inline void put(
    Bytes *column, int64_t row, const uint8_t *at, int64_t length, int64_t brief
) noexcept nogil:
    """Append a payload, for which there is room, as this row.

    Args:
        column: What it belongs to.
        row: The row.
        at: Where it is.
        length: Its bytes; -1 for null.
        brief: Up to so many bytes it may be copied with PASS bytes behind it, which
            takes no call: they are there on both sides.
    """
    cdef uint8_t *to = column.data + column.filled
    cdef int64_t done = 0
    if length < 0:
        column.valid[row >> 3] &= <uint8_t>~(1 << (row & 7))
        column.nulls += 1
    else:
        column.filled += length
        if length <= brief:
            while done < length:
                memcpy(to + done, at + done, PASS)
                done += PASS
        elif length:
            memcpy(to, at, <size_t>length)
    column.offsets[row + 1] = <int32_t>column.filled


cdef inline void begin_byte(uint8_t *valid, int64_t row) noexcept nogil:
    """Take the next eight rows for valid, where they begin."""
    if not row & 7:
        valid[row >> 3] = 0xFF


cdef inline void begin_bytes(
    uint8_t *lists, uint8_t *keys, uint8_t *values, int64_t row
) noexcept nogil:
    """Take the next eight rows for valid in each bitmap that there is."""
    if lists:
        lists[row >> 3] = 0xFF
    if keys:
        keys[row >> 3] = 0xFF
    if values:
        values[row >> 3] = 0xFF


cdef inline int put_headers(
    const uint8_t *at,
    const uint8_t *end,
    int64_t brief,
    int64_t header,
    int64_t last,
    Bytes *keys,
    Bytes *values,
) noexcept nogil:
    """Append the headers of a record, for which there is room."""
    cdef const uint8_t *payload = NULL
    cdef int64_t length = 0
    cdef int fault = FINE
    while header < last:
        at = read_payload(at, end, &payload, &length, &fault)
        if at == NULL:
            return HEADER_VARINT if fault == BAD_VARINT else fault
        if length < 0:
            return NO_HEADER_KEY
        put(keys, header, payload, length, brief)
        at = read_payload(at, end, &payload, &length, &fault)
        if at == NULL:
            return HEADER_VARINT if fault == BAD_VARINT else fault
        begin_byte(values.valid, header)
        put(values, header, payload, length, brief)
        header += 1
    return FINE if at == end else NOT_FILLED


cdef inline bint lacks(
    int64_t *state, int counter, int64_t filled, int64_t room, int64_t more
) noexcept nogil:
    """Whether a buffer has no room for so much more and PASS; say so in the state."""
    if more <= room - filled - PASS:
        return False
    state[NEEDED] = counter
    state[NEED] = filled + more + PASS
    return True


cdef inline void open_bytes(
    Bytes *column, uint8_t **buffers, int slot, int64_t room, int64_t filled
) noexcept nogil:
    column.valid = buffers[slot]
    column.offsets = <int32_t *>buffers[slot + 1]
    column.data = buffers[slot + 2]
    column.room = room
    column.filled = filled
    column.nulls = 0


include "_groups.pxi"


cdef int fill_batch(
    const uint8_t *data,
    int64_t size,
    const int64_t *batch,
    const Limits *limits,
    uint8_t **buffers,
    const int64_t *room,
    int64_t *state,
) noexcept nogil:
    """Go on with a batch: walk its records, and append those that are wanted."""
    cdef const uint8_t *stop = data + size
    cdef const uint8_t *bound = data + batch[END]
    cdef const uint8_t *at = data + state[AT]
    cdef const uint8_t *begin = at
    cdef const uint8_t *end
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value = NULL
    cdef int64_t left = state[LEFT]
    cdef int64_t above = state[ABOVE]
    cdef int64_t base = batch[BASE_OFFSET]
    cdef int64_t most = batch[LAST_OFFSET] - base
    cdef bint by_broker = batch[MAGIC] > 0 and batch[ATTRIBUTES] & LOG_APPEND_TIME
    cdef uint64_t stamp = <uint64_t>(
        batch[MAX_TIMESTAMP] if by_broker else batch[BASE_TIMESTAMP]
    )
    cdef uint64_t moves = 0 if by_broker else 1
    cdef int32_t kind = -1 if batch[MAGIC] == 0 else by_broker
    cdef int64_t first = limits.first
    cdef int64_t last = limits.last
    cdef int64_t fixed = limits.fixed
    cdef int64_t soft = limits.soft
    cdef int64_t hard = limits.hard
    cdef int64_t most_rows = min(limits.rows, room[ROWS])
    cdef int64_t *offsets = <int64_t *>buffers[OFFSETS]
    cdef int64_t *stamps = <int64_t *>buffers[TIMESTAMPS]
    cdef int32_t *kinds = <int32_t *>buffers[TYPES]
    cdef uint8_t *is_list = buffers[LIST_VALID]
    cdef int32_t *lists = <int32_t *>buffers[LIST_OFFSETS]
    cdef Bytes keys, values, header_keys, header_values
    cdef int64_t row = state[ROWS]
    cdef int64_t headers = state[HEADERS]
    cdef int64_t bare = 0
    cdef int64_t row_bytes = state[ROW_BYTES]
    cdef bint is_whole = first <= base and batch[LAST_OFFSET] <= last
    cdef uint64_t bits = 0
    cdef uint64_t stamp_bits = 0
    cdef int64_t key_length = 0
    cdef int64_t value_length = 0
    cdef int64_t delta, count, taken, stored, brief
    cdef int fault = FINE
    cdef Group group
    cdef int64_t alone = 0  # records that go one by one, for they are no group
    cdef bint by_group = (
        is_whole and base - 1 <= above <= batch[LAST_OFFSET] and stop - at >= PASS
    )
    # Groups end here, so that PASS bytes more can be read.
    cdef const uint8_t *safe = at
    if by_group:
        safe = bound if stop - bound >= PASS else stop - PASS
    open_bytes(&keys, buffers, KEY_VALID, room[KEY_BYTES], state[KEY_BYTES])
    open_bytes(&values, buffers, VALUE_VALID, room[VALUE_BYTES], state[VALUE_BYTES])
    # The keys of headers are never null: there is no bitmap before their offsets.
    open_bytes(
        &header_keys,
        buffers,
        HEADER_KEY_OFFSETS - 1,
        room[HEADER_KEY_BYTES],
        state[HEADER_KEY_BYTES],
    )
    header_keys.valid = NULL
    open_bytes(
        &header_values,
        buffers,
        HEADER_VALUE_VALID,
        room[HEADER_VALUE_BYTES],
        state[HEADER_VALUE_BYTES],
    )
    while left:
        if alone:
            alone -= 1
        elif by_group and at <= safe:
            walk_group(&group, at, safe, min(left, GROUP), above - base)
            taken = fixed * group.rows
            if keys.data:
                taken += group.key_bytes
            if values.data:
                taken += group.value_bytes
            if lists:
                taken += HEADER_BYTES * group.headers + group.stored
            if (
                group.rows
                and group.delta[group.rows - 1] <= most
                and row + group.rows <= most_rows
                and row_bytes + taken < soft
                and taken + row_bytes + MORE_BYTES * (group.stored + header_keys.filled)
                <= hard
                and has_room(&keys, group.key_bytes)
                and has_room(&values, group.value_bytes)
                and (
                    not lists
                    or group.headers <= room[HEADERS] - headers
                    and has_room(&header_keys, group.stored)
                    and has_room(&header_values, group.stored)
                    and put_group_headers(&group, headers, &header_keys, &header_values)
                )
            ):
                if lists:
                    put_lists(&group, row, headers, is_list, lists)
                    headers += group.headers
                    bare += COUNT_BITS(group.no_headers)
                if keys.data:
                    put_payloads(
                        &keys, row, group.rows, group.key, group.key_length,
                        group.no_key,
                    )
                if values.data:
                    put_payloads(
                        &values, row, group.rows, group.value, group.value_length,
                        group.no_value,
                    )
                put_numbers(
                    &group, row, base, stamp, moves, kind, offsets, stamps, kinds
                )
                row += group.rows
                row_bytes += taken
                left -= group.rows
                above = base + group.delta[group.rows - 1]
                at = group.end
                begin = at
                continue
            alone = group.rows
        begin = at  # where to go on, should this record find no place
        at = read_bits(at, bound, 5, &bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        if bits & 1:
            fault = NEGATIVE_LENGTH
            break
        if <int64_t>(bits >> 1) > bound - at:
            fault = BAD_LENGTH
            break
        end = at + (bits >> 1)
        if at == end:
            fault = BAD_VARINT
            break
        # Behind its attributes, unused so far.
        at = read_bits(at + 1, end, 10, &stamp_bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        at = read_bits(at, end, 5, &bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        delta = <int64_t>(bits >> 1)
        if bits & 1 or delta > most:
            fault = OFFSET_OUTSIDE
            break
        delta += base
        if delta <= above:
            fault = OFFSET_FALLS
            break
        at = read_payload(at, end, &key, &key_length, &fault)
        if at == NULL:
            break
        at = read_payload(at, end, &value, &value_length, &fault)
        if at == NULL:
            break
        at = read_bits(at, end, 5, &bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        stored = end - at
        count = <int64_t>(bits >> 1)
        if bits & 1 or count > stored >> 1:
            fault = BAD_COUNT
            break
        if not count and stored:
            fault = NOT_FILLED
            break
        if is_whole or first <= delta <= last:
            taken = fixed
            if keys.data and key_length > 0:
                taken += key_length
            if values.data and value_length > 0:
                taken += value_length
            if lists and count:
                if count > MOST_HEADERS:
                    fault = TOO_MANY_HEADERS
                    break
                taken += HEADER_BYTES * count + stored
            if row and (
                row_bytes >= soft
                or taken + row_bytes + MORE_BYTES * (stored + header_keys.filled)
                > hard
            ):
                fault = FULL
                break
            if row >= most_rows:
                if row >= limits.rows:
                    fault = FULL
                else:
                    fault = NO_ROOM
                    lacks(state, ROWS, row, row, 1)
                break
            if (
                keys.data
                and lacks(state, KEY_BYTES, keys.filled, keys.room, key_length)
                or values.data
                and lacks(state, VALUE_BYTES, values.filled, values.room, value_length)
            ):
                fault = NO_ROOM
                break
            brief = SHORT if stop - end >= PASS else -1
            if not row & 7:
                begin_bytes(is_list, keys.valid, values.valid, row)
            if lists:
                if count:
                    if (
                        lacks(state, HEADERS, headers, room[HEADERS], count)
                        or lacks(
                            state,
                            HEADER_KEY_BYTES,
                            header_keys.filled,
                            header_keys.room,
                            stored,
                        )
                        or lacks(
                            state,
                            HEADER_VALUE_BYTES,
                            header_values.filled,
                            header_values.room,
                            stored,
                        )
                    ):
                        fault = NO_ROOM
                        break
                    fault = put_headers(
                        at, end, brief, headers, headers + count, &header_keys,
                        &header_values,
                    )
                    if fault:
                        break
                    headers += count
                else:
                    is_list[row >> 3] &= <uint8_t>~(1 << (row & 7))
                    bare += 1
                lists[row + 1] = <int32_t>headers
            if keys.data:
                put(&keys, row, key, key_length, brief)
            if values.data:
                put(&values, row, value, value_length, brief)
            if offsets:
                offsets[row] = delta
            if stamps:
                # Wraps like Java's long: the producer subtracted with the same wrap.
                stamps[row] = <int64_t>(
                    stamp + moves * ((stamp_bits >> 1) ^ (0 - (stamp_bits & 1)))
                )
            if kinds:
                kinds[row] = kind
            row += 1
            row_bytes += taken
        at = end
        above = delta
        left -= 1
    state[AT] = begin - data
    state[LEFT] = left
    state[ABOVE] = above
    state[ROWS] = row
    state[ROW_BYTES] = row_bytes
    state[KEY_BYTES] = keys.filled
    state[KEY_NULLS] += keys.nulls
    state[VALUE_BYTES] = values.filled
    state[VALUE_NULLS] += values.nulls
    state[HEADERS] = headers
    state[BARE] += bare
    state[HEADER_KEY_BYTES] = header_keys.filled
    state[HEADER_VALUE_BYTES] = header_values.filled
    state[HEADER_VALUE_NULLS] += header_values.nulls
    if fault or left:
        return fault
    return FINE if at == bound else BATCH_NOT_FILLED


cdef int fill_batches(
    const uint8_t *data,
    int64_t size,
    const int64_t *table,
    int64_t rows,
    bint is_checked,
    const Limits *limits,
    uint8_t **buffers,
    const int64_t *room,
    int64_t *state,
) noexcept nogil:
    cdef int64_t batch[COLUMNS]
    cdef int64_t begin
    cdef int ended
    while state[BATCH] < rows:
        # A copy: what was checked stays so, whoever writes to the table.
        memcpy(batch, table + COLUMNS * state[BATCH], sizeof(batch))
        if not 0 <= batch[START] <= batch[END] <= size:
            return BATCH_NOT_FILLED
        if not 0 <= batch[BASE_OFFSET] <= batch[LAST_OFFSET]:
            return OFFSET_OUTSIDE
        if state[AT] < 0:
            state[AT] = batch[START]
            state[LEFT] = batch[RECORD_COUNT]
            state[ABOVE] = batch[BASE_OFFSET] - 1
            memcpy(state + COUNTERS, state, COUNTERS * sizeof(int64_t))
            if not is_checked:
                if not CRC_END <= batch[SIZE] <= batch[END]:
                    return BATCH_NOT_FILLED
                begin = batch[END] - batch[SIZE]
                if batch[CRC] != crc32c_extend(
                    0, data + begin + CRC_END, <size_t>(batch[SIZE] - CRC_END)
                ):
                    return BAD_CRC
        if batch[RECORD_COUNT]:
            if state[LEFT] < 0 or not batch[START] <= state[AT] <= batch[END]:
                return BATCH_NOT_FILLED
            ended = fill_batch(data, size, batch, limits, buffers, room, state)
            if ended > 0:
                memcpy(state, state + COUNTERS, COUNTERS * sizeof(int64_t))
            if ended:
                return ended
        state[AT] = -1
        state[BATCH] += 1
    return DONE


def fill(
    object data,
    object table,
    object limits,
    object state,
    object buffers,
    *,
    bint is_checked,
):
    """Decode records into the buffers of Arrow columns, batch by batch in one pass.

    Args:
        data: Bytes that hold the records, uncompressed.
        table: Rows of BATCH_ROW: the batches, and where their records lie.
        limits: int64: the first and the last offset wanted; bytes of a row beside its
            payloads; bytes of a piece that is full, and that a piece of several rows
            never has; rows of a piece that is full.
        state: int64: what the piece holds, and where to go on; changed.
        buffers: A buffer or None for each of those of a piece: None where a column is
            not wanted. They are filled.
        is_checked: Whether the checksums are known to be right; otherwise the whole
            batches lie in the bytes, their records at their ends.

    Returns:
        0 when all batches are decoded; IS_FULL when the piece is full, and
        HAS_NO_ROOM when a buffer has to be larger: call again with others then;
        otherwise the index in FAULTS of what is wrong with the batch STATE_BATCH, of
        which the piece then holds nothing.

    Raises:
        ValueError: The state or a buffer contradicts another.
    """
    cdef _View source = _View(data)
    cdef _View batches = _View(table)
    cdef _View bounds = _View(limits)
    cdef _View place = _View(state, True)
    cdef int64_t room[COUNTERS]
    cdef int64_t kept[STATE]
    cdef uint8_t *starts[BUFFERS]
    cdef _View view
    cdef int index, ended
    held = []
    batches.hold_int64(0)
    bounds.hold_int64(6)
    place.hold_int64(STATE)
    check_limits(<const Limits *>bounds.held.buf)
    for index in range(COUNTERS):
        room[index] = INT64_MAX
    for index in range(BUFFERS):
        starts[index] = NULL
    for index, buffer in enumerate(buffers):
        if index >= BUFFERS:
            raise ValueError("too many buffers")
        if buffer is None:
            continue
        view = _View(buffer, True)
        held.append(view)
        starts[index] = <uint8_t *>view.held.buf
        view.hold_int64(0)
        measure(index, view.held.len, room)
    check_columns(starts)
    # A copy: what was checked stays so, whatever the buffers share.
    memcpy(kept, place.held.buf, sizeof(kept))
    check_state(kept, room)
    for index in (
        KEY_OFFSETS, VALUE_OFFSETS, LIST_OFFSETS, HEADER_KEY_OFFSETS,
        HEADER_VALUE_OFFSETS,
    ):
        if starts[index]:
            (<int32_t *>starts[index])[0] = 0
    with nogil:
        ended = fill_batches(
            <const uint8_t *>source.held.buf,
            source.held.len,
            <const int64_t *>batches.held.buf,
            batches.held.len // <int64_t>(COLUMNS * sizeof(int64_t)),
            is_checked,
            <const Limits *>bounds.held.buf,
            starts,
            room,
            kept,
        )
    memcpy(place.held.buf, kept, sizeof(kept))
    return ended


cdef void measure(int index, int64_t size, int64_t *room) noexcept:
    """Say how much of what it holds there is room for in a buffer."""
    cdef int counter = ROWS
    cdef int64_t holds = size
    if index in (KEY_VALID, VALUE_VALID, LIST_VALID):
        holds = 8 * size
    elif index in (KEY_OFFSETS, VALUE_OFFSETS, LIST_OFFSETS):
        holds = size // 4 - 1
    elif index in (OFFSETS, TIMESTAMPS):
        holds = size // 8
    elif index == TYPES:
        holds = size // 4
    elif index == HEADER_VALUE_VALID:
        counter, holds = HEADERS, 8 * size
    elif index in (HEADER_KEY_OFFSETS, HEADER_VALUE_OFFSETS):
        counter, holds = HEADERS, size // 4 - 1
    elif index == KEY_DATA:
        counter = KEY_BYTES
    elif index == VALUE_DATA:
        counter = VALUE_BYTES
    elif index == HEADER_KEY_DATA:
        counter = HEADER_KEY_BYTES
    else:
        counter = HEADER_VALUE_BYTES
    room[counter] = min(room[counter], holds, <int64_t>INT32_MAX)


cdef int check_columns(uint8_t **starts) except -1:
    """Refuse columns of which some buffers are there and others are not."""
    cdef int index, first, count
    for first, count in ((KEY_VALID, 3), (VALUE_VALID, 3), (LIST_VALID, 7)):
        for index in range(first, first + count):
            if (starts[index] == NULL) != (starts[first] == NULL):
                raise ValueError(f"buffer {index} is one of several")
    return 0


cdef int check_limits(const Limits *limits) except -1:
    """Refuse limits whose sums with the bytes of a record could be no int64."""
    for limit in (limits.fixed, limits.soft, limits.hard, limits.rows):
        if not 0 <= limit <= MOST:
            raise ValueError(f"a limit of {limit}")
    return 0


cdef int check_state(const int64_t *state, const int64_t *room) except -1:
    """Refuse a piece that holds more than its buffers have room for."""
    cdef int index
    for index in range(COUNTERS):
        if not 0 <= state[index] <= min(room[index], MOST):
            raise ValueError(f"counter {index} is {state[index]} of {room[index]}")
        if not 0 <= state[COUNTERS + index] <= state[index]:
            raise ValueError(f"counter {index} falls")
    if state[BATCH] < 0:
        raise ValueError(f"batch {state[BATCH]}")
    return 0


include "_packed.pxi"


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


# Records → the bytes of a batch.

# Where the checksum of a batch's header lies.
cdef enum:
    CRC_AT = 17

cdef enum:
    BODY_BUFFERS = 16  # that the records of a batch have at most

cdef enum:
    FAR = 4096  # bytes ahead of a copy that memory is asked for

# The column whose offsets are not those of an Arrow array; 0 for none of them.
cdef enum:
    RIGHT
    WRONG_KEY
    WRONG_VALUE
    WRONG_HEADERS
    CHANGED

cdef tuple WRONG = ("", "key", "value", "headers")


cdef struct PayloadColumn:
    int64_t rows
    const uint8_t *valid  # a bit for each; NULL when none is null
    int64_t at  # the bit of the first
    const uint8_t *ends  # int32, one more than rows; NULL when all are null
    const uint8_t *data
    int64_t size


cdef struct RecordColumns:
    int64_t rows
    const uint8_t *stamps  # int64
    const uint8_t *offsets  # int64
    int64_t first  # what stamps are stored less of
    int64_t base  # … and offsets
    PayloadColumn key
    PayloadColumn value
    const uint8_t *listed  # a bit for each; NULL when all have a list of headers
    int64_t at
    const uint8_t *ends  # int32, one more than rows; NULL when none has headers
    PayloadColumn name
    PayloadColumn content


# A slice of an Arrow array may begin anywhere: nothing is taken to be aligned.
cdef inline int32_t int32_at(const uint8_t *array, int64_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, array + 4 * index, 4)
    return value


cdef inline int64_t int64_at(const uint8_t *array, int64_t index) noexcept nogil:
    cdef int64_t value
    memcpy(&value, array + 8 * index, 8)
    return value


cdef inline bint is_set(const uint8_t *bits, int64_t index) noexcept nogil:
    return bits == NULL or bits[index >> 3] >> (index & 7) & 1


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return <uint64_t>value << 1 ^ <uint64_t>(value >> 63)


cdef inline int64_t varint_size(int64_t value) noexcept nogil:
    return VARINT_SIZE(zigzag(value))


cdef inline bint find_payload(
    const PayloadColumn *column, int64_t row, int64_t *start, int64_t *length
) noexcept nogil:
    """Find a payload, -1 long when it is null; false when it lies outside its bytes."""
    cdef int64_t end
    start[0] = 0
    length[0] = -1
    if column.ends == NULL:
        return True
    start[0] = int32_at(column.ends, row)
    end = int32_at(column.ends, row + 1)
    if is_set(column.valid, column.at + row):
        length[0] = end - start[0]
    return 0 <= start[0] and start[0] <= end and end <= column.size


cdef inline int64_t payload_room(int64_t length) noexcept nogil:
    return varint_size(length) + (length if length > 0 else 0)


cdef inline bint find_list(
    const RecordColumns *of, int64_t row, int64_t *first, int64_t *last
) noexcept nogil:
    """Find the headers of a record; false when they lie outside those there are."""
    cdef int64_t end
    first[0] = 0
    last[0] = 0
    if of.ends == NULL:
        return True
    first[0] = int32_at(of.ends, row)
    end = int32_at(of.ends, row + 1)
    last[0] = end if is_set(of.listed, of.at + row) else first[0]
    return 0 <= first[0] and first[0] <= end and end <= of.name.rows


cdef int measure_headers(
    const RecordColumns *of, int64_t first, int64_t last, int64_t *size
) noexcept nogil:
    cdef int64_t header, start, length
    for header in range(first, last):
        if not find_payload(&of.name, header, &start, &length):
            return WRONG_HEADERS
        size[0] += payload_room(length)
        if not find_payload(&of.content, header, &start, &length):
            return WRONG_HEADERS
        size[0] += payload_room(length)
    return RIGHT


cdef struct RecordPlace:
    int64_t size  # behind its length
    int64_t stamp
    int64_t offset
    int64_t key_start
    int64_t key_length
    int64_t value_start
    int64_t value_length
    int64_t first_header
    int64_t last_header


cdef inline int64_t less(int64_t value, int64_t by) noexcept nogil:
    """Subtract as Java's long does, which wraps."""
    return <int64_t>(<uint64_t>value - <uint64_t>by)


cdef inline int find_record(
    const RecordColumns *of, int64_t row, RecordPlace *found
) noexcept nogil:
    """Find what a record consists of, and how many bytes it takes without headers."""
    found.stamp = less(int64_at(of.stamps, row), of.first)
    found.offset = less(int64_at(of.offsets, row), of.base)
    if not find_payload(&of.key, row, &found.key_start, &found.key_length):
        return WRONG_KEY
    if not find_payload(&of.value, row, &found.value_start, &found.value_length):
        return WRONG_VALUE
    if not find_list(of, row, &found.first_header, &found.last_header):
        return WRONG_HEADERS
    found.size = (
        1  # attributes, unused so far
        + varint_size(found.stamp)
        + varint_size(found.offset)
        + payload_room(found.key_length)
        + payload_room(found.value_length)
        + varint_size(found.last_header - found.first_header)
    )
    return RIGHT


cdef struct Measures:
    int64_t size
    int64_t largest  # stamp
    bint rises  # the offsets do


cdef int measure_records(
    const RecordColumns *of, int64_t *sizes, Measures *found
) noexcept nogil:
    """Measure records: each behind its length, and all of them."""
    cdef RecordPlace record
    cdef int64_t row, stamp, offset
    cdef int64_t previous = 0
    cdef int wrong
    found.size = 0
    found.largest = INT64_MIN
    found.rises = True
    for row in range(of.rows):
        wrong = find_record(of, row, &record)
        if not wrong and record.first_header < record.last_header:
            wrong = measure_headers(
                of, record.first_header, record.last_header, &record.size
            )
        if wrong:
            return wrong
        sizes[row] = record.size
        found.size += varint_size(record.size) + record.size
        stamp = int64_at(of.stamps, row)
        offset = int64_at(of.offsets, row)
        if stamp > found.largest:
            found.largest = stamp
        if row and offset <= previous:
            found.rises = False
        previous = offset
    return RIGHT


cdef inline uint8_t *write_varint(uint8_t *out, int64_t value) noexcept nogil:
    """Write a varint where there is room for it; return the place behind it."""
    cdef uint64_t bits = zigzag(value)
    while bits >= 0x80:
        out[0] = <uint8_t>(bits | 0x80)
        out += 1
        bits >>= 7
    out[0] = <uint8_t>bits
    return out + 1


cdef inline uint8_t *write_payload(
    const PayloadColumn *column,
    int64_t start,
    int64_t length,
    uint8_t *out,
    const uint8_t *end,
) noexcept nogil:
    """Write a payload that was found where there is room for it, up to ``end``."""
    cdef int64_t ahead = 0
    out = write_varint(out, length)
    if length <= 0:
        return out
    # A short one is copied as 16 bytes, if there are so many on both sides: that takes
    # no call, and what is too much is written over.
    if length <= 16 and column.size - start >= 16 and end - out >= 16:
        memcpy(out, column.data + start, 16)
        return out + length
    # Nobody has looked at these bytes before: ask in time for those of the next rows.
    while ahead < length and length < FAR:
        CRC32C_PREFETCH(column.data + start + FAR + ahead)
        ahead += 64
    memcpy(out, column.data + start, <size_t>length)
    return out + length


cdef uint8_t *write_headers(
    const RecordColumns *of,
    int64_t first,
    int64_t last,
    uint8_t *out,
    const uint8_t *record_end,
    const uint8_t *end,
) noexcept nogil:
    """Write the headers of a record, up to its end; NULL when they need more."""
    cdef int64_t header, start, length
    for header in range(first, last):
        if not find_payload(&of.name, header, &start, &length):
            return NULL
        if payload_room(length) > record_end - out:
            return NULL
        out = write_payload(&of.name, start, length, out, end)
        if not find_payload(&of.content, header, &start, &length):
            return NULL
        if payload_room(length) > record_end - out:
            return NULL
        out = write_payload(&of.content, start, length, out, end)
    return out


cdef int write_records(
    const RecordColumns *of, const int64_t *sizes, uint8_t *out, const uint8_t *end
) noexcept nogil:
    """Write records that were measured, and must fill the place up to ``end``.

    Each has to have the size that it had: another thread may have written to the
    columns since.
    """
    cdef RecordPlace record
    cdef uint8_t *record_end
    cdef int64_t row, size
    for row in range(of.rows):
        size = sizes[row]
        if find_record(of, row, &record) or record.size > size:
            return CHANGED
        if varint_size(size) + size > end - out:
            return CHANGED
        out = write_varint(out, size)
        record_end = out + size
        out[0] = 0
        out = write_varint(out + 1, record.stamp)
        out = write_varint(out, record.offset)
        out = write_payload(&of.key, record.key_start, record.key_length, out, end)
        out = write_payload(&of.value, record.value_start, record.value_length, out, end)
        out = write_varint(out, record.last_header - record.first_header)
        if record.first_header < record.last_header:
            out = write_headers(
                of, record.first_header, record.last_header, out, record_end, end
            )
        if out != record_end:
            return CHANGED
    return RIGHT if out == end else CHANGED


cdef class RecordBody:
    """The records of a batch: measured when this is made, and then written.

    Args:
        stamps: Their timestamps: int64, and which of them is the first.
        offsets: Their offsets, likewise.
        rows: How many records there are.
        first: The timestamp that those which are stored are relative to.
        base: The offset likewise.
        key: Their keys: a bit for each that is not null (None: none is null), their
            ends (int32, the start of the first before them), which bit and which end
            is the first, and their bytes (None: there are none). None when all are
            null.
        value: Their values, likewise.
        headers: A bit for each record that has a list of headers (None: all have one),
            the ends of their lists (int32, the start of the first before them), which
            bit and which end is the first, how many headers there are, and their keys
            and values as above. None when there is no header.

    Raises:
        ValueError: A buffer is too small, or ends fall or lie outside what they end in.
    """

    cdef readonly int64_t size
    cdef readonly int64_t largest
    cdef readonly bint rises
    cdef RecordColumns of
    cdef int64_t *sizes
    cdef Py_buffer held[BODY_BUFFERS]
    cdef int count

    def __cinit__(
        self,
        tuple stamps,
        tuple offsets,
        int64_t rows,
        int64_t first,
        int64_t base,
        tuple key,
        tuple value,
        tuple headers,
    ):
        cdef int wrong
        cdef int64_t count
        cdef Measures found
        if rows < 0 or rows > MOST:
            raise ValueError(f"{rows} rows")
        self.of.rows = rows
        self.of.first = first
        self.of.base = base
        self.of.stamps = self.hold(stamps[0], stamps[1], rows, sizeof(int64_t))
        self.of.offsets = self.hold(offsets[0], offsets[1], rows, sizeof(int64_t))
        self.hold_payloads(&self.of.key, key, rows)
        self.hold_payloads(&self.of.value, value, rows)
        self.of.listed = NULL
        self.of.ends = NULL
        if headers is not None:
            listed, ends, at, count, names, contents = headers
            self.of.at = at
            self.of.listed = self.hold_bits(listed, self.of.at, rows)
            if rows:
                self.of.ends = self.hold(ends, self.of.at, rows + 1, sizeof(int32_t))
            self.hold_payloads(&self.of.name, names, count)
            self.hold_payloads(&self.of.content, contents, count)
        self.sizes = <int64_t *>malloc(<size_t>(rows + 1) * sizeof(int64_t))
        if self.sizes == NULL:
            raise MemoryError
        with nogil:
            wrong = measure_records(&self.of, self.sizes, &found)
        if wrong:
            name = WRONG[wrong]
            raise ValueError(f"column {name}: its ends fall, or lie outside its bytes")
        self.size = found.size
        self.largest = found.largest
        self.rises = found.rises

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            PyBuffer_Release(&self.held[self.count])
        free(self.sizes)

    cdef const uint8_t *hold(
        self, object data, int64_t first, int64_t count, int64_t size
    ) except? NULL:
        """Hold a buffer as long as this object lives; return where an item begins.

        It has at least ``count`` items of ``size`` bytes from that one on.
        """
        cdef Py_buffer *view = &self.held[self.count]
        if not 0 <= first <= MOST or not 0 <= count <= MOST:
            raise ValueError(f"{count} items from item {first} on")
        if self.count >= BODY_BUFFERS:
            raise ValueError("too many buffers")
        PyObject_GetBuffer(data, view, PyBUF_C_CONTIGUOUS)
        self.count += 1
        if view.len // size < first + count:
            raise ValueError(f"a buffer of {view.len} bytes is too small")
        return <const uint8_t *>view.buf + first * size

    cdef const uint8_t *hold_bits(
        self, object bits, int64_t first, int64_t count
    ) except? NULL:
        if first < 0 or first > MOST or count < 0 or count > MOST:
            raise ValueError(f"{count} bits from bit {first} on")
        if bits is None:
            return NULL
        return self.hold(bits, 0, (first + count + 7) // 8, 1)

    cdef int hold_payloads(
        self, PayloadColumn *column, tuple given, int64_t rows
    ) except -1:
        if rows < 0 or rows > MOST:
            raise ValueError(f"{rows} rows")
        column.rows = rows
        column.ends = NULL
        if given is None:
            return 0
        valid, ends, first, data = given
        column.data = NULL
        column.size = 0
        if data is not None:
            column.data = self.hold(data, 0, 0, 1)
            column.size = self.held[self.count - 1].len
        column.at = first
        column.valid = self.hold_bits(valid, column.at, rows)
        if rows:
            column.ends = self.hold(ends, column.at, rows + 1, sizeof(int32_t))
        return 0

    def alone(self):
        """Return the records."""
        return self.write(b"")

    def behind(self, bytes header):
        """Return a batch: its header, whose checksum is computed, and the records.

        Raises:
            ValueError: The header has another size than the header of a batch.
        """
        if len(header) != HEADER_SIZE:
            raise ValueError(f"a header of {len(header)} bytes")
        return self.write(header)

    cdef bytes write(self, bytes header):
        cdef Py_ssize_t before = len(header)
        cdef const char *head = PyBytes_AsString(header)
        cdef bytes written = PyBytes_FromStringAndSize(NULL, before + self.size)
        # Nobody has seen it yet: these bytes may still change.
        cdef uint8_t *out = <uint8_t *>PyBytes_AsString(written)
        cdef int64_t total = before + self.size
        cdef int wrong
        cdef uint32_t crc
        with nogil:
            memcpy(out, head, <size_t>before)
            wrong = write_records(&self.of, self.sizes, out + before, out + total)
            if not wrong and before:
                crc = crc32c_extend(0, out + CRC_END, <size_t>(total - CRC_END))
                out[CRC_AT] = <uint8_t>(crc >> 24)
                out[CRC_AT + 1] = <uint8_t>(crc >> 16)
                out[CRC_AT + 2] = <uint8_t>(crc >> 8)
                out[CRC_AT + 3] = <uint8_t>crc
        if wrong:
            raise ValueError("the columns changed while their records were written")
        return written
