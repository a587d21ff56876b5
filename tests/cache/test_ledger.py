"""The ledger of a cache directory, and when it gives no balance."""

from pathlib import Path
from struct import Struct

import pytest

from tieredfs.cache.ledger import MARK_BITS, Balance, Ledger
from tieredfs.format.checksum import crc32c

_RECORD = Struct("<8sqqQ")
MAGIC = b"TFSCACH2"


def sealed(record: bytes) -> bytes:
    return record + crc32c(record).to_bytes(4, "little")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.mark.parametrize("total", [None, 0, 1, 1 << 40])
def test_what_was_written_is_read(path: Path, total: int | None) -> None:
    Ledger(path).write(Balance(1 << 41, total, 7))
    assert Ledger(path).read() == Balance(1 << 41, total, 7)
    assert path.read_bytes() == sealed(
        _RECORD.pack(MAGIC, 1 << 41, -1 if total is None else total, 7)
    )


@pytest.mark.parametrize("mark", [0, 1, (1 << MARK_BITS) - 1])
@pytest.mark.parametrize("total", [None, 5])
def test_balances_of_one_size_differ_by_their_marks(
    path: Path, mark: int, total: int | None
) -> None:
    Ledger(path).write(Balance(9, total, mark))
    assert Ledger(path).read() == Balance(9, total, mark)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        sealed(_RECORD.pack(MAGIC, 9, 5, 0))[:-1],
        sealed(_RECORD.pack(MAGIC, 9, 5, 0)) + b"\0",
        # More bytes, of which the last four are right.
        _RECORD.pack(MAGIC, 9, 5, 0) + sealed(_RECORD.pack(MAGIC, 9, 5, 0))[-4:] * 2,
        sealed(_RECORD.pack(b"TFSCACH1", 9, 5, 0)),
        _RECORD.pack(MAGIC, 9, 5, 0) + b"\0\0\0\0",
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
    ledger.write(Balance(9, 5, 0))
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as file:
        file.write(b"more")
    ledger.write(Balance(9, 6, 0))
    assert ledger.read() == Balance(9, 6, 0)
