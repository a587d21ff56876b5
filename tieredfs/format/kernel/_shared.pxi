# What Python code states as well, by the name it has there: a test compares them.

SHARED_NUMBERS = {
    "batch.header.HEADER_SIZE": <int>HEADER_SIZE,
    "batch.header.CRC_END": <int>CRC_END,
    "batch.header._CRC_AT": <int>CRC_AT,
    "batch.header.MIN_RECORD": <int>MIN_RECORD,
    "batch.header.CODEC_MASK": <int>CODEC_MASK,
    "compression.codec.MAX_CODEC": <int>MAX_CODEC,
    "batch.header.LOG_APPEND_TIME": <int>LOG_APPEND_TIME,
    "batch.reader._LENGTH_AT": <int>LENGTH_AT,
    "batch.reader._MAGIC_AT": <int>MAGIC_AT,
    "compression.bounded_output._CHUNK_BYTES": <int>PLAUSIBLE_SIZE,
    "compression.bounded_output._RATIO": <int>PLAUSIBLE_RATIO,
    "compression.codec.Codec.GZIP": <int>GZIP,
    "compression.codec.Codec.SNAPPY": <int>SNAPPY,
    "compression.codec.Codec.LZ4": <int>LZ4,
    "compression.codec.Codec.ZSTD": <int>ZSTD,
    "compression.snappy_blocks._XERIAL_HEADER": <int>XERIAL_HEADER,
    "compression.zstandard._MAX_REUSED_WINDOW_BYTES": <int>MAX_REUSED_WINDOW,
    "compression.zstd_frames._BLOCK_MAX": <int>ZSTD_BLOCK,
    "records.schema.MAX_HEADERS": <int>MAX_HEADERS,
    "records.schema.HEADER_BYTES": <int>HEADER_BYTES,
    "records.schema.MALFORMED_BYTES": <int>EXTRA_KEY_BYTES + 1,
    "records.decode_compiled._ROWS": <int>COUNTER_ROWS,
    "records.decode_compiled._KEYS": <int>COUNTER_KEY_BYTES,
    "records.decode_compiled._VALUES": <int>COUNTER_VALUE_BYTES,
    "records.decode_compiled._HEADERS": <int>COUNTER_HEADERS,
    "records.decode_compiled._HEADER_KEYS": <int>COUNTER_HEADER_KEY_BYTES,
    "records.decode_compiled._HEADER_VALUES": <int>COUNTER_HEADER_VALUE_BYTES,
    "records.decode_compiled._ROW_BYTES": <int>COUNTER_ROW_BYTES,
    "records.decode_compiled._SPARE": <int>COPY_BYTES,
}

# The counters of nulls, in the order of decode_compiled._NULLS.
NULL_COUNTERS = (
    <int>COUNTER_KEY_NULLS,
    <int>COUNTER_VALUE_NULLS,
    <int>COUNTER_ROWS_WITHOUT_HEADERS,
    <int>COUNTER_HEADER_VALUE_NULLS,
)

# The columns of a table of batches: BATCH_ROW in batch/table.py.
BATCH_ROW_COLUMNS = {
    "position": <int>BATCH_POSITION,
    "size": <int>BATCH_SIZE,
    "base_offset": <int>BATCH_BASE_OFFSET,
    "last_offset": <int>BATCH_LAST_OFFSET,
    "leader_epoch": <int>BATCH_LEADER_EPOCH,
    "crc": <int>BATCH_CRC,
    "attributes": <int>BATCH_ATTRIBUTES,
    "base_timestamp": <int>BATCH_BASE_TIMESTAMP,
    "max_timestamp": <int>BATCH_MAX_TIMESTAMP,
    "producer_id": <int>BATCH_PRODUCER_ID,
    "producer_epoch": <int>BATCH_PRODUCER_EPOCH,
    "base_sequence": <int>BATCH_BASE_SEQUENCE,
    "record_count": <int>BATCH_RECORD_COUNT,
    "magic": <int>BATCH_MAGIC,
    "start": <int>BATCH_START,
    "end": <int>BATCH_END,
}

# The first buffer of each column, and the number of buffers: decode_compiled._COLUMNS.
FIRST_BUFFERS = {
    "key": <int>BUFFER_KEY_VALID,
    "value": <int>BUFFER_VALUE_VALID,
    "offset": <int>BUFFER_OFFSETS,
    "timestamp": <int>BUFFER_TIMESTAMPS,
    "timestampType": <int>BUFFER_TIMESTAMP_TYPES,
    "headers": <int>BUFFER_LIST_VALID,
    "": <int>BUFFERS,
}
