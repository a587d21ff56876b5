"""The bytes of a ``.kfs`` object, around a log that is read where it lies."""

from dataclasses import dataclass

from tieredfs.storage import LogSource

__all__ = ["SegmentContent"]


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """A header, a log and a footer.

    Attributes:
        header: The bytes before the log.
        log: The log.
        footer: The bytes after it.
    """

    header: bytes
    log: LogSource
    footer: bytes

    @property
    def size(self) -> int:
        """Total bytes."""
        return len(self.header) + self.log.size + len(self.footer)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``."""
        before = len(self.header)
        after = before + self.log.size
        parts = [self.header[start:end]]
        low, high = max(start, before), min(end, after)
        if low < high:
            parts.append(bytes(self.log.fetch(low - before, high - before)))
        if end > after:
            parts.append(self.footer[max(start - after, 0) : end - after])
        return b"".join(parts)
