# Decode the records of batches to Arrow columns: in groups where they have a common
# form (_groups.pxi), else one by one (_record.pxi).

include "_chunk.pxi"
include "_record.pxi"
include "_groups.pxi"


cdef int fill_batch(
    const uint8_t *data,
    int64_t size,
    const int64_t *row,
    const Limits *limits,
    uint8_t **buffers,
    const int64_t *room,
    int64_t *state,
) noexcept nogil:
    """Continue with a batch: read its records, and append the wanted ones."""
    cdef const uint8_t *stop = data + size
    cdef const uint8_t *at = data + state[AT_POSITION]
    cdef int64_t left = state[AT_RECORDS_LEFT]
    cdef int64_t above = state[AT_LAST_OFFSET]
    cdef int64_t ungrouped = 0  # records to append one by one, as they form no group
    cdef int ended = NO_FAULT
    cdef const uint8_t *safe
    cdef Batch batch
    cdef Chunk chunk
    cdef Group group
    cdef Record record
    open_batch(&batch, data, row, limits)
    open_chunk(&chunk, buffers, room, state, limits)
    safe = end_of_groups(&batch, at, stop, above)
    while left:
        if ungrouped:
            ungrouped -= 1
        elif safe != NULL and at <= safe:
            locate_group(
                &group, at, safe, min(left, GROUP_SIZE), above - batch.base_offset
            )
            if append_group(&chunk, &group, &batch, limits):
                at = group.end
                above = batch.base_offset + group.delta[group.rows - 1]
                left -= group.rows
                continue
            ungrouped = group.rows
        ended = locate_record(&record, at, &batch, above)
        if not ended and (
            batch.is_whole or limits.first <= record.offset <= limits.last
        ):
            ended = append_record(
                &chunk, &record, &batch, limits,
                MAX_SHORT_COPY if stop - record.end >= COPY_BYTES else -1, state,
            )
        if ended:
            break
        at = record.end
        above = record.offset
        left -= 1
    state[AT_POSITION] = at - data
    state[AT_RECORDS_LEFT] = left
    state[AT_LAST_OFFSET] = above
    save_chunk(&chunk, state)
    if ended:
        return ended
    return NO_FAULT if at == batch.end else FAULT_BATCH_NOT_FILLED


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
    cdef int64_t batch[BATCH_COLUMNS]
    cdef int64_t begin
    cdef int ended
    while state[AT_BATCH] < rows:
        # A copy, so that a concurrent write to the table cannot undo the checks.
        memcpy(batch, table + BATCH_COLUMNS * state[AT_BATCH], sizeof(batch))
        if not 0 <= batch[BATCH_START] <= batch[BATCH_END] <= size:
            return FAULT_BATCH_NOT_FILLED
        if not 0 <= batch[BATCH_BASE_OFFSET] <= batch[BATCH_LAST_OFFSET]:
            return FAULT_OFFSET_OUTSIDE
        if state[AT_POSITION] < 0:
            state[AT_POSITION] = batch[BATCH_START]
            state[AT_RECORDS_LEFT] = batch[BATCH_RECORD_COUNT]
            state[AT_LAST_OFFSET] = batch[BATCH_BASE_OFFSET] - 1
            memcpy(state + COUNTERS, state, COUNTERS * sizeof(int64_t))
            if not is_checked:
                if not CRC_END <= batch[BATCH_SIZE] <= batch[BATCH_END]:
                    return FAULT_BATCH_NOT_FILLED
                begin = batch[BATCH_END] - batch[BATCH_SIZE]
                if batch[BATCH_CRC] != crc32c_extend(
                    0, data + begin + CRC_END, <size_t>(batch[BATCH_SIZE] - CRC_END)
                ):
                    return FAULT_CRC
        if batch[BATCH_RECORD_COUNT]:
            if state[AT_RECORDS_LEFT] < 0:
                return FAULT_BATCH_NOT_FILLED
            if not batch[BATCH_START] <= state[AT_POSITION] <= batch[BATCH_END]:
                return FAULT_BATCH_NOT_FILLED
            ended = fill_batch(data, size, batch, limits, buffers, room, state)
            if ended > 0:
                memcpy(state, state + COUNTERS, COUNTERS * sizeof(int64_t))
            if ended:
                return ended
        state[AT_POSITION] = -1
        state[AT_BATCH] += 1
    return ENDED_DONE


cdef inline bint has_valid_crc(
    const uint8_t *data, int64_t size, const int64_t *row
) noexcept nogil:
    """Return whether a whole batch in some bytes has the checksum of its row."""
    cdef int64_t length = row[BATCH_SIZE]
    if not CRC_END <= length <= row[BATCH_END] <= size:
        return False
    return row[BATCH_CRC] == crc32c_extend(
        0, data + row[BATCH_END] - length + CRC_END, <size_t>(length - CRC_END)
    )


def count_valid(object data, object table):
    """Return the number of batches before the first whose checksum is wrong.

    Args:
        data: Bytes that contain the whole batches.
        table: Rows of BATCH_ROW: the batches, each with its end in the bytes.
    """
    cdef _View source = _View(data)
    cdef _View batches = _View(table)
    cdef int64_t row[BATCH_COLUMNS]
    cdef int64_t count = 0
    cdef int64_t rows
    batches.hold_int64(0)
    rows = batches.held.len // <int64_t>sizeof(row)
    with nogil:
        while count < rows:
            # A copy, so that a concurrent write to the table cannot undo the check.
            memcpy(
                row,
                <const int64_t *>batches.held.buf + BATCH_COLUMNS * count,
                sizeof(row),
            )
            if not has_valid_crc(<const uint8_t *>source.held.buf, source.held.len, row):
                break
            count += 1
    return count


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
    cdef int64_t kept[STATE_ITEMS]
    cdef uint8_t *starts[BUFFERS]
    cdef _View view
    cdef int index, ended
    held = []
    batches.hold_int64(0)
    bounds.hold_int64(6)
    place.hold_int64(STATE_ITEMS)
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
        limit_room(index, view.held.len, room)
    check_columns(starts)
    # A copy, so that a buffer that shares its memory cannot undo the checks.
    memcpy(kept, place.held.buf, sizeof(kept))
    check_state(kept, room)
    for index in (
        BUFFER_KEY_OFFSETS, BUFFER_VALUE_OFFSETS, BUFFER_LIST_OFFSETS,
        BUFFER_HEADER_KEY_OFFSETS, BUFFER_HEADER_VALUE_OFFSETS,
    ):
        if starts[index]:
            (<int32_t *>starts[index])[0] = 0
    with nogil:
        ended = fill_batches(
            <const uint8_t *>source.held.buf,
            source.held.len,
            <const int64_t *>batches.held.buf,
            batches.held.len // <int64_t>(BATCH_COLUMNS * sizeof(int64_t)),
            is_checked,
            <const Limits *>bounds.held.buf,
            starts,
            room,
            kept,
        )
    memcpy(place.held.buf, kept, sizeof(kept))
    return ended
