# An output chunk: Arrow columns under construction, in buffers that the caller passes.

# Counters of the contents of an output chunk so far; each buffer has room for a number
# of the items of one counter.
cdef enum:
    COUNTER_ROWS
    COUNTER_KEY_BYTES
    COUNTER_VALUE_BYTES
    COUNTER_HEADERS
    COUNTER_HEADER_KEY_BYTES
    COUNTER_HEADER_VALUE_BYTES
    COUNTER_KEY_NULLS
    COUNTER_VALUE_NULLS
    COUNTER_ROWS_WITHOUT_HEADERS
    COUNTER_HEADER_VALUE_NULLS
    COUNTER_ROW_BYTES  # maximum bytes that Arrow needs
    COUNTERS

# The place where decoding stopped. It follows the counters and a copy of the counters
# at the start of the batch, so that a malformed batch leaves no rows.
cdef enum:
    AT_BATCH = 2 * COUNTERS
    AT_POSITION
    AT_RECORDS_LEFT
    AT_LAST_OFFSET
    NEEDED_COUNTER  # the counter that a buffer has no room for
    NEEDED_ROOM
    STATE_ITEMS

# The buffers of a chunk, in the order in which they are passed.
cdef enum:
    BUFFER_KEY_VALID
    BUFFER_KEY_OFFSETS
    BUFFER_KEY_DATA
    BUFFER_VALUE_VALID
    BUFFER_VALUE_OFFSETS
    BUFFER_VALUE_DATA
    BUFFER_OFFSETS
    BUFFER_TIMESTAMPS
    BUFFER_TIMESTAMP_TYPES
    BUFFER_LIST_VALID
    BUFFER_LIST_OFFSETS
    BUFFER_HEADER_KEY_OFFSETS
    BUFFER_HEADER_KEY_DATA
    BUFFER_HEADER_VALUE_VALID
    BUFFER_HEADER_VALUE_OFFSETS
    BUFFER_HEADER_VALUE_DATA
    BUFFERS

# How decoding ended, unless in a fault.
cdef enum:
    ENDED_DONE = 0
    ENDED_FULL = -1
    ENDED_NO_ROOM = -2

# For the caller, which passes the buffers and the state.
STATE_SIZE = <int>STATE_ITEMS
COUNTER_COUNT = <int>COUNTERS
IS_FULL = <int>ENDED_FULL
HAS_NO_ROOM = <int>ENDED_NO_ROOM
STATE_BATCH = <int>AT_BATCH
STATE_POSITION = <int>AT_POSITION
STATE_NEEDED_COUNTER = <int>NEEDED_COUNTER
STATE_NEEDED_ROOM = <int>NEEDED_ROOM

cdef enum:
    MAX_HEADERS = 1 << 20  # of a record: more could expand a small batch to gigabytes
    HEADER_BYTES = 9  # bytes that Arrow needs for a header beside its data
    EXTRA_KEY_BYTES = 2  # maximum extra bytes for a byte of a header key: U+FFFD has 3
    COPY_BYTES = 16  # bytes that are copied without a call
    MAX_SHORT_COPY = 128


# Larger than any count: sums of several counts do not overflow an int64.
cdef int64_t MAX_COUNT = <int64_t>1 << 48


cdef struct Limits:
    int64_t first  # the wanted offsets
    int64_t last
    int64_t fixed  # bytes of a row without its payloads
    int64_t soft  # bytes at which a chunk is full
    int64_t hard  # maximum bytes of a chunk of several rows
    int64_t rows  # rows at which a chunk is full


cdef struct BytesColumn:
    # A column of bytes under construction.
    uint8_t *valid
    int32_t *offsets
    uint8_t *data
    int64_t room
    int64_t filled
    int64_t nulls


