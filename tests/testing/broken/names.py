"""Storages that take names for a segment's which are not."""

import re
from dataclasses import replace

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import LogSegmentData, SegmentMetadata, TopicIdPartition
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["BROKEN"]


class TakesDotsForUnderscores(KafkaLocal):
    """Keeps topics in folders whose names have no dots."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        partition = metadata.partition
        plain = replace(partition, topic=partition.topic.replace(".", "_"))
        return super().copy_log_segment(replace(metadata, partition=plain), data)


class SkipsWhatComesFirst(Native):
    """Takes names that begin with no letter for folders of its own."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions(topic)
        return [one for one in found if one.topic[0].isalpha()]


class SortsNumbersAsText(Native):
    """Lists partition 10 before partition 2."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions(topic)
        return sorted(found, key=lambda one: (one.topic, str(one.partition)))


class FindsWhatBeginsWithIt(SingleObject):
    """Takes the topic ``a.b`` for one of those that are named ``a``."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions()
        return [p for p in found if topic in {None, p.topic, p.topic.split(".")[0]}]


class TakesTopicsForPatterns(SingleObject):
    """Takes the name of a topic for a regular expression."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions()
        return [p for p in found if topic is None or re.fullmatch(topic, p.topic)]


class LooksForLeftoversAnywhere(KafkaLocal):
    """Does not look at the topic whose leftovers it is asked for."""

    @override
    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().leftover_partitions()


class IsOneForAll(Native):
    """Has one identity, whichever store it is over."""

    @property
    @override
    def identity(self) -> str:
        return "native"


class ForgetsItsUrl(SingleObject):
    """Names a segment without saying where it is."""

    @override
    def name_of(self, metadata: SegmentMetadata) -> str:
        return str(metadata)


class NamesWhatItKnows(SingleObject):
    """Names only segments that it was told of completely."""

    @override
    def name_of(self, metadata: SegmentMetadata) -> str:
        if metadata.end_offset is None:
            raise AssertionError
        return super().name_of(metadata)


class FindsTwoDigits(Native):
    """Finds partitions whose numbers have up to two digits."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions(topic)
        return [partition for partition in found if partition.partition < 100]


BROKEN = (
    Broken(
        rules.check_name_of_a_segment_has_the_url, ForgetsItsUrl, "without memory://"
    ),
    Broken(
        rules.check_name_of_a_segment_has_the_url,
        NamesWhatItKnows,
        r"A call raised AssertionError\(\)",
    ),
    Broken(rules.check_names_stay_apart, TakesDotsForUnderscores, "It listed"),
    Broken(rules.check_names_stay_apart, SortsNumbersAsText, "It listed"),
    Broken(rules.check_names_stay_apart, SkipsWhatComesFirst, "It listed"),
    Broken(
        rules.check_names_stay_apart,
        FindsWhatBeginsWithIt,
        r"list_partitions\('a'\) returned",
    ),
    Broken(
        rules.check_names_stay_apart,
        TakesTopicsForPatterns,
        r"list_partitions\('.a'\) returned",
    ),
    Broken(
        rules.check_names_stay_apart,
        LooksForLeftoversAnywhere,
        r"leftover_partitions\('.*'\) returned",
    ),
    Broken(
        rules.check_identity_tells_stores_apart, IsOneForAll, "Over two stores it is"
    ),
    Broken(rules.check_names_stay_apart, FindsTwoDigits, "2147483647"),
)
