# Find the blocks of compressed batches, and the maximum size of each block's output.
#
# Only common forms are handled here, and checked completely: anything else is left to
# the codec's own library. Sources: RFC 1952 (gzip), RFC 8878 (zstd), the LZ4 frame
# format, snappy-java's SnappyOutputStream (xerial).

# The columns of a table of blocks.
cdef enum:
    BLOCK_START
    BLOCK_END
    BLOCK_MIN  # minimum size of the output; STORED for a block that is not compressed
    BLOCK_MAX  # maximum size of the output
    BLOCK_NEEDED  # minimum size of its batch's records; 0 unless it is the last block
    BLOCK_COLUMNS

cdef enum:
    STORED = -1

cdef enum:
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

cdef enum:
    DEFLATE_RATIO = 1032  # a copy of 258 bytes takes at least two bits
    SNAPPY_RATIO = 64  # a copy of 64 bytes takes at least two bytes
    LZ4_RATIO = 255
    MIN_GZIP = 18
    MIN_LZ4 = 11
    XERIAL_HEADER = 16
    ZSTD_BLOCK = 128 << 10
    MAX_REUSED_WINDOW = 8 << 20  # bytes up to which a zstd context is reused
    PLAUSIBLE_SIZE = 1 << 20  # bytes that any data can plausibly claim, plus
    PLAUSIBLE_RATIO = 256  # … for each stored byte: see bounded_output.py

BLOCK_SIZE = <int>BLOCK_COLUMNS


cdef struct Blocks:
    int64_t *next
    int64_t left  # number of blocks that there is room for
    int64_t base  # start of the payload
    int64_t total  # maximum size of the output of the blocks found


cdef inline uint32_t little_32(const uint8_t *at) noexcept nogil:
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24


cdef inline uint32_t rotated(uint32_t value, int bits) noexcept nogil:
    return value << bits | value >> (32 - bits)


cdef uint32_t xxh32(const uint8_t *at, int64_t size) noexcept nogil:
    """Return the XXH32 of some bytes, the checksum of lz4 frames."""
    cdef uint32_t first = 0x9E3779B1u
    cdef uint32_t second = 0x85EBCA77u
    cdef uint32_t third = 0xC2B2AE3Du
    cdef uint32_t fourth = 0x27D4EB2Fu
    cdef uint32_t fifth = 0x165667B1u
    cdef uint32_t a = first + second
    cdef uint32_t b = second
    cdef uint32_t c = 0
    cdef uint32_t d = 0 - first
    cdef uint32_t value = fifth
    cdef int64_t left = size
    if left >= 16:
        while left >= 16:
            a = rotated(a + little_32(at) * second, 13) * first
            b = rotated(b + little_32(at + 4) * second, 13) * first
            c = rotated(c + little_32(at + 8) * second, 13) * first
            d = rotated(d + little_32(at + 12) * second, 13) * first
            at += 16
            left -= 16
        value = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    value += <uint32_t>size
    while left >= 4:
        value = rotated(value + little_32(at) * third, 17) * fourth
        at += 4
        left -= 4
    while left:
        value = rotated(value + at[0] * fifth, 11) * first
        at += 1
        left -= 1
    value = (value ^ value >> 15) * second
    value = (value ^ value >> 13) * third
    return value ^ value >> 16


cdef inline bint add_block(
    Blocks *found, int64_t start, int64_t end, int64_t lower, int64_t upper
) noexcept nogil:
    """Append a block of a payload; return False when there is no room for it."""
    if not found.left:
        return False
    found.next[BLOCK_START] = found.base + start
    found.next[BLOCK_END] = found.base + end
    found.next[BLOCK_MIN] = lower
    found.next[BLOCK_MAX] = upper
    found.next[BLOCK_NEEDED] = 0
    found.next += BLOCK_COLUMNS
    found.left -= 1
    found.total += upper
    return True


cdef bint find_gzip(const uint8_t *data, int64_t size, Blocks *found) noexcept nogil:
    """Find a payload that can be a single member."""
    cdef int64_t upper
    if size < MIN_GZIP or data[0] != 0x1F or data[1] != 0x8B:
        return False
    if data[2] != 8 or data[3] & 0xE0:
        return False
    upper = little_32(data + size - 4)
    if upper == 0 or upper > DEFLATE_RATIO * size:
        return False
    return add_block(found, 0, size, upper, upper)


