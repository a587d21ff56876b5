# Decode records to Arrow columns, record by record; _groups.pxi decodes many together.

# The fault in some records; 0 for none.
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
    "an offset is outside its batch",
    "offsets do not increase",
    "a header is too long or runs past the end",
    "a header has no key",
    "a record has more headers than any producer writes",
    "CRC-32C does not match",
)

# Counters of the contents of an output chunk so far; each buffer has room for a number
# of the items of one counter.
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
    ROW_BYTES  # maximum bytes that Arrow needs
    COUNTERS

# The place where decoding stopped. It follows the counters and a copy of the counters
# at the start of the batch, so that a malformed batch leaves no rows.
cdef enum:
    BATCH = 2 * COUNTERS
    AT
    LEFT
    ABOVE
    NEEDED  # the counter that a buffer has no room for
    NEED
    STATE

# The buffers of a chunk, in the order in which they are passed.
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

# How decoding ended, unless in a fault.
cdef enum:
    DONE = 0
    FULL = -1
    NO_ROOM = -2

# For the caller, which passes the buffers and the state.
STATE_SIZE = <int>STATE
COUNTER_COUNT = <int>COUNTERS
IS_FULL = <int>FULL
HAS_NO_ROOM = <int>NO_ROOM
STATE_BATCH = <int>BATCH
STATE_AT = <int>AT
STATE_NEEDED = <int>NEEDED
STATE_NEED = <int>NEED

cdef enum:
    MAX_HEADERS = 1 << 20  # of a record: more could expand a small batch to gigabytes
    HEADER_BYTES = 9  # bytes that Arrow needs for a header beside its data
    MORE_BYTES = 2  # maximum extra bytes for a byte of a header key: U+FFFD has 3
    PASS = 16  # bytes that are copied without a call
    SHORT = 128


# Larger than any count: sums of several counts do not overflow an int64.
cdef int64_t MAX_COUNT = <int64_t>1 << 48


