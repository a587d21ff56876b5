"""Plugins that take foreign objects for their own, or stumble over them."""

from collections.abc import Collection
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    CorruptDataError,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["BROKEN"]


class FearsStrangers(Native):
    """Stumbles over an object of another program."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        if any(not entry.key.endswith(".segment") for entry in self.store.list()):
            raise CorruptDataError("what is this?")
        return super().list_partitions(topic)


class ClaimsEverything(SingleObject):
    """Recognises every store as its own."""

    @classmethod
    @override
    def recognises(cls, keys: Collection[str]) -> float:
        return 1.0


class KnowsItsOwnOnlyAlone(SingleObject):
    """Does not recognise its keys where there are others."""

    @classmethod
    @override
    def recognises(cls, keys: Collection[str]) -> float:
        return super().recognises(keys) // 1


class ClaimsTooMuch(SingleObject):
    """Answers in percent."""

    @classmethod
    @override
    def recognises(cls, keys: Collection[str]) -> float:
        return 100.0 * super().recognises(keys)


class TrustsEveryId(Native):
    """Takes 22 characters for an id, as a pattern alone does."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        for entry in self.store.list():
            if entry.key.endswith(".segment"):
                Uuid(entry.key.split("/")[1])
        return super().list_partitions(topic)


class ListsTemporaryFiles(KafkaLocal):
    """Finds a segment in a file that begins as one, such as a copy in progress."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        self.suffixes = {e.key.partition(".")[2] for e in self.store.list()}
        return super().list_partitions(topic)

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return found * 2 if "log.tmp" in self.suffixes else found


class EndsAtAStranger(SingleObject):
    """Takes the first foreign folder for the end of what is its own."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        for entry in self.store.list(delimiter="/"):
            if not entry.key[:1].isalnum():
                return []
        return super().list_partitions(topic)


class KnowsNothing(SingleObject):
    """Compares keys with what they are below another folder."""

    @override
    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        return super().recognises([f"data/{key}" for key in keys])


class LooksAtTheFirstKey(SingleObject):
    """Takes the keys of a store for a list."""

    @override
    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        return super().recognises([*keys[:1]]) if keys else 0.0  # type: ignore[index] # that is the bug


BROKEN: Final = (
    Broken(rules.check_foreign_objects_are_skipped, FearsStrangers, "what is this"),
    Broken(rules.check_foreign_objects_are_skipped, EndsAtAStranger, r"it listed \[\]"),
    Broken(rules.check_recogniser_knows_its_own, ClaimsEverything, r"For \[\]"),
    Broken(rules.check_recogniser_knows_its_own, ClaimsTooMuch, "answered 100"),
    Broken(
        rules.check_recogniser_knows_its_own,
        KnowsItsOwnOnlyAlone,
        "others it answered 0",
    ),
    Broken(
        rules.check_malformed_names_are_skipped,
        TrustsEveryId,
        "a malformed topic id, a call raised InvalidArgumentError",
    ),
    Broken(
        rules.check_malformed_names_are_skipped,
        ListsTemporaryFiles,
        r"log\.tmp, a suffix too many, it listed",
    ),
    Broken(
        rules.check_recogniser_knows_its_own, LooksAtTheFirstKey, "not subscriptable"
    ),
    Broken(rules.check_recogniser_knows_its_own, KnowsNothing, "own keys it answered"),
)
