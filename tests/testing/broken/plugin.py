"""A broken plugin, and the rule that has to find it."""

from dataclasses import dataclass

from typing_extensions import override

from tieredfs import LogSegmentData, ObjectStore, SegmentMetadata
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import open_log
from tieredfs.testing import Check, MakeStorage

__all__ = ["Broken", "Native", "PushesInItsOwnWay"]


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin with one bug.

    Attributes:
        check: The rule that names the bug.
        make: Makes the plugin's storage.
        said: Part of the sentence that says what is wrong.
        bug: What authors of plugins get wrong most, where it is one of that; each is
            found by the command, too.
    """

    check: Check
    make: MakeStorage
    said: str
    bug: str = ""

    def __str__(self) -> str:
        """Name it in the list of tests."""
        return f"{self.check.__name__}-{getattr(self.make, '__qualname__', '')}"


class Native(StorageWrapper):
    """The native layout, to be broken."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(SingleObject(store))


class PushesInItsOwnWay(KafkaLocal):
    """Copies an open log in another way than what a broker gives it."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with open_log(data.log, str(metadata)) as log:
            return super().copy_open_log(metadata, log, data.indexes)
