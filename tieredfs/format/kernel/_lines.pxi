# Write records as lines of JSON, from the buffers of Arrow columns.

# What is known of a code point.
cdef enum:
    POINT_UNKNOWN
    POINT_PLAIN  # written as it is
    POINT_ESCAPED  # written as \uXXXX
    CODE_POINTS = 0x110000

# What a field of a line is made of.
cdef enum:
    FIELD_INT32
    FIELD_INT64
    FIELD_TEXT
    FIELD_HEADERS
    FIELD_NOTHING  # but what is before it

cdef enum:
    LONGEST_NUMBER = 20
    LONGEST_ESCAPE = 6  # bytes that one byte of a text may become
    LONGEST_LITERAL = 4  # null
    HEADER_FRAME = 24  # bytes of a header without its texts: {"key": , "value": },
    LINE_END = 4

JSON_INT32 = <int>FIELD_INT32
JSON_INT64 = <int>FIELD_INT64
JSON_TEXT = <int>FIELD_TEXT
JSON_HEADERS = <int>FIELD_HEADERS
JSON_NOTHING = <int>FIELD_NOTHING
JSON_PLAIN = <int>POINT_PLAIN
JSON_ESCAPED = <int>POINT_ESCAPED
JSON_KNOWN_SIZE = <int>CODE_POINTS

# What a letter after a backslash stands for: 0 for none, in the order of the bytes.
cdef uint8_t *SHORT_ESCAPES = b"\0\0\0\0\0\0\0\0btn\0fr"
cdef uint8_t *HEX_DIGITS = b"0123456789abcdef"


cdef struct Texts:
    # A column of UTF-8 texts.
    const uint8_t *valid  # NULL if no text is null
    const int32_t *offsets
    const uint8_t *data
    int64_t size  # bytes of the data
    int64_t first  # where the column begins in the buffers
    int64_t count


cdef struct Field:
    int kind
    const uint8_t *prefix  # what is before it in the line
    int64_t prefix_size
    const int64_t *longs
    const int32_t *shorts
    Texts texts  # of headers, their keys
    Texts values
    const int32_t *lists  # of headers: where those of each row begin
    int64_t count


cdef inline bint is_null(const Texts *column, int64_t row) noexcept nogil:
    row += column.first
    return column.valid != NULL and not column.valid[row >> 3] >> (row & 7) & 1


cdef inline int64_t text_room(const Texts *column, int64_t row) noexcept nogil:
    """Return the most bytes that a text takes; -1 if it is outside of the data."""
    cdef int64_t start, end
    if is_null(column, row):
        return LONGEST_LITERAL
    start = column.offsets[column.first + row]
    end = column.offsets[column.first + row + 1]
    if not 0 <= start <= end <= column.size:
        return -1
    return LONGEST_ESCAPE * (end - start) + 2


cdef inline uint8_t *put(uint8_t *to, const void *data, int64_t size) noexcept nogil:
    memcpy(to, data, <size_t>size)
    return to + size


cdef inline uint8_t *put_unit(uint8_t *to, int64_t unit) noexcept nogil:
    """Write a UTF-16 unit as \\uXXXX."""
    to[0] = 0x5C
    to[1] = 0x75
    to[2] = HEX_DIGITS[unit >> 12 & 15]
    to[3] = HEX_DIGITS[unit >> 8 & 15]
    to[4] = HEX_DIGITS[unit >> 4 & 15]
    to[5] = HEX_DIGITS[unit & 15]
    return to + 6


cdef inline uint8_t *put_number(uint8_t *to, int64_t number) noexcept nogil:
    cdef uint8_t digits[LONGEST_NUMBER]
    cdef int at = LONGEST_NUMBER
    cdef uint64_t left = <uint64_t>number
    if number < 0:
        to[0] = 0x2D
        to += 1
        left = 0 - left
    while True:
        at -= 1
        digits[at] = <uint8_t>(0x30 + left % 10)
        left //= 10
        if not left:
            break
    return put(to, digits + at, LONGEST_NUMBER - at)


cdef inline bint are_eight_plain(const uint8_t *at) noexcept nogil:
    """Return whether no one of eight bytes needs a second look."""
    cdef uint64_t ones = 0x0101010101010101u
    cdef uint64_t word, quotes, slashes, deletes
    memcpy(&word, at, 8)
    quotes = word ^ 0x22 * ones
    slashes = word ^ 0x5C * ones
    deletes = word ^ 0x7F * ones
    # A byte's highest bit is set where it is not ASCII, below a space, or one of these;
    # perhaps in one behind such a byte, too, which costs only time.
    word |= (word - 0x20 * ones) | (quotes - ones) | (slashes - ones) | (deletes - ones)
    return not word & 0x80 * ones


