# Decode records in groups: all records are located first, then each column is appended
# in a loop of its own. The processor predicts the branches of a loop over keys only, but
# not those of a loop over whole records, of which some have headers and others do not:
# the mispredictions took a quarter of the time.
#
# Only common forms are handled here. A group ends before a record that is malformed, cut
# off or has no room; ``fill_batch`` decodes that record and reports the fault.

cdef enum:
    GROUP_SIZE = 32  # records: with 7 bits before them, a bit of each fits a uint64


cdef struct Group:
    int64_t rows
    const uint8_t *end
    uint64_t no_key  # a bit for each record
    uint64_t no_value
    uint64_t no_headers
    # Sums.
    int64_t key_bytes
    int64_t value_bytes
    int64_t headers
    int64_t stored
    # For each record, as stored.
    int64_t delta[GROUP_SIZE]
    uint64_t stamp_bits[GROUP_SIZE]
    const uint8_t *key[GROUP_SIZE]
    int32_t key_length[GROUP_SIZE]  # 0 where it is null
    const uint8_t *value[GROUP_SIZE]
    int32_t value_length[GROUP_SIZE]
    const uint8_t *header[GROUP_SIZE]
    int32_t header_bytes[GROUP_SIZE]
    int32_t header_count[GROUP_SIZE]
    int64_t listed[GROUP_SIZE + 1]  # rows with headers, followed by one more row


cdef inline const uint8_t *read_short_varint(
    const uint8_t *at, uint64_t *bits
) noexcept nogil:
    """Decode a varint of up to three bytes, which must all be readable.

    A longer varint gives the largest odd number, which is too large for any field.
    """
    cdef uint64_t low = at[0]
    cdef uint64_t more
    if low < 0x80:
        bits[0] = low
        return at + 1
    more = at[1]
    low += more << 7
    if more < 0x80:
        bits[0] = low - 0x80
        return at + 2
    more = at[2]
    low += more << 14
    bits[0] = low - 0x4080 if more < 0x80 else UINT64_MAX
    return at + 3


cdef inline int64_t sum_up(const int32_t *numbers, int64_t count) noexcept nogil:
    """Add the numbers of a group, each of at most 20 bits."""
    cdef int32_t total = 0
    cdef int64_t index
    for index in range(count):
        total += numbers[index]
    return total


cdef inline void locate_group(
    Group *group,
    const uint8_t *at,
    const uint8_t *safe,
    int64_t max_rows,
    int64_t above,
) noexcept nogil:
    """Locate the fields of up to ``max_rows`` records that end at or before ``safe``.

    COPY_BYTES more bytes can be read after ``safe``, so single bytes need no check. The
    caller checks the last offset, which is relative like ``above``.
    """
    cdef const uint8_t *end
    cdef uint64_t bits, stamp_bits, delta_bits, count_bits, is_listed
    cdef int64_t row = 0
    cdef int64_t listed = 0
    cdef uint64_t no_key = 0
    cdef uint64_t no_value = 0
    cdef uint64_t no_headers = 0
    cdef int64_t length, stored
    group.end = at
    while row < max_rows:
        at = read_short_varint(at, &bits)
        if <int64_t>(bits >> 1) > safe - at:
            break
        end = at + (bits >> 1)
        # After the record's attributes, which are unused so far.
        at = read_short_varint(at + 1, &stamp_bits)
        if stamp_bits == UINT64_MAX:
            at = read_varint(at - 3, end, 10, &stamp_bits)
            if at == NULL:
                break
        group.stamp_bits[row] = stamp_bits
        at = read_short_varint(at, &delta_bits)
        if <int64_t>(delta_bits >> 1) <= above:
            break
        bits |= delta_bits
        group.delta[row] = <int64_t>(delta_bits >> 1)
        at = read_short_varint(at, &count_bits)
        length = <int64_t>(count_bits >> 1)
        if length > end - at:
            break
        if count_bits & 1:
            if length:
                break
            no_key |= <uint64_t>1 << row
        group.key[row] = at
        group.key_length[row] = <int32_t>length
        at = read_short_varint(at + length, &count_bits)
        length = <int64_t>(count_bits >> 1)
        if length > end - at:
            break
        if count_bits & 1:
            if length:
                break
            no_value |= <uint64_t>1 << row
        group.value[row] = at
        group.value_length[row] = <int32_t>length
        at = read_short_varint(at + length, &count_bits)
        stored = end - at
        length = <int64_t>(count_bits >> 1)
        if (bits | count_bits) & 1 or length > stored >> 1:
            break
        # No branch: whether there are headers is not predictable. Without any, no byte.
        if stored > length << 32:
            break
        group.header[row] = at
        group.header_bytes[row] = <int32_t>stored
        group.header_count[row] = <int32_t>length
        group.listed[listed] = row
        is_listed = <uint64_t>(0 - length) >> 63
        listed += <int64_t>is_listed
        no_headers = no_headers >> 1 | (is_listed ^ 1) << 63
        above = <int64_t>(delta_bits >> 1)
        group.end = end
        at = end
        row += 1
    group.listed[listed] = 0
    group.rows = row
    # Drops what was found of the record after the group.
    group.no_key = no_key & (<uint64_t>1 << row) - 1
    group.no_value = no_value & (<uint64_t>1 << row) - 1
    group.no_headers = no_headers >> (64 - row) if row else 0
    group.key_bytes = sum_up(group.key_length, row)
    group.value_bytes = sum_up(group.value_length, row)
    group.headers = sum_up(group.header_count, row)
    group.stored = sum_up(group.header_bytes, row)


