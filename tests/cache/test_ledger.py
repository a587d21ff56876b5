"""The ledger of a cache directory, and when it gives no balance."""

from pathlib import Path
from struct import Struct

import pytest

from tieredfs.cache.ledger import Balance, Ledger
from tieredfs.format.checksum import crc32c

_RECORD = Struct("<8sqq")
MAGIC = b"TFSCACH1"


def sealed(record: bytes) -> bytes:
    return record + crc32c(record).to_bytes(4, "little")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.mark.parametrize("total", [None, 0, 1, 1 << 40])
def test_what_was_written_is_read(path: Path, total: int | None) -> None:
    Ledger(path).write(Balance(1 << 41, total))
    assert Ledger(path).read() == Balance(1 << 41, total)
    assert path.read_bytes() == sealed(
        _RECORD.pack(MAGIC, 1 << 41, -1 if total is None else total)
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        sealed(_RECORD.pack(MAGIC, 9, 5))[:-1],
        sealed(_RECORD.pack(MAGIC, 9, 5)) + b"\0",
        # More bytes, of which the last four are right.
        _RECORD.pack(MAGIC, 9, 5) + sealed(_RECORD.pack(MAGIC, 9, 5))[-4:] * 2,
        sealed(_RECORD.pack(b"TFSCACH2", 9, 5)),
        _RECORD.pack(MAGIC, 9, 5) + b"\0\0\0\0",
    ],
    ids=["empty", "short", "long", "longer", "another magic", "checksum"],
)
def test_an_invalid_ledger_gives_no_balance(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert Ledger(path).read() is None


def test_a_missing_file_or_a_directory_gives_no_balance(path: Path) -> None:
    assert Ledger(path).read() is None
    path.mkdir()
    assert Ledger(path).read() is None


def test_a_longer_file_is_truncated_and_readable_by_its_owner_only(path: Path) -> None:
    ledger = Ledger(path)
    ledger.write(Balance(9, 5))
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as file:
        file.write(b"more")
    ledger.write(Balance(9, 6))
    assert ledger.read() == Balance(9, 6)
