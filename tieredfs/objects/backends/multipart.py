"""Multipart uploads: their limits, their parts, and unfinished ones.

Which objects are uploaded in parts is ``multipart_threshold_bytes`` in
``tieredfs.options``.
"""

from dataclasses import dataclass, replace
from typing import Self

from tieredfs.errors import TieredFSError
from tieredfs.options import MAX_SINGLE_PUT_BYTES, Options

__all__ = ["DisturbedUploadError", "MultipartConfig", "Part", "UnfinishedUpload"]


class DisturbedUploadError(TieredFSError):
    """Another write of the object removed parts of an upload, or they are refused."""


@dataclass(frozen=True, slots=True)
class MultipartConfig:
    """How a large object is split into parts; what is large is an option of the store.

    Attributes:
        part_size: Minimum bytes of a part, which is rounded up to whole MiB.
        max_parts: Maximum number of parts of an object.
        concurrency: Parts uploaded concurrently; 1 where they must be in order.
        has_begin: Whether an upload is begun before its parts are sent. If not, the
            caller chooses its name, and an unfinished upload expires by itself.
        has_listing: Whether uploads that were begun can be listed.
        max_single_put: Maximum bytes of an object that can be put in one request
            instead, which no other write can disturb.
    """

    part_size: int
    max_parts: int
    concurrency: int
    has_begin: bool = True
    has_listing: bool = True
    max_single_put: int = MAX_SINGLE_PUT_BYTES

    def tuned(self, options: Options) -> Self:
        """Return the same limits, with what a user has chosen."""
        in_order = self.concurrency == 1
        return replace(
            self,
            part_size=options.part_bytes or self.part_size,
            concurrency=(not in_order and options.max_concurrent_parts)
            or self.concurrency,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an object.

    Attributes:
        number: Number of the part, from 1.
        start: Position of its first byte in the object.
        end: Position after its last byte.
        total: Bytes of the object.
    """

    number: int
    start: int
    end: int
    total: int


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was begun and not finished.

    Attributes:
        key: The key of its object, relative to the store.
        upload: The store's identifier of the upload.
    """

    key: str
    upload: str