cdef inline int64_t code_point(
    const uint8_t *at, const uint8_t *end, int64_t *length
) noexcept nogil:
    """Decode a code point that is not ASCII; -1 if that is not UTF-8."""
    cdef int64_t found, more
    if at[0] >= 0xF0:
        found, more = at[0] & 0x07, 3
    elif at[0] >= 0xE0:
        found, more = at[0] & 0x0F, 2
    else:
        found, more = at[0] & 0x1F, 1
    if end - at <= more:
        return -1
    length[0] = more + 1
    while more:
        at += 1
        found = found << 6 | at[0] & 0x3F
        more -= 1
    return found if found < CODE_POINTS else -1


cdef uint8_t *put_text(
    uint8_t *to, const Texts *column, int64_t row, const uint8_t *known, int64_t *asked
) noexcept nogil:
    """Write a text that has room; NULL if one of its code points is not known."""
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef int64_t point
    cdef int64_t length = 0
    if is_null(column, row):
        return put(to, b"null", 4)
    at = column.data + column.offsets[column.first + row]
    end = column.data + column.offsets[column.first + row + 1]
    to[0] = 0x22
    to += 1
    while at < end:
        if end - at >= 8 and are_eight_plain(at):
            memcpy(to, at, 8)
            at += 8
            to += 8
        elif at[0] == 0x22 or at[0] == 0x5C:
            to[0] = 0x5C
            to[1] = at[0]
            at += 1
            to += 2
        elif at[0] < 0x0E and SHORT_ESCAPES[at[0]]:
            to[0] = 0x5C
            to[1] = SHORT_ESCAPES[at[0]]
            at += 1
            to += 2
        elif at[0] < 0x20 or at[0] == 0x7F:
            to = put_unit(to, at[0])
            at += 1
        elif at[0] < 0x7F:
            to[0] = at[0]
            at += 1
            to += 1
        else:
            point = code_point(at, end, &length)
            if point < 0 or known[point] == POINT_UNKNOWN:
                asked[0] = point
                return NULL
            if known[point] == POINT_PLAIN:
                to = put(to, at, length)
            elif point < 0x10000:
                to = put_unit(to, point)
            else:
                to = put_unit(to, 0xD800 + (point - 0x10000 >> 10))
                to = put_unit(to, 0xDC00 + (point & 0x3FF))
            at += length
    to[0] = 0x22
    return to + 1


cdef int64_t headers_room(const Field *field, int64_t row) noexcept nogil:
    """Return the most bytes that the headers of a row take; -1 if they are not there."""
    cdef int64_t room = 2
    cdef int64_t header, key, value
    cdef int64_t end = field.lists[row + 1]
    if not 0 <= field.lists[row] <= end <= min(field.texts.count, field.values.count):
        return -1
    for header in range(field.lists[row], end):
        key = text_room(&field.texts, header)
        value = text_room(&field.values, header)
        if key < 0 or value < 0:
            return -1
        room += HEADER_FRAME + key + value
    return room


cdef uint8_t *put_headers(
    uint8_t *to, const Field *field, int64_t row, const uint8_t *known, int64_t *asked
) noexcept nogil:
    cdef int64_t header
    to = put(to, b"[", 1)
    for header in range(field.lists[row], field.lists[row + 1]):
        if header > field.lists[row]:
            to = put(to, b", ", 2)
        to = put(to, b'{"key": ', 8)
        to = put_text(to, &field.texts, header, known, asked)
        if to == NULL:
            return NULL
        to = put(to, b', "value": ', 11)
        to = put_text(to, &field.values, header, known, asked)
        if to == NULL:
            return NULL
        to = put(to, b"}", 1)
    return put(to, b"]", 1)


cdef int64_t line_room(const Field *fields, int count, int64_t row) noexcept nogil:
    """Return the most bytes that a line takes; -1 if a text is outside of its data."""
    cdef int64_t room = LINE_END
    cdef int64_t more
    cdef int index
    for index in range(count):
        more = LONGEST_NUMBER
        if fields[index].kind == FIELD_TEXT:
            more = text_room(&fields[index].texts, row)
        elif fields[index].kind == FIELD_HEADERS:
            more = headers_room(&fields[index], row)
        if more < 0:
            return -1
        room += fields[index].prefix_size + more
    return room


cdef uint8_t *put_line(
    uint8_t *to,
    const Field *fields,
    int count,
    int64_t row,
    const uint8_t *known,
    int64_t *asked,
) noexcept nogil:
    """Write a line that has room; NULL if one of its code points is not known."""
    cdef const Field *field
    cdef int index
    to = put(to, b"{", 1)
    for index in range(count):
        field = fields + index
        to = put(to, field.prefix, field.prefix_size)
        if field.kind == FIELD_INT32:
            to = put_number(to, field.shorts[row])
        elif field.kind == FIELD_INT64:
            to = put_number(to, field.longs[row])
        elif field.kind == FIELD_TEXT:
            to = put_text(to, &field.texts, row, known, asked)
        elif field.kind == FIELD_HEADERS:
            to = put_headers(to, field, row, known, asked)
        if to == NULL:
            return NULL
    return put(to, b"}\n", 2)


