"""What is written of a sample's log and indexes equals what the plugin wrote of them.

Ids of brokers apart, where no broker copies; and of encrypted samples, keys, IVs and
ciphertexts, which are random: decrypted with the sample's private key they are equal.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from support.samples import DATA, KEYS, Sample, config_of, new_store, samples
from tieredfs import IndexType, LogSegmentData, ObjectStore, SegmentMetadata
from tieredfs.storage import Inspection, LogSource, inspect_copy
from tieredfs_aiven import Aiven, segment_encoder
from tieredfs_aiven.encryption import KeyRing
from tieredfs_aiven.manifest import parse_manifest

PUBLIC_KEY = {"k1": DATA / "keys" / "TEST-KEY-k1.public.pem"}


@pytest.fixture(autouse=True)
def _accept_made_up_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept snapshots that their log contradicts, as the plugin copies any bytes.

    That of the synthetic segment ``txn`` was not made by a broker.
    """

    def inspect(
        log: LogSource,
        write: Callable[[memoryview], object],
        metadata: SegmentMetadata,
        indexes: Mapping[IndexType, bytes],
    ) -> Inspection:
        kinds = indexes.keys() - {IndexType.PRODUCER_SNAPSHOT}
        others = {kind: indexes[kind] for kind in kinds}
        return inspect_copy(log, write, metadata, others)

    monkeypatch.setattr(segment_encoder, "inspect_copy", inspect)


def is_encrypted(one: Sample) -> bool:
    return config_of(one).get("encryption.enabled") == "true"


def options_of(one: Sample) -> dict[str, Any]:
    """Return our options for the settings that a sample was written with."""
    config = config_of(one)
    return {
        "key_prefix": config.get("key.prefix", ""),
        "chunk_size": int(config["chunk.size"]),
        "compression": "zstd" if config.get("compression.enabled") == "true" else None,
        "encryption_key_id": config.get("encryption.key.pair.id"),
        "encryption_keys": PUBLIC_KEY if is_encrypted(one) else None,
    }


def given(one: Sample) -> tuple[SegmentMetadata, LogSegmentData]:
    """Return a sample as its broker handed it over."""
    storage = one.open()
    segment = storage.describe(one.metadata)
    found = storage.fetch_all_indexes(one.metadata)
    indexes = {kind: bytes(found[kind]) for kind in found}
    return segment, LogSegmentData(storage.fetch_log_segment(segment), indexes)


def write(one: Sample) -> ObjectStore:
    """Copy a sample to a new store."""
    store = new_store()
    Aiven(store, **options_of(one)).copy_log_segment(*given(one))
    return store


def written(store: ObjectStore, one: Sample) -> dict[str, bytes]:
    keys = [entry.key for entry in store.list()]
    assert keys == sorted(one.keys)
    return {key.rpartition(".")[2]: bytes(store.get(key)) for key in keys}


def as_if_by_the_same_broker(text: bytes, one: Sample) -> bytes:
    """Return a manifest with the broker, the time and the release of a sample's."""
    fields = json.loads(text)
    facts = fields["remoteLogSegmentMetadata"]
    theirs = json.loads(one.objects["rsm-manifest"])["remoteLogSegmentMetadata"]
    assert facts["brokerId"] == -1
    assert facts["txnIdxEmpty"] is theirs.get("txnIdxEmpty", facts["txnIdxEmpty"])
    if "txnIdxEmpty" not in theirs:  # of Kafka 3
        del facts["txnIdxEmpty"]
    facts |= {name: theirs[name] for name in ("brokerId", "eventTimestampMs")}
    return json.dumps(fields, separators=(",", ":")).encode()


def samples_that(are_encrypted: bool) -> pytest.MarkDecorator:
    those = [one for one in samples() if is_encrypted(one) is are_encrypted]
    return pytest.mark.parametrize("one", those, ids=str)


@samples_that(are_encrypted=False)
def test_what_is_not_encrypted_is_written_as_the_plugin_wrote_it(one: Sample) -> None:
    found = written(write(one), one)
    found["rsm-manifest"] = as_if_by_the_same_broker(found["rsm-manifest"], one)
    assert found == one.objects


@samples_that(are_encrypted=True)
def test_a_manifest_of_what_is_encrypted_differs_in_its_key_only(one: Sample) -> None:
    text = as_if_by_the_same_broker(written(write(one), one)["rsm-manifest"], one)
    theirs = one.objects["rsm-manifest"]
    assert len(text) == len(theirs)
    assert without_key(text) == without_key(theirs)


@samples_that(are_encrypted=True)
def test_what_is_encrypted_decrypts_to_what_the_plugins_decrypts_to(
    one: Sample,
) -> None:
    store = write(one)
    found = written(store, one)
    for suffix in ("log", "indexes"):
        assert len(found[suffix]) == len(one.objects[suffix])
    assert plaintexts(found) == plaintexts(one.objects)
    segment, data = given(one)
    storage = one.open(store)
    assert storage.fetch_log_segment(one.metadata) == data.log
    assert dict(storage.fetch_all_indexes(one.metadata)) == dict(data.indexes)
    assert storage.describe(one.metadata) == segment


def without_key(manifest: bytes) -> bytes:
    return re.sub(rb'("dataKey":"k1:|"aad":")[^"]+', rb"\1", manifest)


def plaintexts(objects: Mapping[str, bytes]) -> list[bytes]:
    """Return the chunks of a log, still compressed, and its indexes, decrypted."""
    manifest = parse_manifest(objects["rsm-manifest"], "a manifest")
    assert manifest.wrapped_key is not None
    key = KeyRing(KEYS).unwrap(manifest.wrapped_key, "a manifest")
    log, indexes = memoryview(objects["log"]), memoryview(objects["indexes"])
    places = [
        log[chunk.stored_start : chunk.stored_start + chunk.stored_size]
        for chunk in manifest.chunks.chunks(0, manifest.chunks.size)
    ]
    places += [indexes[p.start : p.end] for p in manifest.indexes.values() if len(p)]
    return [bytes(key.decrypt(place)) for place in places]