cdef struct Chunk:
    # The columns; NULL for the buffers of a column that is not wanted.
    BytesColumn keys
    BytesColumn values
    BytesColumn header_keys
    BytesColumn header_values
    int64_t *offsets
    int64_t *timestamps
    int32_t *timestamp_types
    uint8_t *list_valid  # lists of headers
    int32_t *list_offsets
    # What they contain, and how much fits.
    int64_t rows
    int64_t max_rows
    int64_t headers
    int64_t max_headers
    int64_t rows_without_headers  # since the chunk was opened
    int64_t row_bytes


cdef inline void open_column(
    BytesColumn *column, uint8_t **buffers, int slot, int64_t room, int64_t filled
) noexcept nogil:
    column.valid = buffers[slot]
    column.offsets = <int32_t *>buffers[slot + 1]
    column.data = buffers[slot + 2]
    column.room = room
    column.filled = filled
    column.nulls = 0


cdef inline void open_chunk(
    Chunk *chunk,
    uint8_t **buffers,
    const int64_t *room,
    const int64_t *state,
    const Limits *limits,
) noexcept nogil:
    """Continue with the columns as the state says."""
    open_column(
        &chunk.keys, buffers, BUFFER_KEY_VALID, room[COUNTER_KEY_BYTES],
        state[COUNTER_KEY_BYTES],
    )
    open_column(
        &chunk.values, buffers, BUFFER_VALUE_VALID, room[COUNTER_VALUE_BYTES],
        state[COUNTER_VALUE_BYTES],
    )
    # The keys of headers are never null, so they have no bitmap.
    open_column(
        &chunk.header_keys, buffers, BUFFER_HEADER_KEY_OFFSETS - 1,
        room[COUNTER_HEADER_KEY_BYTES], state[COUNTER_HEADER_KEY_BYTES],
    )
    chunk.header_keys.valid = NULL
    open_column(
        &chunk.header_values, buffers, BUFFER_HEADER_VALUE_VALID,
        room[COUNTER_HEADER_VALUE_BYTES], state[COUNTER_HEADER_VALUE_BYTES],
    )
    chunk.offsets = <int64_t *>buffers[BUFFER_OFFSETS]
    chunk.timestamps = <int64_t *>buffers[BUFFER_TIMESTAMPS]
    chunk.timestamp_types = <int32_t *>buffers[BUFFER_TIMESTAMP_TYPES]
    chunk.list_valid = buffers[BUFFER_LIST_VALID]
    chunk.list_offsets = <int32_t *>buffers[BUFFER_LIST_OFFSETS]
    chunk.rows = state[COUNTER_ROWS]
    chunk.max_rows = min(limits.rows, room[COUNTER_ROWS])
    chunk.headers = state[COUNTER_HEADERS]
    chunk.max_headers = room[COUNTER_HEADERS]
    chunk.rows_without_headers = 0
    chunk.row_bytes = state[COUNTER_ROW_BYTES]


cdef inline void save_chunk(const Chunk *chunk, int64_t *state) noexcept nogil:
    """Store what the columns contain in the state."""
    state[COUNTER_ROWS] = chunk.rows
    state[COUNTER_ROW_BYTES] = chunk.row_bytes
    state[COUNTER_KEY_BYTES] = chunk.keys.filled
    state[COUNTER_KEY_NULLS] += chunk.keys.nulls
    state[COUNTER_VALUE_BYTES] = chunk.values.filled
    state[COUNTER_VALUE_NULLS] += chunk.values.nulls
    state[COUNTER_HEADERS] = chunk.headers
    state[COUNTER_ROWS_WITHOUT_HEADERS] += chunk.rows_without_headers
    state[COUNTER_HEADER_KEY_BYTES] = chunk.header_keys.filled
    state[COUNTER_HEADER_VALUE_BYTES] = chunk.header_values.filled
    state[COUNTER_HEADER_VALUE_NULLS] += chunk.header_values.nulls


cdef inline bint exceeds_bytes(
    const Chunk *chunk, int64_t size, int64_t header_bytes, const Limits *limits
) noexcept nogil:
    """Return whether rows of ``size`` bytes would make the chunk too large.

    Args:
        chunk: The chunk.
        size: Bytes that Arrow needs for the rows.
        header_bytes: Bytes of their headers as stored. The keys among them may grow.
        limits: The limits of the chunk.
    """
    cdef int64_t key_bytes = header_bytes + chunk.header_keys.filled
    return size + chunk.row_bytes + EXTRA_KEY_BYTES * key_bytes > limits.hard


