"""Storages whose methods cannot be called as the contract has them."""

from typing import Any

from typing_extensions import override

from testing.broken.plugin import Broken
from tieredfs import SegmentMetadata, TopicIdPartition
from tieredfs import testing as rules
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["BROKEN"]


class NamesThemInItsOwnWay(SingleObject):
    """Calls a partition what Kafka calls it."""

    @override
    def list_segments(
        self, topic_id_partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(topic_id_partition, min_offset)


class TakesNoLayout(SingleObject):
    """Was written before logs could be fetched with their layout."""

    @override
    def fetch_log_segment(  # type: ignore[override]  # that is the bug
        self, metadata: SegmentMetadata, start: int = 0, end: Any = None
    ) -> memoryview:
        return super().fetch_log_segment(metadata, start, end)


class WantsEveryArgument(SingleObject):
    """Has no default where the contract has one."""

    @override
    def is_current(  # type: ignore[override]  # that is the bug
        self, metadata: SegmentMetadata, last_offset: int | None
    ) -> bool:
        return super().is_current(metadata, last_offset)


_CHECK = rules.check_methods_take_the_parameters_of_the_contract

BROKEN = (
    Broken(
        _CHECK,
        NamesThemInItsOwnWay,
        r"list_segments\(partition=partition, min_offset=min_offset\) is not possible",
    ),
    Broken(_CHECK, TakesNoLayout, r"layout=layout\) is not possible"),
    Broken(_CHECK, WantsEveryArgument, r"is_current\(metadata\) is not possible"),
)
