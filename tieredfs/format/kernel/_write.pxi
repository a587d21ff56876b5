# Encode records as the bytes of a batch.

# Position of the checksum in a batch.
cdef enum:
    CRC_AT = 17

cdef enum:
    BODY_BUFFERS = 16  # maximum number of buffers of a batch's records

cdef enum:
    FAR = 4096  # prefetch distance of a copy in bytes

# The column with invalid Arrow offsets; 0 for none.
cdef enum:
    VALID
    WRONG_KEY
    WRONG_VALUE
    WRONG_HEADERS
    CHANGED

cdef tuple WRONG = ("", "key", "value", "headers")


cdef struct PayloadColumn:
    int64_t rows
    const uint8_t *valid  # a bit for each row; NULL when none is null
    int64_t at  # the bit of the first row
    const uint8_t *ends  # int32, one more than rows; NULL when all are null
    const uint8_t *data
    int64_t size


cdef struct RecordColumns:
    int64_t rows
    const uint8_t *stamps  # int64
    const uint8_t *offsets  # int64
    int64_t first  # stored timestamps are relative to this one
    int64_t base  # stored offsets are relative to this one
    PayloadColumn key
    PayloadColumn value
    const uint8_t *listed  # a bit for each row; NULL when all have a list of headers
    int64_t at
    const uint8_t *ends  # int32, one more than rows; NULL when none has headers
    PayloadColumn name
    PayloadColumn content


# A slice of an Arrow array may begin anywhere: no alignment is assumed.
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
    """Find a payload, of length -1 when null; return False when it is out of bounds."""
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
    """Find the headers of a record; return False when they are out of bounds."""
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
    return VALID


cdef struct RecordPlace:
    int64_t size  # without its length field
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
    """Find the fields of a record, and its size without headers."""
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
    return VALID


cdef struct Measures:
    int64_t size
    int64_t max_timestamp
    bint offsets_increase


cdef int measure_records(
    const RecordColumns *of, int64_t *sizes, Measures *found
) noexcept nogil:
    """Measure each record without its length field, and all records together."""
    cdef RecordPlace record
    cdef int64_t row, stamp, offset
    cdef int64_t previous = 0
    cdef int wrong
    found.size = 0
    found.max_timestamp = INT64_MIN
    found.offsets_increase = True
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
        if stamp > found.max_timestamp:
            found.max_timestamp = stamp
        if row and offset <= previous:
            found.offsets_increase = False
        previous = offset
    return VALID


cdef inline uint8_t *write_varint(uint8_t *out, int64_t value) noexcept nogil:
    """Write a varint, for which there must be room; return the position after it."""
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
    """Write a payload, for which there must be room before ``end``."""
    cdef int64_t ahead = 0
    out = write_varint(out, length)
    if length <= 0:
        return out
    # A short payload is copied as 16 bytes without a call, if both sides have as many;
    # the surplus is overwritten later.
    if length <= 16 and column.size - start >= 16 and end - out >= 16:
        memcpy(out, column.data + start, 16)
        return out + length
    # These bytes are not in the cache yet: prefetch those of the next rows.
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
    """Write the headers of a record; return NULL when they do not fit before its end."""
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
    """Write measured records, which must fill the memory up to ``end`` exactly.

    Each record must still have its measured size: another thread may have written to
    the columns since.
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
    return VALID if out == end else CHANGED


cdef class RecordBody:
    """The records of a batch: measured on creation, then encoded.

    Args:
        stamps: The timestamps: an int64 buffer, and the index of the first record.
        offsets: The offsets: an int64 buffer, and the index of the first record.
        rows: Number of records.
        first: The timestamp that stored timestamps are relative to.
        base: The offset that stored offsets are relative to.
        key: The keys: a validity bitmap (None: no key is null), int32 Arrow offsets,
            the index of the first record in both, and the data (None: there is none).
            None when all keys are null.
        value: The values, in the same form.
        headers: A validity bitmap of the lists of headers (None: no list is null),
            int32 Arrow offsets of the lists, the index of the first record in both, the
            number of headers, and their keys and values in the same form as above. None
            when there are no headers.

    Raises:
        ValueError: A buffer is too small, or Arrow offsets decrease or are out of
            bounds.
    """

    cdef readonly int64_t size
    cdef readonly int64_t max_timestamp
    cdef readonly bint offsets_increase
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
        if rows < 0 or rows > MAX_COUNT:
            raise ValueError(f"row count {rows} is out of range")
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
            raise ValueError(
                f"column {name}: Arrow offsets decrease or are out of bounds"
            )
        self.size = found.size
        self.max_timestamp = found.max_timestamp
        self.offsets_increase = found.offsets_increase

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            PyBuffer_Release(&self.held[self.count])
        free(self.sizes)

    cdef const uint8_t *hold(
        self, object data, int64_t first, int64_t count, int64_t size
    ) except? NULL:
        """Hold a buffer as long as this object exists; return its item ``first``.

        The buffer must have at least ``count`` items of ``size`` bytes from there on.
        """
        cdef Py_buffer *view = &self.held[self.count]
        if not 0 <= first <= MAX_COUNT or not 0 <= count <= MAX_COUNT:
            raise ValueError(f"{count} items from item {first} on are out of range")
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
        if first < 0 or first > MAX_COUNT or count < 0 or count > MAX_COUNT:
            raise ValueError(f"{count} bits from bit {first} on are out of range")
        if bits is None:
            return NULL
        return self.hold(bits, 0, (first + count + 7) // 8, 1)

    cdef int hold_payloads(
        self, PayloadColumn *column, tuple given, int64_t rows
    ) except -1:
        if rows < 0 or rows > MAX_COUNT:
            raise ValueError(f"row count {rows} is out of range")
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

    def encode_records(self):
        """Return the encoded records."""
        return self.write(b"")

    def encode_batch(self, bytes header):
        """Join a header and the encoded records into a batch, and set its checksum.

        Raises:
            ValueError: The header does not have the size of a batch header.
        """
        if len(header) != HEADER_SIZE:
            raise ValueError(f"a header of {len(header)} bytes, not {HEADER_SIZE}")
        return self.write(header)

    cdef bytes write(self, bytes header):
        cdef Py_ssize_t before = len(header)
        cdef const char *head = PyBytes_AsString(header)
        cdef bytes written = PyBytes_FromStringAndSize(NULL, before + self.size)
        # No other code has a reference to these bytes yet, so they may be modified.
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
