from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.format.batch.table import BatchTable
from tieredfs.format.buffers import Buffer, Int64Array

SHARED_NUMBERS: dict[str, int]
NULL_COUNTERS: tuple[int, ...]
BATCH_ROW_COLUMNS: dict[str, int]
FIRST_BUFFERS: dict[str, int]

FAULTS: tuple[str, ...]
STATE_SIZE: int
COUNTER_COUNT: int
IS_FULL: int
HAS_NO_ROOM: int
STATE_BATCH: int
STATE_POSITION: int
STATE_NEEDED_COUNTER: int
STATE_NEEDED_ROOM: int

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_table(data: Buffer, crc: int = 0) -> int: ...
def scan_headers(
    data: Buffer, start: int, offset: int, previous: int, table: BatchTable
) -> int: ...
def count_valid(data: Buffer, table: BatchTable) -> int: ...
def fill(
    data: Buffer,
    table: BatchTable,
    limits: Int64Array,
    state: Int64Array,
    buffers: Sequence[pa.Buffer | None],
    *,
    is_checked: bool,
) -> int: ...

BLOCK_SIZE: int

def scan_packed(
    data: Buffer,
    table: BatchTable,
    blocks: Int64Array,
    max_stored: int,
    max_output: int,
    *,
    is_checked: bool,
) -> tuple[int, int, int]: ...

class Ranks:
    def __init__(self, numbers: memoryview) -> None: ...
    def of(self, number: int) -> int: ...

JSON_INT32: int
JSON_INT64: int
JSON_TEXT: int
JSON_HEADERS: int
JSON_NOTHING: int
JSON_PLAIN: int
JSON_ESCAPED: int
JSON_KNOWN_SIZE: int

_Part: TypeAlias = (
    bytes | pa.Buffer | npt.NDArray[np.uint8] | npt.NDArray[np.int32] | None
)
JsonTexts: TypeAlias = tuple[_Part, _Part, _Part, int, int]
JsonColumn: TypeAlias = (
    npt.NDArray[np.int32]
    | Int64Array
    | JsonTexts
    | tuple[npt.NDArray[np.int32], JsonTexts, JsonTexts]
    | None
)

class JsonLines:
    def __init__(
        self, rows: int, known: Buffer, fields: list[tuple[int, bytes, JsonColumn]]
    ) -> None: ...
    def write(self, row: int, room: memoryview) -> tuple[int, int, int, int]: ...

_Bytes: TypeAlias = Buffer | pa.Buffer | npt.NDArray[np.int32] | None
_Numbers: TypeAlias = tuple[Int64Array, int]
_Payloads: TypeAlias = tuple[_Bytes, _Bytes, int, _Bytes]

class RecordBody:
    def __init__(
        self,
        stamps: _Numbers,
        offsets: _Numbers,
        rows: int,
        first: int,
        base: int,
        key: _Payloads | None,
        value: _Payloads | None,
        headers: tuple[_Bytes, _Bytes, int, int, _Payloads | None, _Payloads | None]
        | None,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def offsets_increase(self) -> bool: ...
    def encode_records(self) -> bytes: ...
    def encode_batch(self, header: bytes) -> bytes: ...
