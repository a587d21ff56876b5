"""The parts in which a large object is uploaded."""

from dataclasses import dataclass

from tieredfs.errors import TieredFSError

__all__ = ["DisturbedUploadError", "MultipartConfig", "Part", "UnfinishedUpload"]


class DisturbedUploadError(TieredFSError):
    """Parts of an upload were lost to another write of the object, or are refused."""


@dataclass(frozen=True, slots=True)
class MultipartConfig:
    """Which objects are uploaded in parts, and in which.

    Attributes:
        threshold: Bytes from which on an object is cut; one that is not larger is one
            request.
        part_size: Bytes of a part, at least; whole MiB.
        max_parts: Parts that an object may have.
        concurrency: Parts uploaded at the same time; 1 where they have an order.
        has_begin: Whether an upload is begun before its parts are sent. Where it is
            not, any name will do, and what is left of an upload vanishes by itself.
        has_listing: Whether uploads that were begun can be listed.
        max_single_put: Bytes up to which an object can be put in one request
            instead, which no other write can disturb.
    """

    threshold: int
    part_size: int
    max_parts: int
    concurrency: int
    has_begin: bool = True
    has_listing: bool = True
    max_single_put: int = 5000 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an object.

    Attributes:
        number: From 1 on.
        start: First byte of it in the object.
        end: Byte after its last.
        total: Bytes of the object.
    """

    number: int
    start: int
    end: int
    total: int


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was begun.

    Attributes:
        key: What it was to become, relative to the store.
        upload: The store's name of it.
    """

    key: str
    upload: str
