# One record: locate its fields, and append them to an output chunk.

# The fault in some records; 0 for none.
cdef enum:
    NO_FAULT
    FAULT_VARINT
    FAULT_NEGATIVE_LENGTH
    FAULT_LENGTH
    FAULT_HEADER_COUNT
    FAULT_RECORD_NOT_FILLED
    FAULT_BATCH_NOT_FILLED
    FAULT_OFFSET_OUTSIDE
    FAULT_OFFSET_ORDER
    FAULT_HEADER_VARINT
    FAULT_NO_HEADER_KEY
    FAULT_TOO_MANY_HEADERS
    FAULT_CRC

FAULTS = (
    "",
    "a varint is too long or runs past the end",
    "a record has a negative length",
    "a length does not fit its record",
    "a header count does not fit its record",
    "a record does not fill its length",
    "the records do not fill the batch",
    "an offset is outside its batch",
    "offsets do not increase",
    "a header is too long or runs past the end",
    "a header has no key",
    "a record has more headers than any producer writes",
    "CRC-32C does not match",
)


cdef struct Batch:
    # What the records of a batch have in common.
    const uint8_t *end
    int64_t base_offset
    int64_t max_delta
    uint64_t timestamp  # that the deltas of the records are added to
    uint64_t delta_factor  # 0 if the broker set all timestamps, else 1
    int32_t timestamp_type
    bint is_whole  # whether all its offsets are wanted


cdef struct Record:
    # The fields of a record, located in the bytes of its batch.
    const uint8_t *end
    uint64_t timestamp_bits  # the delta, in zigzag form
    int64_t offset
    const uint8_t *key
    int64_t key_length  # -1 for null
    const uint8_t *value
    int64_t value_length
    const uint8_t *headers
    int64_t header_bytes
    int64_t header_count


cdef inline void open_batch(
    Batch *batch, const uint8_t *data, const int64_t *row, const Limits *limits
) noexcept nogil:
    cdef bint by_broker = (
        row[BATCH_MAGIC] > 0 and row[BATCH_ATTRIBUTES] & LOG_APPEND_TIME
    )
    batch.end = data + row[BATCH_END]
    batch.base_offset = row[BATCH_BASE_OFFSET]
    batch.max_delta = row[BATCH_LAST_OFFSET] - row[BATCH_BASE_OFFSET]
    batch.timestamp = <uint64_t>(
        row[BATCH_MAX_TIMESTAMP] if by_broker else row[BATCH_BASE_TIMESTAMP]
    )
    batch.delta_factor = 0 if by_broker else 1
    batch.timestamp_type = -1 if row[BATCH_MAGIC] == 0 else by_broker
    batch.is_whole = (
        limits.first <= row[BATCH_BASE_OFFSET]
        and row[BATCH_LAST_OFFSET] <= limits.last
    )


cdef inline int64_t timestamp_of(const Batch *batch, uint64_t bits) noexcept nogil:
    """Return a timestamp. It wraps like Java's long, as did the producer's subtraction."""
    return <int64_t>(
        batch.timestamp + batch.delta_factor * ((bits >> 1) ^ (0 - (bits & 1)))
    )


cdef inline const uint8_t *read_varint(
    const uint8_t *at, const uint8_t *end, int longest, uint64_t *bits
) noexcept nogil:
    """Decode a varint without undoing zigzag; return its end, or NULL if malformed.

    The bits of a number n >= 0 are 2 * n, and those of -1 are 1.
    """
    cdef uint64_t byte
    cdef int shift = 0
    # Most varints have one or two bytes.
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
    """Find a payload that fits; return its end. A length of -1 is null: no bytes."""
    cdef uint64_t bits = 0
    at = read_varint(at, end, 5, &bits)
    if at == NULL:
        fault[0] = FAULT_VARINT
        return NULL
    payload[0] = at
    if bits & 1:
        length[0] = -1
        if bits == 1:
            return at
        fault[0] = FAULT_LENGTH
        return NULL
    length[0] = <int64_t>(bits >> 1)
    if length[0] > end - at:
        fault[0] = FAULT_LENGTH
        return NULL
    return at + length[0]


