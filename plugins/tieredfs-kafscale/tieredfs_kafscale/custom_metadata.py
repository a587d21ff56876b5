"""What a copy returns, and a listing repeats: which log it is, and what else it has."""

import re
from dataclasses import dataclass
from typing import Final, Self

from tieredfs_kafscale.object_names import Suffix

__all__ = ["CustomMetadata"]

_TEXT = re.compile(r"([0-9a-f]{8})([tpe]*)", re.ASCII)
_LETTERS: Final = {
    "t": Suffix.TRANSACTIONS,
    "p": Suffix.PRODUCERS,
    "e": Suffix.EPOCHS,
}


@dataclass(frozen=True, slots=True)
class CustomMetadata:
    """Which of the logs that a base offset may have had it is.

    Attributes:
        checksum: CRC-32C of the log.
        sidecars: The objects beside it that KafScale does not know.
    """

    checksum: int
    sidecars: frozenset[Suffix] = frozenset()

    def encode(self) -> bytes:
        """Return at most 11 bytes."""
        kinds = "".join(key for key, kind in _LETTERS.items() if kind in self.sidecars)
        return f"{self.checksum:08x}{kinds}".encode()

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Parse it; return None for what is not, as where a broker has given none."""
        match = _TEXT.fullmatch(data.decode("ascii", "replace"))
        if match is None:
            return None
        return cls(int(match[1], 16), frozenset(_LETTERS[one] for one in match[2]))