cdef class JsonLines:
    """Records as lines of JSON.

    Args:
        rows: How many there are.
        known: What is known of each code point: JSON_KNOWN_SIZE bytes.
        fields: For each field its kind, the bytes before it in the line, and a column:
            a buffer of numbers; texts; for headers, the int32 at which those of each
            row begin, their keys and their values; None for nothing. Texts are a bitmap
            or None, offsets, data or None, the row at which they begin in these, and
            how many there are.
    """

    cdef Field *fields
    cdef int count
    cdef int64_t rows
    cdef list held
    cdef const uint8_t *known

    def __cinit__(self, int64_t rows, object known, list fields):
        cdef Field *field
        cdef int64_t size
        if rows < 0:
            raise ValueError("a number of rows is negative")
        self.fields = <Field *>malloc((len(fields) + 1) * sizeof(Field))
        if self.fields == NULL:
            raise MemoryError
        self.rows, self.held, self.count = rows, [], 0
        self.known = <const uint8_t *>self._hold(known, CODE_POINTS, 1, &size)
        for kind, prefix, column in fields:
            field = self.fields + self.count
            field.kind = kind
            field.prefix = <const uint8_t *>self._hold(
                prefix, 0, 1, &field.prefix_size
            )
            if kind == FIELD_INT32:
                field.shorts = <const int32_t *>self._hold(column, rows, 4, &size)
            elif kind == FIELD_INT64:
                field.longs = <const int64_t *>self._hold(column, rows, 8, &size)
            elif kind == FIELD_TEXT:
                self._open(&field.texts, column)
                if field.texts.count < rows:
                    raise ValueError("a column has too few texts")
            elif kind == FIELD_HEADERS:
                lists, keys, values = column
                field.lists = <const int32_t *>self._hold(lists, rows + 1, 4, &size)
                self._open(&field.texts, keys)
                self._open(&field.values, values)
            elif kind != FIELD_NOTHING:
                raise ValueError(f"there is no kind {kind}")
            self.count += 1

    def __dealloc__(self):
        free(self.fields)

    cdef const void *_hold(
        self, object data, int64_t count, int64_t size, int64_t *length
    ) except? NULL:
        """Hold a buffer of at least ``count`` items of ``size`` bytes, aligned."""
        cdef _View view = _View(data)
        view.hold(count, size)
        if view.held.len and <size_t>view.held.buf % <size_t>size:
            raise ValueError(f"a buffer is not aligned to {size} bytes")
        self.held.append(view)
        length[0] = view.held.len
        return view.held.buf

    cdef int _open(self, Texts *texts, object column) except -1:
        cdef int64_t size
        valid, offsets, data, first, count = column
        if not 0 <= first <= INT32_MAX or not 0 <= count <= INT32_MAX:
            raise ValueError("a column of texts is too long")
        texts.first, texts.count = first, count
        texts.valid = NULL
        if valid is not None:
            texts.valid = <const uint8_t *>self._hold(
                valid, (texts.first + texts.count + 7) // 8, 1, &size
            )
        texts.offsets = <const int32_t *>self._hold(
            offsets, texts.first + texts.count + 1 if texts.count else 0, 4, &size
        )
        texts.data = <const uint8_t *>self._hold(
            b"" if data is None else data, 0, 1, &texts.size
        )
        return 0

    def write(self, int64_t row, object room):
        """Write lines, as many as have room.

        Args:
            row: The first row.
            room: A buffer, which is filled.

        Returns:
            The row after the last one that was written; how many bytes that is; how
            many bytes the next line may take, if it lacks room; and the code point in
            it that is not known, if there is one; else 0.

        Raises:
            ValueError: A text is outside of its column's data, or not UTF-8.
        """
        cdef _View target = _View(room, True)
        cdef uint8_t *begin = <uint8_t *>target.held.buf
        cdef uint8_t *to = begin
        cdef uint8_t *after
        cdef int64_t asked = 0
        cdef int64_t needed = 0
        if row < 0:
            raise ValueError(f"row {row} is negative")
        with nogil:
            while row < self.rows:
                needed = line_room(self.fields, self.count, row)
                if needed < 0 or needed > target.held.len - (to - begin):
                    break
                needed = 0
                after = put_line(
                    to, self.fields, self.count, row, self.known, &asked
                )
                if after == NULL:
                    break
                to = after
                row += 1
        if needed < 0 or asked < 0:
            raise ValueError(f"row {row} has a text that is not in its column")
        return row, to - begin, needed, asked