cdef inline void copy_short(
    uint8_t *to, const uint8_t *at, int64_t length
) noexcept nogil:
    """Copy bytes where COPY_BYTES more bytes can be read and overwritten."""
    cdef int64_t done = COPY_BYTES
    cdef int64_t last = length - COPY_BYTES
    memcpy(to, at, COPY_BYTES)
    if last <= 0:
        return
    if length > MAX_SHORT_COPY:
        memcpy(to, at, <size_t>length)
        return
    memcpy(to + last, at + last, COPY_BYTES)
    while done < last:
        memcpy(to + done, at + done, 2 * COPY_BYTES)
        done += 2 * COPY_BYTES


cdef inline void mark_nulls(
    uint8_t *valid, int64_t row, int64_t rows, uint64_t nulls
) noexcept nogil:
    """Mark rows as valid, except those whose bit in ``nulls`` is set."""
    cdef int64_t end = (row + rows + 7) >> 3
    cdef int64_t at
    nulls <<= row & 7
    at = row >> 3
    if row & 7:
        valid[at] &= <uint8_t>~nulls
        nulls >>= 8
        at += 1
    while at < end:
        valid[at] = <uint8_t>~nulls
        nulls >>= 8
        at += 1


cdef inline void append_payloads(
    BytesColumn *column,
    int64_t row,
    int64_t rows,
    const uint8_t **payloads,
    const int32_t *lengths,
    uint64_t nulls,
) noexcept nogil:
    """Append payloads to a column that has room for them."""
    cdef int32_t *ends = column.offsets + row + 1
    cdef uint8_t *data = column.data
    cdef int64_t filled = column.filled
    cdef int64_t index
    for index in range(rows):
        copy_short(data + filled, payloads[index], lengths[index])
        filled += lengths[index]
        ends[index] = <int32_t>filled
    column.filled = filled
    column.nulls += COUNT_BITS(nulls)
    mark_nulls(column.valid, row, rows, nulls)


cdef inline bint append_group_headers(
    const Group *group, int64_t first, BytesColumn *keys, BytesColumn *values
) noexcept nogil:
    """Append the headers of all records, as headers ``first`` and up, if they fit.

    Returns:
        Whether the headers were appended; False when any is malformed or uncommon.
    """
    cdef int64_t header = first
    cdef int64_t last = first + group.headers
    cdef int64_t listed = 0
    cdef int64_t row = group.listed[0]
    cdef int64_t left = group.header_count[row]
    cdef int64_t key_bytes = keys.filled
    cdef int64_t value_bytes = values.filled
    cdef int64_t nulls = 0
    cdef int64_t length, is_last
    cdef const uint8_t *at = group.header[row]
    cdef const uint8_t *end = at + group.header_bytes[row]
    cdef int32_t *key_ends = keys.offsets
    cdef int32_t *value_ends = values.offsets
    cdef uint8_t *key_data = keys.data
    cdef uint8_t *value_data = values.data
    cdef uint64_t bits
    cdef bint wrong = False
    mark_nulls(values.valid, first, group.headers, 0)
    while header < last:
        at = read_short_varint(at, &bits)
        length = <int64_t>(bits >> 1)
        if bits & 1 or length > end - at:
            wrong = True
            break
        copy_short(key_data + key_bytes, at, length)
        key_bytes += length
        at = read_short_varint(at + length, &bits)
        length = <int64_t>(bits >> 1)
        if length > end - at:
            wrong = True
            break
        if bits & 1:
            if length:
                wrong = True
                break
            values.valid[header >> 3] &= <uint8_t>~(1 << (header & 7))
            nulls += 1
        copy_short(value_data + value_bytes, at, length)
        value_bytes += length
        at += length
        header += 1
        key_ends[header] = <int32_t>key_bytes
        value_ends[header] = <int32_t>value_bytes
        # No branch: whether a record ends here is not predictable.
        left -= 1
        is_last = <int64_t>(<uint64_t>(left - 1) >> 63)
        wrong |= (at != end) & is_last
        listed += is_last
        row = group.listed[listed]
        at += (group.header[row] - at) & (0 - is_last)
        end = group.header[row] + group.header_bytes[row]
        left += group.header_count[row] & (0 - is_last)
    if wrong:
        if first & 7:  # as it was: the byte is begun
            values.valid[first >> 3] |= <uint8_t>(0xFF << (first & 7))
        return False
    keys.filled = key_bytes
    values.filled = value_bytes
    values.nulls += nulls
    return True