cdef inline int locate_record(
    Record *record, const uint8_t *at, const Batch *batch, int64_t above
) noexcept nogil:
    """Locate the fields of the record at ``at``, which must fill its length.

    Args:
        record: Set to the fields.
        at: Start of the record.
        batch: Its batch.
        above: Offset that the record's must be greater than.

    Returns:
        The fault in the record, or NO_FAULT. The headers are only counted.
    """
    cdef uint64_t bits = 0
    cdef int64_t delta
    cdef int fault = NO_FAULT
    at = read_varint(at, batch.end, 5, &bits)
    if at == NULL:
        return FAULT_VARINT
    if bits & 1:
        return FAULT_NEGATIVE_LENGTH
    if <int64_t>(bits >> 1) > batch.end - at:
        return FAULT_LENGTH
    record.end = at + (bits >> 1)
    if at == record.end:
        return FAULT_VARINT
    # After the record's attributes, which are unused so far.
    at = read_varint(at + 1, record.end, 10, &record.timestamp_bits)
    if at == NULL:
        return FAULT_VARINT
    at = read_varint(at, record.end, 5, &bits)
    if at == NULL:
        return FAULT_VARINT
    delta = <int64_t>(bits >> 1)
    if bits & 1 or delta > batch.max_delta:
        return FAULT_OFFSET_OUTSIDE
    record.offset = batch.base_offset + delta
    if record.offset <= above:
        return FAULT_OFFSET_ORDER
    at = read_payload(at, record.end, &record.key, &record.key_length, &fault)
    if at == NULL:
        return fault
    at = read_payload(at, record.end, &record.value, &record.value_length, &fault)
    if at == NULL:
        return fault
    at = read_varint(at, record.end, 5, &bits)
    if at == NULL:
        return FAULT_VARINT
    record.headers = at
    record.header_bytes = record.end - at
    record.header_count = <int64_t>(bits >> 1)
    if bits & 1 or record.header_count > record.header_bytes >> 1:
        return FAULT_HEADER_COUNT
    if not record.header_count and record.header_bytes:
        return FAULT_RECORD_NOT_FILLED
    return NO_FAULT


cdef inline int64_t row_size(
    const Chunk *chunk, const Record *record, const Limits *limits
) noexcept nogil:
    """Return the bytes that Arrow needs for a record in the columns that are wanted."""
    cdef int64_t size = limits.fixed
    if chunk.keys.data != NULL and record.key_length > 0:
        size += record.key_length
    if chunk.values.data != NULL and record.value_length > 0:
        size += record.value_length
    if chunk.list_offsets != NULL and record.header_count:
        size += HEADER_BYTES * record.header_count + record.header_bytes
    return size


cdef inline int reserve_row(
    const Chunk *chunk,
    const Record *record,
    int64_t size,
    const Limits *limits,
    int64_t *state,
) noexcept nogil:
    """Check that a record fits the chunk, and that the buffers have room for it.

    Returns:
        NO_FAULT; ENDED_FULL; or ENDED_NO_ROOM, with the counter and the room that it
        needs in the state.
    """
    cdef bint has_headers = chunk.list_offsets != NULL and record.header_count > 0
    cdef int64_t header_bytes = record.header_bytes if has_headers else 0
    if chunk.rows and (
        chunk.row_bytes >= limits.soft
        or exceeds_bytes(chunk, size, header_bytes, limits)
    ):
        return ENDED_FULL
    if chunk.rows >= chunk.max_rows:
        if chunk.rows >= limits.rows:
            return ENDED_FULL
        reserve_failed(state, COUNTER_ROWS, chunk.rows, chunk.rows, 1)
        return ENDED_NO_ROOM
    if (
        reserve_bytes_failed(state, COUNTER_KEY_BYTES, &chunk.keys, record.key_length)
        or reserve_bytes_failed(
            state, COUNTER_VALUE_BYTES, &chunk.values, record.value_length
        )
    ):
        return ENDED_NO_ROOM
    if has_headers and (
        reserve_failed(
            state, COUNTER_HEADERS, chunk.headers, chunk.max_headers,
            record.header_count,
        )
        or reserve_bytes_failed(
            state, COUNTER_HEADER_KEY_BYTES, &chunk.header_keys, header_bytes
        )
        or reserve_bytes_failed(
            state, COUNTER_HEADER_VALUE_BYTES, &chunk.header_values, header_bytes
        )
    ):
        return ENDED_NO_ROOM
    return NO_FAULT


