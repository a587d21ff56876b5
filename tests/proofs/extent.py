"""How much of a proof is run: all of it by `tox -e proofs`, otherwise a sample."""

import os
from typing import Final

__all__ = ["WHOLE", "extent"]

WHOLE: Final = os.environ.get("HYPOTHESIS_PROFILE") == "proofs"
"""Whether this is the proof itself, not a sample of it."""


def extent(whole: int, sample: int) -> int:
    """Choose between the number of the proof and that of its sample."""
    return whole if WHOLE else sample