cdef inline void append_payload(
    BytesColumn *column, int64_t row, const uint8_t *at, int64_t length, int64_t brief
) noexcept nogil:
    """Append a payload to a column that has room for it.

    Args:
        column: The column.
        row: The row of the payload.
        at: Start of the payload.
        length: Size of the payload in bytes; -1 for null.
        brief: Size up to which the payload may be copied without a call, COPY_BYTES at
            a time: source and target have COPY_BYTES spare bytes after it.
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
                memcpy(to + done, at + done, COPY_BYTES)
                done += COPY_BYTES
        elif length:
            memcpy(to, at, <size_t>length)
    column.offsets[row + 1] = <int32_t>column.filled


cdef inline void mark_eight_valid(uint8_t *valid, int64_t row) noexcept nogil:
    """Mark the next eight rows as valid, if this row is the first of them."""
    if not row & 7:
        valid[row >> 3] = 0xFF


cdef inline bint reserve_failed(
    int64_t *state, int counter, int64_t filled, int64_t room, int64_t more
) noexcept nogil:
    """Return whether a buffer lacks room for ``more`` and COPY_BYTES.

    If it does, the counter and the room that it needs are recorded in ``state``.
    """
    if more <= room - filled - COPY_BYTES:
        return False
    state[NEEDED_COUNTER] = counter
    state[NEEDED_ROOM] = filled + more + COPY_BYTES
    return True


cdef inline bint reserve_bytes_failed(
    int64_t *state, int counter, const BytesColumn *column, int64_t more
) noexcept nogil:
    """Return whether a column that is wanted lacks room: see ``reserve_failed``."""
    return column.data != NULL and reserve_failed(
        state, counter, column.filled, column.room, more
    )


cdef void limit_room(int index, int64_t size, int64_t *room) noexcept:
    """Lower the room of a counter to the items that fit in a buffer."""
    cdef int counter = COUNTER_ROWS
    cdef int64_t holds = size
    if index in (BUFFER_KEY_VALID, BUFFER_VALUE_VALID, BUFFER_LIST_VALID):
        holds = 8 * size
    elif index in (BUFFER_KEY_OFFSETS, BUFFER_VALUE_OFFSETS, BUFFER_LIST_OFFSETS):
        holds = size // 4 - 1
    elif index in (BUFFER_OFFSETS, BUFFER_TIMESTAMPS):
        holds = size // 8
    elif index == BUFFER_TIMESTAMP_TYPES:
        holds = size // 4
    elif index == BUFFER_HEADER_VALUE_VALID:
        counter, holds = COUNTER_HEADERS, 8 * size
    elif index in (BUFFER_HEADER_KEY_OFFSETS, BUFFER_HEADER_VALUE_OFFSETS):
        counter, holds = COUNTER_HEADERS, size // 4 - 1
    elif index == BUFFER_KEY_DATA:
        counter = COUNTER_KEY_BYTES
    elif index == BUFFER_VALUE_DATA:
        counter = COUNTER_VALUE_BYTES
    elif index == BUFFER_HEADER_KEY_DATA:
        counter = COUNTER_HEADER_KEY_BYTES
    else:
        counter = COUNTER_HEADER_VALUE_BYTES
    room[counter] = min(room[counter], holds, <int64_t>INT32_MAX)


cdef int check_columns(uint8_t **starts) except -1:
    """Reject columns of which only some buffers are given."""
    cdef int index, first, count
    for first, count in (
        (BUFFER_KEY_VALID, 3), (BUFFER_VALUE_VALID, 3), (BUFFER_LIST_VALID, 7),
    ):
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
    if state[AT_BATCH] < 0:
        raise ValueError(f"batch {state[AT_BATCH]} is negative")
    return 0