cdef inline int append_headers(
    const uint8_t *at,
    const uint8_t *end,
    int64_t brief,
    int64_t header,
    int64_t last,
    BytesColumn *keys,
    BytesColumn *values,
) noexcept nogil:
    """Append the headers of a record to columns that have room for them."""
    cdef const uint8_t *payload = NULL
    cdef int64_t length = 0
    cdef int fault = NO_FAULT
    while header < last:
        at = read_payload(at, end, &payload, &length, &fault)
        if at == NULL:
            return FAULT_HEADER_VARINT if fault == FAULT_VARINT else fault
        if length < 0:
            return FAULT_NO_HEADER_KEY
        append_payload(keys, header, payload, length, brief)
        at = read_payload(at, end, &payload, &length, &fault)
        if at == NULL:
            return FAULT_HEADER_VARINT if fault == FAULT_VARINT else fault
        mark_eight_valid(values.valid, header)
        append_payload(values, header, payload, length, brief)
        header += 1
    return NO_FAULT if at == end else FAULT_RECORD_NOT_FILLED


cdef inline int append_header_list(
    Chunk *chunk, const Record *record, int64_t brief
) noexcept nogil:
    """Append the headers of a record as a list; null if there are none."""
    cdef int fault
    if record.header_count:
        fault = append_headers(
            record.headers, record.end, brief, chunk.headers,
            chunk.headers + record.header_count, &chunk.header_keys,
            &chunk.header_values,
        )
        if fault:
            return fault
        chunk.headers += record.header_count
    else:
        chunk.list_valid[chunk.rows >> 3] &= <uint8_t>~(1 << (chunk.rows & 7))
        chunk.rows_without_headers += 1
    chunk.list_offsets[chunk.rows + 1] = <int32_t>chunk.headers
    return NO_FAULT


cdef inline int append_record(
    Chunk *chunk,
    const Record *record,
    const Batch *batch,
    const Limits *limits,
    int64_t brief,
    int64_t *state,
) noexcept nogil:
    """Append a record to the columns that are wanted.

    Args:
        chunk: The chunk.
        record: The record.
        batch: Its batch.
        limits: The limits of the chunk.
        brief: As in ``append_payload``.
        state: Set to what is needed, if a buffer has no room.

    Returns:
        NO_FAULT; how decoding ended, and then nothing was appended; or a fault in the
        headers, after which the caller drops the rows of the batch.
    """
    cdef int64_t row = chunk.rows
    cdef int64_t size = row_size(chunk, record, limits)
    cdef int ended
    if chunk.list_offsets != NULL and record.header_count > MAX_HEADERS:
        return FAULT_TOO_MANY_HEADERS
    ended = reserve_row(chunk, record, size, limits, state)
    if ended:
        return ended
    if chunk.list_offsets:
        mark_eight_valid(chunk.list_valid, row)
        ended = append_header_list(chunk, record, brief)
        if ended:
            return ended
    if chunk.keys.data:
        mark_eight_valid(chunk.keys.valid, row)
        append_payload(&chunk.keys, row, record.key, record.key_length, brief)
    if chunk.values.data:
        mark_eight_valid(chunk.values.valid, row)
        append_payload(&chunk.values, row, record.value, record.value_length, brief)
    if chunk.offsets:
        chunk.offsets[row] = record.offset
    if chunk.timestamps:
        chunk.timestamps[row] = timestamp_of(batch, record.timestamp_bits)
    if chunk.timestamp_types:
        chunk.timestamp_types[row] = batch.timestamp_type
    chunk.rows += 1
    chunk.row_bytes += size
    return NO_FAULT
