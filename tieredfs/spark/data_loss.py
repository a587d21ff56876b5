"""Report data that may have been lost: ``failOnDataLoss`` makes it an error."""

import logging
from typing import Final

from tieredfs.errors import CorruptDataError

__all__ = ["report_loss"]

_log: Final = logging.getLogger("tieredfs.spark")


def report_loss(loss: str, *, fails: bool) -> None:
    """Report that data may have been lost: raise an error, or log a warning.

    Args:
        loss: What may have been lost, a sentence without a full stop.
        fails: Whether to raise an error, as ``failOnDataLoss`` asks.

    Raises:
        CorruptDataError: ``fails`` is true.
    """
    if fails:
        raise CorruptDataError(
            f"{loss}. Some data may have been lost; set failOnDataLoss to false to "
            "read what is there."
        )
    _log.warning("%s. Some data may have been lost.", loss)
