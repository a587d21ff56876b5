"""What becomes of data that may have been lost: ``failOnDataLoss`` decides."""

import logging
from typing import Final

from tieredfs.errors import CorruptDataError

__all__ = ["report_loss"]

_log: Final = logging.getLogger("tieredfs.spark")


def report_loss(loss: str, *, fails: bool) -> None:
    """Fail, or log a warning.

    Args:
        loss: What may have been lost, a sentence without a full stop.
        fails: Whether it is an error.

    Raises:
        CorruptDataError: It is.
    """
    if fails:
        raise CorruptDataError(
            f"{loss}. Some data may have been lost; set failOnDataLoss to false to "
            "read what is there."
        )
    _log.warning("%s. Some data may have been lost.", loss)