cdef inline bint has_room(
    const BytesColumn *column, int64_t more
) noexcept nogil:
    """Return whether ``more`` and COPY_BYTES bytes fit, or the column is not wanted."""
    return column.data == NULL or more <= column.room - column.filled - COPY_BYTES


cdef inline void append_numbers(
    Chunk *chunk, const Group *group, const Batch *batch
) noexcept nogil:
    """Append the numeric columns that are wanted."""
    cdef int64_t row = chunk.rows
    cdef int64_t *offsets = chunk.offsets
    cdef int64_t *timestamps = chunk.timestamps
    cdef int32_t *types = chunk.timestamp_types
    cdef int64_t index
    if offsets:
        for index in range(group.rows):
            offsets[row + index] = batch.base_offset + group.delta[index]
    if timestamps:
        for index in range(group.rows):
            timestamps[row + index] = timestamp_of(batch, group.stamp_bits[index])
    if types:
        for index in range(group.rows):
            types[row + index] = batch.timestamp_type


cdef inline void append_lists(Chunk *chunk, const Group *group) noexcept nogil:
    """Append the end of each record's headers, which were appended before."""
    cdef int32_t *ends = chunk.list_offsets + chunk.rows + 1
    cdef int64_t header = chunk.headers
    cdef int64_t index
    for index in range(group.rows):
        header += group.header_count[index]
        ends[index] = <int32_t>header
    mark_nulls(chunk.list_valid, chunk.rows, group.rows, group.no_headers)
    chunk.headers = header
    chunk.rows_without_headers += COUNT_BITS(group.no_headers)


cdef inline int64_t group_size(
    const Chunk *chunk, const Group *group, const Limits *limits
) noexcept nogil:
    """Return the bytes that Arrow needs for a group in the columns that are wanted."""
    cdef int64_t size = limits.fixed * group.rows
    if chunk.keys.data:
        size += group.key_bytes
    if chunk.values.data:
        size += group.value_bytes
    if chunk.list_offsets:
        size += HEADER_BYTES * group.headers + group.stored
    return size


cdef inline bint group_fits(
    const Chunk *chunk, const Group *group, int64_t size, const Limits *limits
) noexcept nogil:
    """Return whether a group fits the chunk, and the buffers have room for it."""
    return (
        chunk.rows + group.rows <= chunk.max_rows
        and chunk.row_bytes + size < limits.soft
        and not exceeds_bytes(chunk, size, group.stored, limits)
        and has_room(&chunk.keys, group.key_bytes)
        and has_room(&chunk.values, group.value_bytes)
        and (
            chunk.list_offsets == NULL
            or group.headers <= chunk.max_headers - chunk.headers
            and has_room(&chunk.header_keys, group.stored)
            and has_room(&chunk.header_values, group.stored)
        )
    )


cdef inline const uint8_t *end_of_groups(
    const Batch *batch, const uint8_t *at, const uint8_t *stop, int64_t above
) noexcept nogil:
    """Return where groups end, so that COPY_BYTES more bytes can be read.

    NULL if the records have to be appended one by one: because some are not wanted, the
    offset before them is not of this batch, or too few bytes follow.
    """
    if (
        not batch.is_whole
        or not batch.base_offset - 1 <= above <= batch.base_offset + batch.max_delta
        or stop - at < COPY_BYTES
    ):
        return NULL
    return batch.end if stop - batch.end >= COPY_BYTES else stop - COPY_BYTES


cdef inline bint append_group(
    Chunk *chunk, Group *group, const Batch *batch, const Limits *limits
) noexcept nogil:
    """Append a group to the columns that are wanted.

    Returns:
        Whether it was appended; False if the group is empty, does not fit, or is not of
        a common form.
    """
    cdef int64_t size = group_size(chunk, group, limits)
    if not group.rows or group.delta[group.rows - 1] > batch.max_delta:
        return False
    if not group_fits(chunk, group, size, limits):
        return False
    if chunk.list_offsets:
        if not append_group_headers(
            group, chunk.headers, &chunk.header_keys, &chunk.header_values
        ):
            return False
        append_lists(chunk, group)
    if chunk.keys.data:
        append_payloads(
            &chunk.keys, chunk.rows, group.rows, group.key, group.key_length,
            group.no_key,
        )
    if chunk.values.data:
        append_payloads(
            &chunk.values, chunk.rows, group.rows, group.value, group.value_length,
            group.no_value,
        )
    append_numbers(chunk, group, batch)
    chunk.rows += group.rows
    chunk.row_bytes += size
    return True
