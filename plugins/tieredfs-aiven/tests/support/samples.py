"""What the plugin wrote, and what it answered when it was asked to read it back."""

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from tieredfs import ObjectStore, SegmentId, SegmentMetadata, TopicIdPartition, Uuid
from tieredfs_aiven import Aiven

__all__ = [
    "DATA",
    "KEYS",
    "Sample",
    "config_of",
    "digest",
    "fault_cases",
    "fill",
    "listed",
    "new_store",
    "prefix_of",
    "sample",
    "samples",
]

DATA = Path(__file__).parents[1] / "data"
"""A part of the samples: enough for every rule."""

KEYS: Mapping[str, str | Path] = {"k1": DATA / "keys" / "TEST-KEY-k1.private.der"}
"""The private key of all samples, which protects nothing."""


@dataclass(frozen=True)
class Sample:
    """One segment.

    Attributes:
        folder: Of its variant.
        expected: What the plugin answered.
    """

    folder: Path
    expected: Mapping[str, Any]

    def __str__(self) -> str:
        """Name it in the names of tests."""
        place = f"{self.folder.parent.name}/{self.folder.name}/{self.expected['step']}"
        return f"{place}/{self.expected['name']}"

    @property
    def metadata(self) -> SegmentMetadata:
        """The segment as a listing has it, with the custom metadata of its copy."""
        told = self.expected["metadata"]
        custom = base64.b64decode(self.expected["custom_metadata_base64"] or "")
        return SegmentMetadata(
            TopicIdPartition(told["topic"], told["partition"], Uuid(told["topicId"])),
            SegmentId(told["segmentId"]),
            told["startOffset"],
            custom_metadata=custom,
        )

    @property
    def objects(self) -> dict[str, bytes]:
        """The content of its objects by their suffixes."""
        return {
            key.rpartition(".")[2]: (self.folder / "objects" / key).read_bytes()
            for key in self.keys
        }

    @property
    def keys(self) -> list[str]:
        """The keys of its objects."""
        return [entry["key"] for entry in self.expected["objects"]]

    @property
    def stem(self) -> str:
        """What its keys share."""
        return self.keys[0].rpartition(".")[0]

    def open(self, store: ObjectStore | None = None) -> Aiven:
        """Open the store that it lies in, or another one, as its writer was set."""
        place = store or ObjectStore(str(self.folder / "objects"))
        prefix = prefix_of(self)
        return Aiven(place, key_prefix=prefix, encryption_keys=KEYS)


def samples() -> list[Sample]:
    """Return every sample that is here, and all of them where they are all there."""
    whole = os.environ.get("TIEREDFS_AIVEN_SAMPLES")
    places = [Path(whole)] if whole else []
    places += [parent / "shared" / "data" / "aiven" for parent in DATA.parents]
    there = (place.resolve() for place in places if place.is_dir())
    found = [DATA, *dict.fromkeys(there)]  # one place may have several names
    return [
        Sample(file.parent, expected)
        for place in found
        for file in sorted(place.glob("*/expected.json"))
        for expected in json.loads(file.read_text())["segments"]
    ]


@cache
def sample(variant: str, name: str) -> Sample:
    """Return one of the samples that are here."""
    folder = DATA / variant
    for expected in json.loads((folder / "expected.json").read_text())["segments"]:
        if expected["name"] == name:
            return Sample(folder, expected)
    raise LookupError(name)


def config_of(one: Sample) -> Mapping[str, str]:
    """Return the settings that a sample was written with."""
    steps = json.loads((one.folder / "config.json").read_text())["steps"]
    return cast("Mapping[str, str]", steps[one.expected["step"]]["config"])


def prefix_of(one: Sample) -> str:
    """Return the prefix that a sample was written with."""
    return config_of(one).get("key.prefix", "")


def fault_cases(variant: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what the plugin answered for damaged objects of the segment ``txn``."""
    text = (DATA / "faults" / f"{variant}.json").read_text()
    return cast("Mapping[str, Mapping[str, Any]]", json.loads(text))


def listed(storage: Aiven, one: Sample) -> SegmentMetadata:
    """Return a sample as its storage lists it."""
    found = storage.list_segments(one.metadata.partition)
    return next(segment for segment in found if segment.id == one.metadata.id)


def new_store() -> ObjectStore:
    """Return an empty store in memory."""
    return ObjectStore(f"memory://{uuid.uuid4().hex}/root")


def digest(data: memoryview | bytes) -> dict[str, object]:
    """Return what the files of answers have of bytes."""
    return {"length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def fill(store: ObjectStore, objects: Mapping[str, bytes]) -> None:
    """Put objects into a store."""
    for key, content in objects.items():
        store.put(key, content, overwrite=True)