cdef bint add_snappy(
    const uint8_t *data, int64_t start, int64_t end, Blocks *found
) noexcept nogil:
    """Append a raw block, which begins with its decompressed size."""
    cdef uint64_t upper = 0
    cdef const uint8_t *at = data + start
    cdef const uint8_t *stop = data + end
    cdef int shift = 0
    while at < stop and shift < 35:
        upper |= <uint64_t>(at[0] & 0x7F) << shift
        if at[0] < 0x80:
            if upper > <uint64_t>(SNAPPY_RATIO * (end - start)):
                return False
            return add_block(found, start, end, <int64_t>upper, <int64_t>upper)
        at += 1
        shift += 7
    return False


cdef bint find_snappy(const uint8_t *data, int64_t size, Blocks *found) noexcept nogil:
    """Find a raw block, or xerial blocks."""
    cdef int64_t at = XERIAL_HEADER
    cdef int64_t length
    if size < 8 or memcmp(data, b"\x82SNAPPY\x00", 8):
        return add_snappy(data, 0, size, found)
    if size <= XERIAL_HEADER:
        return False
    while at < size:
        if size - at < 4:
            return False
        length = <int32_t>read_32(data + at)
        at += 4
        if length < 0 or length > size - at:
            return False
        if not add_snappy(data, at, at + length, found):
            return False
        at += length
    return True


cdef bint find_lz4(const uint8_t *data, int64_t size, Blocks *found) noexcept nogil:
    """Find the blocks of a frame: independent ones, or a single one."""
    cdef int64_t at = 6
    cdef int64_t count = 0
    cdef int64_t content = -1
    cdef int64_t limit, length, behind, lower, upper
    cdef int flags
    cdef bint is_stored
    if size < MIN_LZ4 or little_32(data) != 0x184D2204u:
        return False
    flags = data[4]
    # Version 1, no checksum of the content, no dictionary; blocks of 64 KiB or more.
    if flags & 0xC7 != 0x40 or data[5] & 0x8F or data[5] < 0x40:
        return False
    limit = <int64_t>1 << (8 + 2 * (data[5] >> 4))
    behind = 4 if flags & 0x10 else 0
    if flags & 0x08:
        if size < MIN_LZ4 + 8:
            return False
        content = <int64_t>(little_32(data + 6) | <uint64_t>little_32(data + 10) << 32)
        if content < 0:
            return False
        at += 8
    if xxh32(data + 4, at - 4) >> 8 & 0xFF != data[at]:
        return False
    at += 1
    while size - at >= 4:
        length = little_32(data + at)
        at += 4
        if not length:
            return count > 0 and content <= 0 and at == size
        is_stored = length >> 31
        length &= 0x7FFFFFFF
        if length > limit or length > size - at - behind:
            return False
        if behind and xxh32(data + at, length) != little_32(data + at + length):
            return False
        if count and not flags & 0x20:
            return False
        upper = length if is_stored else min(limit, LZ4_RATIO * length)
        lower = 0
        if content >= 0:
            # All blocks are full but the last, which has the rest.
            if not content or upper < min(limit, content):
                return False
            if is_stored and upper != min(limit, content):
                return False
            upper = min(limit, content)
            lower = upper
            content -= upper
        if is_stored:
            lower = STORED
        if not add_block(found, at, at + length, lower, upper):
            return False
        at += length + behind
        count += 1
    return False


cdef bint find_zstd(const uint8_t *data, int64_t size, Blocks *found) noexcept nogil:
    """Find a single frame."""
    cdef int64_t at = 5
    cdef int64_t window = 0
    cdef int64_t upper = 0
    cdef int64_t content = -1
    cdef int64_t length
    cdef int flags, index, width
    cdef uint32_t header = 0
    if size < 9 or little_32(data) != 0xFD2FB528u:
        return False
    flags = data[4]
    if flags & 0x03:  # a dictionary
        return False
    width = flags >> 6
    if not flags & 0x20:
        window = <int64_t>(8 + (data[5] & 7)) << (7 + (data[5] >> 3))
        at += 1
    if flags & 0x20 or width:
        width = 1 << width
        if size - at < width:
            return False
        content = 0
        for index in range(width):
            content |= <int64_t>data[at + index] << (8 * index)
        if width == 2:
            content += 256
        if content <= 0:
            return False
        at += width
        if not window:
            window = content
    if window > MAX_REUSED_WINDOW:
        return False
    while not header & 1:
        if size - at < 3:
            return False
        header = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16
        at += 3
        length = header >> 3
        if header >> 1 & 3 == 0:
            upper += length
            at += length
        elif header >> 1 & 3 == 1:
            upper += length
            at += 1
        elif header >> 1 & 3 == 2:
            upper += ZSTD_BLOCK
            at += length
        else:
            return False
        if at > size:
            return False
    at += flags & 4  # the checksum
    if at != size or not upper or content > upper:
        return False
    if content >= 0:
        return add_block(found, 0, size, content, content)
    return add_block(found, 0, size, 0, upper)