cdef struct Limits:
    int64_t first  # the wanted offsets
    int64_t last
    int64_t fixed  # bytes of a row without its payloads
    int64_t soft  # bytes at which a chunk is full
    int64_t hard  # maximum bytes of a chunk of several rows
    int64_t rows  # rows at which a chunk is full


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
    """Append a payload to a column that has room for it.

    Args:
        column: The column.
        row: The row of the payload.
        at: Start of the payload.
        length: Size of the payload in bytes; -1 for null.
        brief: Size up to which the payload may be copied without a call, PASS bytes at
            a time: source and target have PASS spare bytes after it.
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
    """Mark the next eight rows as valid, if this row is the first of them."""
    if not row & 7:
        valid[row >> 3] = 0xFF


cdef inline void begin_bytes(
    uint8_t *lists, uint8_t *keys, uint8_t *values, int64_t row
) noexcept nogil:
    """Mark the next eight rows as valid in each bitmap that exists."""
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
    """Append the headers of a record to columns that have room for them."""
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


cdef inline bint reserve_failed(
    int64_t *state, int counter, int64_t filled, int64_t room, int64_t more
) noexcept nogil:
    """Return whether a buffer lacks room for ``more`` and PASS; record it in ``state``."""
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
    """Continue with a batch: read its records, and append the wanted ones."""
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
    cdef int64_t max_delta = batch[LAST_OFFSET] - base
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
    cdef int64_t max_rows = min(limits.rows, room[ROWS])
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
    cdef int64_t alone = 0  # records to decode one by one, as they form no group
    cdef bint by_group = (
        is_whole and base - 1 <= above <= batch[LAST_OFFSET] and stop - at >= PASS
    )
    # Groups end here, so that PASS more bytes can be read.
    cdef const uint8_t *safe = at
    if by_group:
        safe = bound if stop - bound >= PASS else stop - PASS
    open_bytes(&keys, buffers, KEY_VALID, room[KEY_BYTES], state[KEY_BYTES])
    open_bytes(&values, buffers, VALUE_VALID, room[VALUE_BYTES], state[VALUE_BYTES])
    # The keys of headers are never null, so they have no bitmap.
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
                and group.delta[group.rows - 1] <= max_delta
                and row + group.rows <= max_rows
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
        begin = at  # where to continue if there is no room for this record
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
        # After the record's attributes, which are unused so far.
        at = read_bits(at + 1, end, 10, &stamp_bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        at = read_bits(at, end, 5, &bits)
        if at == NULL:
            fault = BAD_VARINT
            break
        delta = <int64_t>(bits >> 1)
        if bits & 1 or delta > max_delta:
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
                if count > MAX_HEADERS:
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
            if row >= max_rows:
                if row >= limits.rows:
                    fault = FULL
                else:
                    fault = NO_ROOM
                    reserve_failed(state, ROWS, row, row, 1)
                break
            if (
                keys.data
                and reserve_failed(state, KEY_BYTES, keys.filled, keys.room, key_length)
                or values.data
                and reserve_failed(state, VALUE_BYTES, values.filled, values.room, value_length)
            ):
                fault = NO_ROOM
                break
            brief = SHORT if stop - end >= PASS else -1
            if not row & 7:
                begin_bytes(is_list, keys.valid, values.valid, row)
            if lists:
                if count:
                    if (
                        reserve_failed(state, HEADERS, headers, room[HEADERS], count)
                        or reserve_failed(
                            state,
                            HEADER_KEY_BYTES,
                            header_keys.filled,
                            header_keys.room,
                            stored,
                        )
                        or reserve_failed(
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
                # Wraps like Java's long, as did the producer's subtraction.
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
        # A copy, so that a concurrent write to the table cannot undo the checks.
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
        data: Bytes that contain the records, uncompressed.
        table: Rows of BATCH_ROW: the batches, and the positions of their records.
        limits: int64: the first and the last wanted offset; bytes of a row without its
            payloads; bytes at which a chunk is full; maximum bytes of a chunk of
            several rows; rows at which a chunk is full.
        state: int64: the counters of the chunk, and where to continue; modified.
        buffers: A buffer or None for each buffer of a chunk; None where a column is not
            wanted. The buffers are filled.
        is_checked: Whether the checksums are verified; when they are not, the bytes
            contain the whole batches, each with its records at its end.

    Returns:
        0 when all batches are decoded; IS_FULL when the chunk is full, and HAS_NO_ROOM
        when a buffer has to be larger: then call again with other buffers. Otherwise
        the index in FAULTS of the fault in the batch STATE_BATCH, of which the chunk
        then contains nothing.

    Raises:
        ValueError: The state and the buffers contradict each other.
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
    # A copy, so that a buffer that shares its memory cannot undo the checks.
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
    """Lower the room of a counter to the items that fit in a buffer."""
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
    """Reject columns of which only some buffers are given."""
    cdef int index, first, count
    for first, count in ((KEY_VALID, 3), (VALUE_VALID, 3), (LIST_VALID, 7)):
        for index in range(first, first + count):
            if (starts[index] == NULL) != (starts[first] == NULL):
                raise ValueError(f"buffer {index}: a column needs all its buffers")
    return 0


cdef int check_limits(const Limits *limits) except -1:
    """Reject limits whose sums with the size of a record could overflow an int64."""
    for limit in (limits.fixed, limits.soft, limits.hard, limits.rows):
        if not 0 <= limit <= MAX_COUNT:
            raise ValueError(f"limit {limit} is out of range")
    return 0


cdef int check_state(const int64_t *state, const int64_t *room) except -1:
    """Reject a state whose counters exceed the room of the buffers."""
    cdef int index
    for index in range(COUNTERS):
        if not 0 <= state[index] <= min(room[index], MAX_COUNT):
            raise ValueError(
                f"counter {index} is {state[index]}, not in 0 to {room[index]}"
            )
        if not 0 <= state[COUNTERS + index] <= state[index]:
            raise ValueError(f"counter {index} decreases")
    if state[BATCH] < 0:
        raise ValueError(f"batch {state[BATCH]} is negative")
    return 0
