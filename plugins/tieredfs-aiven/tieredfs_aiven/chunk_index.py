"""The positions of a log's chunks: pieces of one size, each stored separately.

*Fixed*: all but the last have one stored size. *Variable*: each has its own, in a
compact list. The log's object itself does not contain the chunk boundaries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tieredfs import CorruptObjectError, UnsupportedFormatError
from tieredfs_aiven.chunk_sizes import (
    MalformedSizesError,
    decode_sizes,
    encode_sizes,
)
from tieredfs_aiven.fields import Fields

__all__ = ["Chunk", "ChunkIndex"]

_SLACK: Final = 1024
"""More than zstd's frame and AES-GCM's IV and tag add to a small chunk."""


class Chunk(NamedTuple):
    """A piece of the log, and where it is stored.

    Attributes:
        start: Its first byte in the log.
        size: Its bytes in the log.
        stored_start: Its first byte in the object.
        stored_size: Its bytes in the object.
    """

    start: int
    size: int
    stored_start: int
    stored_size: int


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """The chunks of one log.

    Attributes:
        chunk_size: Bytes of the log in each chunk but the last.
        size: Bytes of the log.
        starts: Position of each chunk in the object, followed by the end of the last;
            None if all but the last have one stored size.
        stored_size: That size, if ``starts`` is None.
        last_stored_size: Stored size of the last chunk.
    """

    chunk_size: int
    size: int
    starts: npt.NDArray[np.int64] | None
    stored_size: int
    last_stored_size: int

    @classmethod
    def fixed(cls, chunk_size: int, size: int, overhead: int) -> "ChunkIndex":
        """Return the chunks of a log, each stored with ``overhead`` more bytes.

        Args:
            chunk_size: Bytes of the log in each chunk but the last.
            size: Bytes of the log; at least 1.
            overhead: Bytes that storing a chunk adds to it.
        """
        last = (size - 1) % chunk_size + 1
        return cls(chunk_size, size, None, chunk_size + overhead, last + overhead)

    @classmethod
    def variable(
        cls, chunk_size: int, size: int, sizes: npt.NDArray[np.int64]
    ) -> "ChunkIndex":
        """Return the chunks of a log that have these stored sizes.

        Args:
            chunk_size: Bytes of the log in each chunk but the last.
            size: Bytes of the log.
            sizes: Stored size of each chunk.
        """
        starts = np.concatenate([[0], np.cumsum(sizes)])
        largest = int(sizes.max(initial=0))
        last = int(sizes[-1]) if len(sizes) else 0
        return cls(chunk_size, size, starts, largest, last)

    @classmethod
    def parse(cls, fields: Fields) -> "ChunkIndex":
        """Parse a manifest's field ``chunkIndex``.

        Raises:
            CorruptObjectError: It is malformed or inconsistent.
            UnsupportedFormatError: It is of an unknown type.
        """
        kind = fields.text("type")
        if kind not in {"fixed", "variable"}:
            raise UnsupportedFormatError(f"{fields}: its type is {kind[:20]!r}")
        chunk_size = fields.integer("originalChunkSize", 1)
        size = fields.integer("originalFileSize")
        if kind == "fixed":
            stored = fields.integer("transformedChunkSize")
            last = fields.integer("finalTransformedChunkSize")
            found = cls(chunk_size, size, None, stored, last)
        else:
            try:
                sizes = decode_sizes(
                    fields.text("transformedChunks"), -(-size // chunk_size)
                )
            except MalformedSizesError as error:
                msg = f"{fields}: transformedChunks: {error}"
                raise CorruptObjectError(msg) from error
            found = cls.variable(chunk_size, size, sizes)
        fields.finish()
        # So a request for a range is hardly larger than the chunks that contain it.
        whole = min(chunk_size, size)
        most = whole + whole // 64 + _SLACK
        stored = found.stored_size if size > chunk_size else 0
        if max(found.last_stored_size, stored) > most:
            msg = f"{fields}: chunks of {whole} bytes cannot be stored in more than "
            raise CorruptObjectError(f"{msg}{most}")
        return found

    def format(self) -> dict[str, object]:
        """Return a manifest's field ``chunkIndex``, in the order of its fields."""
        fields: dict[str, object] = {
            "type": "fixed" if self.starts is None else "variable",
            "originalChunkSize": self.chunk_size,
            "originalFileSize": self.size,
        }
        if self.starts is None:
            fields["transformedChunkSize"] = self.stored_size
            fields["finalTransformedChunkSize"] = self.last_stored_size
        else:
            fields["transformedChunks"] = encode_sizes(np.diff(self.starts))
        return fields

    @property
    def total_stored_size(self) -> int:
        """Bytes of the object that contains all chunks."""
        return self.covering(0, self.size)[1]

    @property
    def count(self) -> int:
        """Number of chunks."""
        return -(-self.size // self.chunk_size)

    @property
    def is_plain(self) -> bool:
        """Whether the stored size of every chunk is its size in the log."""
        return (
            self.starts is None
            and (self.count < 2 or self.stored_size == self.chunk_size)  # noqa: PLR2004 - else all is the last
            and self.last_stored_size == self._chunk(self.count - 1).size
        )

    def covering(self, start: int, end: int) -> tuple[int, int]:
        """Return the positions in the object of the chunks with ``[start, end)``."""
        if start == end:
            return 0, 0
        last = self._chunk((end - 1) // self.chunk_size)
        first = self._chunk(start // self.chunk_size)
        return first.stored_start, last.stored_start + last.stored_size

    def chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """Yield the chunks that contain the bytes ``[start, end)`` of the log."""
        if start < end:
            for number in range(start // self.chunk_size, -(-end // self.chunk_size)):
                yield self._chunk(number)

    def _chunk(self, number: int) -> Chunk:
        start = number * self.chunk_size
        size = min(self.chunk_size, self.size - start)
        if self.starts is not None:
            stored_start = int(self.starts[number])
            return Chunk(
                start, size, stored_start, int(self.starts[number + 1]) - stored_start
            )
        is_last = number == self.count - 1
        stored = self.last_stored_size if is_last else self.stored_size
        return Chunk(start, size, number * self.stored_size, stored)