cdef bint find_blocks(
    int codec, const uint8_t *data, int64_t size, Blocks *found
) noexcept nogil:
    if codec == GZIP:
        return find_gzip(data, size, found)
    if codec == SNAPPY:
        return find_snappy(data, size, found)
    if codec == LZ4:
        return find_lz4(data, size, found)
    return codec == ZSTD and find_zstd(data, size, found)


cdef int64_t find_packed(
    const uint8_t *data,
    int64_t size,
    const int64_t *table,
    int64_t rows,
    bint is_checked,
    int64_t max_stored,
    int64_t max_output,
    Blocks *found,
) noexcept nogil:
    """Find the blocks of batches; return the number of batches found completely."""
    cdef Blocks kept
    cdef int64_t batch[BATCH_COLUMNS]
    cdef int64_t start, end, begin, count, row, room
    cdef int64_t stored = 0
    cdef int first = 0
    cdef int codec
    for row in range(rows):
        # A copy, so that a concurrent write to the table cannot undo the checks.
        memcpy(batch, table + BATCH_COLUMNS * row, sizeof(batch))
        codec = <int>(batch[BATCH_ATTRIBUTES] & CODEC_MASK)
        if not row:
            first = codec
        start = batch[BATCH_START]
        end = batch[BATCH_END]
        count = batch[BATCH_RECORD_COUNT]
        if codec != first or batch[BATCH_MAGIC] != 2 or count <= 0:
            return row
        if not 0 <= start <= end <= size:
            return row
        if row and stored + (end - start) > max_stored:
            return row
        if not is_checked:
            if not CRC_END <= batch[BATCH_SIZE] <= end:
                return row
            begin = end - batch[BATCH_SIZE]
            if batch[BATCH_CRC] != crc32c_extend(
                0, data + begin + CRC_END, <size_t>(batch[BATCH_SIZE] - CRC_END)
            ):
                return row
        kept = found[0]
        found.base = start
        if find_blocks(codec, data + start, end - start, found):
            room = found.total - kept.total
            if (
                (not row or found.total <= max_output)
                and room <= PLAUSIBLE_SIZE + PLAUSIBLE_RATIO * (end - start)
                and count <= room // MIN_RECORD
            ):
                found.next[BLOCK_NEEDED - BLOCK_COLUMNS] = MIN_RECORD * count
                stored += end - start
                continue
        found[0] = kept
        return row
    return rows


def scan_packed(
    object data,
    object table,
    object blocks,
    int64_t max_stored,
    int64_t max_output,
    *,
    bint is_checked,
):
    """Find the blocks of compressed batches, for a codec's library to decompress.

    Stops before a batch that has another codec than the first one, an uncommon form or
    malformed data, without giving the reason: decompressing it on its own raises it.

    Args:
        data: Bytes that contain the batches.
        table: Rows of BATCH_ROW.
        blocks: int64 rows to fill, one for each block: its start and end in the bytes;
            the minimum (-1: it is not compressed) and maximum size of its output; the
            minimum size of its batch's records if it is the last block, else 0.
        max_stored: Maximum compressed bytes of all batches; does not apply to the first
            one.
        max_output: Maximum decompressed bytes of all batches; the first one may have
            any plausible size.
        is_checked: Whether the checksums are verified; when they are not, the bytes
            contain the whole batches, each with its payload at its end.

    Returns:
        The number of batches found, the number of their blocks, and the maximum size of
        the output.
    """
    cdef _View source = _View(data)
    cdef _View rows = _View(table)
    cdef _View place = _View(blocks, True)
    cdef Blocks found
    cdef int64_t batches, room
    rows.hold_int64(0)
    place.hold_int64(0)
    room = place.held.len // <int64_t>(BLOCK_COLUMNS * sizeof(int64_t))
    found.next = <int64_t *>place.held.buf
    found.left = room
    found.base = 0
    found.total = 0
    with nogil:
        batches = find_packed(
            <const uint8_t *>source.held.buf,
            source.held.len,
            <const int64_t *>rows.held.buf,
            rows.held.len // <int64_t>(BATCH_COLUMNS * sizeof(int64_t)),
            is_checked,
            max_stored,
            max_output,
            &found,
        )
    return batches, room - found.left, found.total
