# Scan the headers of consecutive batches.

# Positions and values in the header of a batch: see batch/header.py.
cdef enum:
    HEADER_SIZE = 61
    LENGTH_AT = 12
    MAGIC_AT = 16
    CRC_END = 21
    MIN_RECORD = 7
    CODEC_MASK = 0x07
    MAX_CODEC = 4
    LOG_APPEND_TIME = 0x08

# The columns of a table of batches: see BATCH_ROW in batch/table.py.
cdef enum:
    BATCH_POSITION
    BATCH_SIZE
    BATCH_BASE_OFFSET
    BATCH_LAST_OFFSET
    BATCH_LEADER_EPOCH
    BATCH_CRC
    BATCH_ATTRIBUTES
    BATCH_BASE_TIMESTAMP
    BATCH_MAX_TIMESTAMP
    BATCH_PRODUCER_ID
    BATCH_PRODUCER_EPOCH
    BATCH_BASE_SEQUENCE
    BATCH_RECORD_COUNT
    BATCH_MAGIC
    BATCH_START
    BATCH_END
    BATCH_COLUMNS


cdef inline uint32_t read_32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t read_64(const uint8_t *at) noexcept nogil:
    return <int64_t>(<uint64_t>read_32(at) << 32 | read_32(at + 4))


cdef inline int16_t read_16(const uint8_t *at) noexcept nogil:
    return <int16_t>(at[0] << 8 | at[1])


cdef bint is_valid_header(const int64_t *row, int64_t delta, int64_t previous) noexcept nogil:
    """Return whether read_header accepts a header and it follows the one before."""
    cdef int64_t base = row[BATCH_BASE_OFFSET]
    cdef int codec = row[BATCH_ATTRIBUTES] & CODEC_MASK
    if codec > MAX_CODEC or row[BATCH_LEADER_EPOCH] < -1:
        return False
    if base < 0 or base <= previous or delta < 0 or delta > INT64_MAX - base:
        return False
    if row[BATCH_RECORD_COUNT] < 0 or row[BATCH_RECORD_COUNT] > delta + 1:
        return False
    return (
        codec != 0
        or row[BATCH_RECORD_COUNT] <= (row[BATCH_SIZE] - HEADER_SIZE) // MIN_RECORD
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
    """Find whole batches with valid headers; return their number."""
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
        # Each header gives the position of the next one, which is not in the cache yet:
        # waiting for it took a tenth of the time for small batches. This prefetches the
        # fourth from here, assuming equal sizes; a prefetch never faults.
        CRC32C_PREFETCH(at + 4 * length - 64)
        CRC32C_PREFETCH(at + 4 * length)
        CRC32C_PREFETCH(at + 4 * length + 64)
        row[BATCH_POSITION] = position + offset
        row[BATCH_SIZE] = length
        row[BATCH_BASE_OFFSET] = read_64(at)
        row[BATCH_LEADER_EPOCH] = <int32_t>read_32(at + 12)
        row[BATCH_CRC] = read_32(at + 17)
        row[BATCH_ATTRIBUTES] = read_16(at + 21)
        row[BATCH_BASE_TIMESTAMP] = read_64(at + 27)
        row[BATCH_MAX_TIMESTAMP] = read_64(at + 35)
        row[BATCH_PRODUCER_ID] = read_64(at + 43)
        row[BATCH_PRODUCER_EPOCH] = read_16(at + 51)
        row[BATCH_BASE_SEQUENCE] = <int32_t>read_32(at + 53)
        row[BATCH_RECORD_COUNT] = <int32_t>read_32(at + 57)
        row[BATCH_MAGIC] = 2
        row[BATCH_START] = position + HEADER_SIZE
        row[BATCH_END] = position + length
        delta = <int32_t>read_32(at + 23)
        if not is_valid_header(row, delta, previous):
            break
        previous = row[BATCH_BASE_OFFSET] + delta
        row[BATCH_LAST_OFFSET] = previous
        position += length
        row += BATCH_COLUMNS
        found += 1
    return found


def scan_headers(
    object data, int64_t start, int64_t offset, int64_t previous, object table
):
    """Read the headers of consecutive batches, without checking their checksums.

    Stops before a batch that is cut off, is not of version 2 or has an invalid header,
    without giving the reason: ``read_header`` raises it.

    Args:
        data: Log bytes.
        start: Position of the first batch in the bytes.
        offset: Position of the first byte in the log.
        previous: Offset that the first batch must be above.
        table: Rows of BATCH_ROW to fill.

    Returns:
        The number of batches found.
    """
    cdef _View source = _View(data)
    cdef _View rows = _View(table, True)
    cdef int64_t found
    rows.hold_int64(0)
    if not 0 <= start <= source.held.len:
        raise ValueError(f"position {start} is out of bounds")
    with nogil:
        found = find_batches(
            <const uint8_t *>source.held.buf,
            source.held.len,
            start,
            offset,
            previous,
            <int64_t *>rows.held.buf,
            rows.held.len // <int64_t>(BATCH_COLUMNS * sizeof(int64_t)),
        )
    return found
