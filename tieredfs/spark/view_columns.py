"""The views of a tier, and their columns."""

from collections.abc import Mapping
from typing import Final

__all__ = ["VIEWS"]

_PARTITION: Final = {"topic": "string", "topic_id": "string", "partition": "int"}
_SEGMENT: Final = {
    **_PARTITION,
    "start_offset": "bigint",
    "end_offset": "bigint",
    "id": "string",
}
VIEWS: Final[Mapping[str, Mapping[str, str]]] = {
    "segments": {
        **_SEGMENT,
        "max_timestamp": "timestamp",
        "bytes": "bigint",
        "stored_bytes": "bigint",
    },
    "offsets": {
        **_PARTITION,
        "start_offset": "bigint",
        "end_offset": "bigint",
        "stable_offset": "bigint",
        "segments": "bigint",
        "bytes": "bigint",
    },
    "transactions": {
        **_PARTITION,
        "producer_id": "bigint",
        "first_offset": "bigint",
        "last_offset": "bigint",
        "state": "string",
    },
    "verify": {**_SEGMENT, "bytes": "bigint", "error": "string", "detail": "string"},
}
"""The columns of each view with Spark's types; ends of offsets are exclusive."""
