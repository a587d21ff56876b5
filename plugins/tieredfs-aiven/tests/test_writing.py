"""What is written is read back, and what cannot be written is refused."""

import itertools
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from Crypto.PublicKey import RSA
from hypothesis import given
from hypothesis import strategies as st

from support.samples import DATA, KEYS, listed, new_store, sample
from tieredfs import (
    AlreadyExistsError,
    CorruptIndexError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    ObjectStore,
    UnsupportedOperationError,
    open_storage,
    open_tier,
)
from tieredfs.storage import LogSource, open_log
from tieredfs.testing.samples import PARTITIONS, Sample, all_samples
from tieredfs.testing.samples import sample as made
from tieredfs.testing.stores import InterceptedStore
from tieredfs_aiven import Aiven
from tieredfs_aiven.encryption import KeyRing
from tieredfs_aiven.segment_encoder import (
    MAX_CHUNK_SIZE,
    EncodedSegment,
    SegmentEncoder,
)

ONE = made(PARTITIONS[0], 1)
PUBLIC = DATA / "keys" / "TEST-KEY-k1.public.pem"
ENCRYPTED: Mapping[str, Any] = {"encryption_keys": KEYS, "encryption_key_id": "k1"}


def fake_random(size: int, counter: "itertools.count[int]") -> bytes:
    return b"".join(next(counter).to_bytes(4, "big") for _ in range(size // 4 + 1))[
        :size
    ]


_T = TypeVar("_T")


class NoExclusiveCreate(InterceptedStore):
    """A store that cannot create exclusively."""

    @classmethod
    def over(cls, store: ObjectStore) -> "NoExclusiveCreate":
        return cls._onto(store)

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        if not overwrite:
            raise UnsupportedOperationError(f"exclusive put {key}")
        super().put(key, data, overwrite=True)

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        del verb, keys
        return execute()


@given(
    one=st.sampled_from(all_samples()),
    chunk_size=st.integers(1, 3000) | st.just(MAX_CHUNK_SIZE),
    compression=st.sampled_from([None, "zstd"]),
    encryption=st.sampled_from([{}, ENCRYPTED]),
    prefix=st.sampled_from(["", "tiered/", "a-b"]),
    data=st.data(),
)
def test_any_log_in_chunks_of_any_size_is_read_back(
    one: Sample,
    chunk_size: int,
    compression: str | None,
    encryption: Mapping[str, Any],
    prefix: str,
    data: st.DataObject,
) -> None:
    store = new_store()
    storage = Aiven(
        store,
        key_prefix=prefix,
        chunk_size=chunk_size,
        compression=compression,
        **encryption,
    )
    custom, known = storage.copy_with_indexes(one.metadata, one.data)
    assert custom == b""
    assert known is not None
    reader = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
    assert known == reader.fetch_all_indexes(one.metadata)
    assert dict(known) == dict(one.data.indexes)
    assert b"".join(reader.stream_log(one.metadata)) == one.log
    start = data.draw(st.integers(0, len(one.log)))
    end = data.draw(st.integers(start, len(one.log)))
    found = reader.fetch_log_segment(one.metadata, start, end)
    assert found == one.log[start:end]
    found = reader.fetch_log_segment(one.metadata, start, end, layout=known.layout)
    assert found == one.log[start:end]
    (segment,) = reader.list_segments(one.metadata.partition)
    described = reader.describe(segment)
    assert described == replace(one.described, index_sizes=described.index_sizes)


def test_a_tier_is_written_and_read_by_its_url(tmp_path: Path) -> None:
    url = f"aiven+{tmp_path}"
    storage = open_storage(ObjectStore(str(tmp_path)), "aiven", {"compression": "zstd"})
    for one in all_samples():
        storage.copy_log_segment(one.metadata, one.data)
    assert open_tier(url).topics() == ["orders", "orders-1"]
    assert open_tier(str(tmp_path)).topic("orders").end_offsets() == {0: 60, 1: 20}


class TestEncryption:
    def test_a_public_key_suffices_to_write(self, memory: ObjectStore) -> None:
        writer = Aiven(memory, encryption_keys={"k1": PUBLIC}, encryption_key_id="k1")
        writer.copy_log_segment(ONE.metadata, ONE.data)
        reader = Aiven(memory, encryption_keys=KEYS)
        assert reader.fetch_log_segment(ONE.metadata) == ONE.log

    def test_each_segment_has_a_key_and_each_chunk_an_iv_of_its_own(self) -> None:
        counter = itertools.count()
        encoder = SegmentEncoder(
            KeyRing(KEYS),
            100,
            key_id="k1",
            random_bytes=lambda size: fake_random(size, counter),
            now_ms=lambda: 7,
        )
        whole: list[EncodedSegment] = []
        ivs: list[bytes] = []
        for _ in range(2):
            with (
                open_log(ONE.data.log, "a log") as log,
                encoder.encode(ONE.metadata, log, ONE.data.indexes) as found,
            ):
                assert isinstance(found.log, bytes)
                assert b'"eventTimestampMs":7,' in found.manifest
                whole.append(found)
                ivs += [found.log[at : at + 12] for at in (0, 128)]
        first, second = (one.layout.wrapped_key for one in whole)
        assert first is not None
        assert second is not None
        assert first.aad != second.aad
        ring = KeyRing(KEYS)
        assert ring.unwrap(first, "").key != ring.unwrap(second, "").key
        ivs += [one.indexes[:12] for one in whole]
        assert len(set(ivs)) == len(ivs)

    def test_nothing_of_the_key_is_shown(self) -> None:
        pem = RSA.import_key(Path(KEYS["k1"]).read_bytes()).export_key().decode()
        keys = {"k1": pem}
        storage = Aiven(new_store(), encryption_keys=keys, encryption_key_id="k1")
        shown = repr(storage) + repr(vars(storage))
        assert not any(line in shown for line in pem.splitlines())
        again = pickle.loads(pickle.dumps(storage))  # noqa: S301 - it is our own
        again.copy_log_segment(ONE.metadata, ONE.data)
        assert storage.fetch_log_segment(ONE.metadata) == ONE.log


class TestAnotherCopy:
    @pytest.mark.parametrize("one_mode", [{}, {"compression": "zstd"}, ENCRYPTED])
    @pytest.mark.parametrize("other_mode", [{}, {"compression": "zstd"}, ENCRYPTED])
    def test_under_other_options_changes_nothing(
        self,
        memory: ObjectStore,
        one_mode: Mapping[str, Any],
        other_mode: Mapping[str, Any],
    ) -> None:
        fields = ["REMOTE_SIZE"]
        first = Aiven(memory, chunk_size=100, custom_metadata=fields, **one_mode)
        custom = first.copy_log_segment(ONE.metadata, ONE.data)
        before = {entry.key: memory.get(entry.key) for entry in memory.list()}
        options = {"encryption_keys": KEYS, **other_mode}  # which verify the first one
        other = Aiven(memory, chunk_size=200, custom_metadata=fields, **options)
        assert other.copy_log_segment(ONE.metadata, ONE.data) == custom
        assert {e.key: memory.get(e.key) for e in memory.list()} == before

    @pytest.mark.parametrize("mode", [{}, {"compression": "zstd"}, ENCRYPTED])
    @pytest.mark.parametrize("suffix", ["log", "indexes"])
    def test_completes_a_segment_that_lost_an_object(
        self, memory: ObjectStore, mode: Mapping[str, Any], suffix: str
    ) -> None:
        Aiven(memory, chunk_size=100, **mode).copy_log_segment(ONE.metadata, ONE.data)
        memory.delete(e.key for e in memory.list() if e.key.endswith(f".{suffix}"))
        again = Aiven(memory, chunk_size=200, **mode)
        again.copy_log_segment(ONE.metadata, ONE.data)
        reader = Aiven(memory, encryption_keys=KEYS)
        assert reader.fetch_log_segment(ONE.metadata) == ONE.log
        assert dict(reader.fetch_all_indexes(ONE.metadata)) == dict(ONE.data.indexes)

    def test_of_another_log_under_the_same_id_is_an_error(
        self, memory: ObjectStore
    ) -> None:
        storage = Aiven(memory, **ENCRYPTED)
        storage.copy_log_segment(ONE.metadata, ONE.data)
        other = made(PARTITIONS[0], 2)
        joined = bytes(ONE.log) + bytes(other.log)
        longer = replace(ONE.metadata, end_offset=other.metadata.end_offset)
        with pytest.raises(AlreadyExistsError, match="exists with another log"):
            storage.copy_log_segment(
                longer,
                LogSegmentData(
                    joined,
                    {IndexType.TRANSACTION: ONE.data.indexes[IndexType.TRANSACTION]},
                ),
            )
        assert storage.fetch_log_segment(ONE.metadata) == ONE.log

    def test_overwrites_where_a_store_cannot_create_exclusively(
        self, memory: ObjectStore
    ) -> None:
        storage = Aiven(NoExclusiveCreate.over(memory), key_prefix="", **ENCRYPTED)
        for left in ("log", "indexes", "rsm-manifest", ""):
            storage.copy_log_segment(ONE.metadata, ONE.data)
            before = {e.key: memory.get(e.key) for e in memory.list()}
            storage.copy_log_segment(ONE.metadata, ONE.data)
            assert {e.key: memory.get(e.key) for e in memory.list()} == before
            assert storage.fetch_log_segment(ONE.metadata) == ONE.log
            memory.delete(k for k in before if not k.endswith(f".{left}"))


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"chunk_size": 0}, "chunk_size must be 1 to 1073741823"),
            ({"chunk_size": 1 << 30}, "chunk_size must be"),
            ({"chunk_size": True}, "chunk_size must be"),
            ({"compression": "gzip"}, "invalid compression 'gzip': give 'zstd'"),
            ({"encryption_key_id": "k1"}, "no key 'k1'; encryption_keys has: none"),
            ({"custom_metadata": "REMOTE_SIZE"}, "custom_metadata must be a list"),
            ({"custom_metadata": ["SIZE"]}, "REMOTE_SIZE, OBJECT_PREFIX, OBJECT_KEY"),
            ({"custom_metadata": 5}, "custom_metadata must be a list"),
        ],
    )
    def test_a_wrong_option_is_named(
        self, memory: ObjectStore, options: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=said):
            Aiven(memory, **options)

    def test_a_key_that_cannot_wrap_is_named(self, memory: ObjectStore) -> None:
        small = RSA.generate(1024).export_key().decode()  # noqa: S505 - it is refused
        with pytest.raises(InvalidArgumentError, match="'k2' has 1024 bits"):
            Aiven(memory, encryption_keys={"k2": small}, encryption_key_id="k2")
        with pytest.raises(InvalidArgumentError, match="contains a colon"):
            Aiven(memory, encryption_keys={"a:b": PUBLIC}, encryption_key_id="a:b")

    def test_a_compacted_log_is_refused_and_nothing_stored(
        self, memory: ObjectStore
    ) -> None:
        longer = replace(ONE.metadata, end_offset=100)
        with pytest.raises(UnsupportedOperationError, match="its log is compacted"):
            Aiven(memory).copy_log_segment(longer, ONE.data)
        assert not list(memory.list())

    def test_an_index_of_another_log_is_refused_and_nothing_stored(
        self, memory: ObjectStore
    ) -> None:
        indexes = {**ONE.data.indexes, IndexType.OFFSET: b"\0\0\0\1\0\0\0\1"}
        with pytest.raises(CorruptIndexError, match="OFFSET index"):
            Aiven(memory).copy_log_segment(
                ONE.metadata, replace(ONE.data, indexes=indexes)
            )
        assert not list(memory.list())

    @pytest.mark.parametrize(
        ("size", "chunk_size", "options"),
        [
            (1 << 31, 4 << 20, {}),
            ((1 << 31) - 1, 4 << 20, {}),  # the end of its last chunk is 2^31
            ((1 << 31) - 101, 100, ENCRYPTED),
            (3_000_000, 1, {"compression": "zstd"}),
        ],
    )
    def test_a_log_that_the_plugin_could_not_address_is_refused(
        self,
        memory: ObjectStore,
        size: int,
        chunk_size: int,
        options: Mapping[str, Any],
    ) -> None:
        def unread(start: int, end: int) -> memoryview:
            raise AssertionError(f"[{start}, {end}) was read")

        storage = Aiven(memory, chunk_size=chunk_size, **options)
        log = LogSource(size, "a log", unread, is_steady=True)
        with pytest.raises(UnsupportedOperationError, match=f"of {size} bytes"):
            storage.copy_open_log(ONE.metadata, log, {})

    def test_too_long_custom_metadata_are_refused_and_nothing_stored(
        self, memory: ObjectStore
    ) -> None:
        fields = ["OBJECT_PREFIX", "OBJECT_KEY"]
        storage = Aiven(memory, key_prefix="p" * 60 + "/", custom_metadata=fields)
        with pytest.raises(UnsupportedOperationError, match="the limit is 128"):
            storage.copy_log_segment(ONE.metadata, ONE.data)
        assert not list(memory.list())


def test_custom_metadata_are_those_that_the_plugin_would_return(
    memory: ObjectStore,
) -> None:
    one = sample("zstd-encrypted", "onebatch")
    source = one.open()
    segment = source.describe(listed(source, one))
    indexes = source.fetch_all_indexes(segment)
    storage = Aiven(
        memory, key_prefix="a/", custom_metadata=["OBJECT_KEY", "REMOTE_SIZE"]
    )
    data = LogSegmentData(
        source.fetch_log_segment(segment), {k: bytes(v) for k, v in indexes.items()}
    )
    custom = storage.copy_log_segment(segment, data)
    size = sum(entry.size or 0 for entry in memory.list())
    key = one.stem.removeprefix("cluster-1/").encode()
    varint = bytes([size << 1 & 0x7F | 0x80, size >> 6])
    assert custom == (
        b"\x02\x00\x02" + varint + b"\x02" + bytes([len(key) + 1, len(key) + 1]) + key
    )
