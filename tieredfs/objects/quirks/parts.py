"""The parts in which a large object is uploaded."""

from dataclasses import dataclass

from tieredfs.errors import TieredFSError

__all__ = ["DisturbedUploadError", "Part", "PartLimits", "UnfinishedUpload"]


class DisturbedUploadError(TieredFSError):
    """Parts of an upload were lost to another write of the object, or are refused."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Which objects are uploaded in parts, and in which.

    Attributes:
        above: Bytes from which on an object is cut; one that is not larger is one
            request.
        size: Bytes of a part, at least; whole MiB.
        most: Parts that an object may have.
        at_once: Parts that are uploaded at the same time; 1 where they have an order.
        begun: Whether the store is told of an upload before its parts. Where it is
            not, any name will do, and what is left of an upload vanishes by itself.
        listed: Whether uploads that were begun can be listed.
        whole: Bytes up to which an object can be put in one request all the same,
            which no other write can disturb.
    """

    above: int
    size: int
    most: int
    at_once: int
    begun: bool = True
    listed: bool = True
    whole: int = 5000 << 20


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
