import pyarrow as pa

from tieredfs.format.buffers import Buffer
from tieredfs.format.varints import Int64Array

CRC_IN_HARDWARE: bool
FAULTS: tuple[str, ...]
FIELD_ROWS: int

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_table(data: Buffer, crc: int = 0) -> int: ...
def scan_headers(
    data: Buffer, start: int, offset: int, previous: int, ahead: int
) -> list[tuple[int, ...]]: ...
def decode_fields(
    data: Buffer, runs: Int64Array, count: int, out: Int64Array
) -> int: ...
def find_headers(
    data: Buffer,
    starts: Int64Array,
    counts: Int64Array,
    ends: Int64Array,
    count: int,
    total: int,
    out: Int64Array,
) -> int: ...
def payload_size(lengths: Int64Array, count: int) -> tuple[int, int]: ...
def copy_payloads(
    data: Buffer,
    starts: Int64Array,
    lengths: Int64Array,
    count: int,
    offsets: pa.Buffer,
    target: pa.Buffer,
    valid: pa.Buffer | None,
) -> None: ...
