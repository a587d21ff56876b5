"""What is found in a store, and what is not taken for a segment."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from support.samples import fill, new_store, prefix_of, sample, samples
from support.written_segments import Written
from tieredfs import (
    CorruptObjectError,
    EpochEntry,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    SegmentMetadata,
    TieredFSWarning,
    TopicIdPartition,
    UnsupportedFormatError,
    open_tier,
)
from tieredfs.cli import main
from tieredfs.testing.stores import InterceptedStore
from tieredfs_aiven import Aiven, key_prefix

_T = TypeVar("_T")

SEGMENT = Written(b"0123456789" * 30)
OTHER = SEGMENT.with_(number=2, start_offset=10, end_offset=14, log=b"abc")


class _Denying(InterceptedStore):
    """Denies what is in the first topic's folder."""

    folder = "tiered-nowhere"

    @classmethod
    def over(cls, store: ObjectStore) -> "_Denying":
        return cls._onto(store)

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if keys[0].startswith(self.folder):
            raise PermissionDeniedError(f"{verb} {keys[0]}")
        return execute()


def stored(*segments: Written) -> ObjectStore:
    store = new_store()
    for segment in segments:
        fill(store, segment.objects())
    return store


def found(storage: Aiven) -> list[str]:
    return [
        f"{partition}@{segment.start_offset}"
        for partition in storage.list_partitions()
        for segment in storage.list_segments(partition)
    ]


def test_a_listing_says_where_segments_begin_and_no_more() -> None:
    storage = Aiven(stored(OTHER, SEGMENT))
    (partition,) = storage.list_partitions()
    assert storage.list_segments(partition) == [SEGMENT.metadata, OTHER.metadata]
    assert storage.list_segments(partition, 12) == [SEGMENT.metadata, OTHER.metadata]


def test_a_description_has_every_field_and_the_whole_lineage() -> None:
    segment = Aiven(stored(SEGMENT)).describe(SEGMENT.metadata)
    assert (segment.end_offset, segment.size) == (9, 300)
    assert segment.max_timestamp_ms == 1700000000000
    assert segment.leader_epochs == (EpochEntry(0, 0), EpochEntry(3, 7))


def test_what_was_described_is_not_asked_for_again(memory: ObjectStore) -> None:
    segment = Aiven(stored(SEGMENT)).describe(SEGMENT.metadata)
    assert Aiven(memory).describe(segment) is segment


def test_epochs_that_begin_behind_the_segment_are_left_out() -> None:
    early = SEGMENT.with_(end_offset=6)
    assert Aiven(stored(early)).describe(early.metadata).leader_epochs == (
        EpochEntry(0, 0),
    )


def test_a_missing_partition_is_not_found() -> None:
    storage = Aiven(stored(SEGMENT))
    with pytest.raises(NotFoundError, match="payments-3"):
        storage.list_segments(TopicIdPartition("payments", 3))
    assert Aiven(new_store()).list_partitions() == []


@pytest.mark.parametrize("lost", ["log", "indexes"])
def test_a_segment_with_a_missing_object_is_not_listed_and_is_surveyed(
    lost: str,
) -> None:
    store = stored(SEGMENT, OTHER)
    store.delete([f"{SEGMENT.stem}.{lost}"])
    storage = Aiven(store)
    (partition,) = storage.list_partitions()
    assert storage.list_segments(partition) == [OTHER.metadata]
    wrong, right = storage.survey(partition)
    assert isinstance(wrong, NotFoundError)
    assert f"{SEGMENT.metadata.id}.{lost}" in str(wrong)
    assert right == OTHER.metadata


def test_a_segment_that_was_never_finished_is_skipped() -> None:
    store = stored(SEGMENT, OTHER)
    store.delete([f"{SEGMENT.stem}.rsm-manifest"])
    storage = Aiven(store)
    (partition,) = storage.list_partitions()
    assert list(storage.survey(partition)) == [OTHER.metadata]


STRANGERS = [
    "notes.txt",
    "orders/0/x.log",
    "orders-BwcHBwcHBwcHBwcHBwcHBw/notes.txt",
    "orders-BwcHBwcHBwcHBwcHBwcHBw/x/y.log",
    "orders-BwcHBwcHBwcHBwcHBwcHBw/00/y.log",
    "orders-BwcHBwcHBwcHBwcHBwcHBw/0/notes.txt",
    f"{SEGMENT.stem}.log.bak",
    f"{SEGMENT.stem}.index",
    f"orders-BwcHBwcHBwcHBwcHBwcHBw/0/{'9' * 20}-AQEBAQEBAQEBAQEBAQEBAQ.log",
    f"orders-BwcHBwcHBwcHBwcHBwcHBw/0/{5:020d}-AQEBAQEBAQEBAQEBAQEBAR.log",
    f"orders-BwcHBwcHBwcHBwcHBwcHBw/0/{5:019d}-AQEBAQEBAQEBAQEBAQEBAQ.log",
    "a b-BwcHBwcHBwcHBwcHBwcHBw/0/00000000000000000005-AQEBAQEBAQEBAQEBAQEBAQ.log",
    "kafka-logs-0-BwcHBwcHBwcHBwcHBwcHBw/00000000000000000005.log",
]


def test_strangers_objects_are_skipped() -> None:
    store = stored(SEGMENT)
    fill(store, dict.fromkeys(STRANGERS, b"1"))
    assert found(Aiven(store)) == ["orders-0@5"]
    assert Aiven.recognises(STRANGERS) == 0


def test_a_topic_may_look_like_anything() -> None:
    one = sample("plain", "txn")  # its topic is called txn.topic-0-1
    assert one.metadata.partition in one.open().list_partitions()
    odd = SEGMENT.with_(topic="a-BwcHBwcHBwcHBwcHBwcHBw-0")
    (partition,) = Aiven(stored(odd)).list_partitions()
    assert partition == odd.metadata.partition


class TestKeyPrefix:
    @pytest.mark.parametrize("prefix", ["", "tiered/", "a/b/c/", "a/tiered-", "x"])
    def test_it_stands_in_front_as_it_is(self, prefix: str) -> None:
        segment = SEGMENT.with_(prefix=prefix)
        storage = Aiven(stored(segment), key_prefix=prefix)
        assert found(storage) == ["orders-0@5"]
        assert storage.fetch_log_segment(segment.metadata) == segment.log
        assert f"/{segment.stem}" in storage.name_of(segment.metadata)

    @pytest.mark.parametrize("prefix", ["", "tiered/", "a/b/c/"])
    def test_it_is_found_out_where_it_ends_in_a_slash(self, prefix: str) -> None:
        segment = SEGMENT.with_(prefix=prefix)
        storage = Aiven(stored(segment))
        assert storage.fetch_log_segment(segment.metadata) == segment.log
        assert found(storage) == ["orders-0@5"]

    def test_several_are_named_until_one_is_chosen(self) -> None:
        store = stored(SEGMENT.with_(prefix="b/"), SEGMENT.with_(prefix="a/"))
        with pytest.raises(InvalidArgumentError, match=r"'a/', 'b/'.*key_prefix"):
            Aiven(store).list_partitions()
        assert found(Aiven(store, key_prefix="a/")) == ["orders-0@5"]
        assert found(Aiven(ObjectStore(f"{store.url}/b"))) == ["orders-0@5"]

    def test_one_behind_thousands_of_another_s_objects_is_seen(self) -> None:
        store = stored(SEGMENT.with_(prefix="b/"))
        many = [SEGMENT.with_(prefix="a/", start_offset=n).stem for n in range(1100)]
        fill(store, {f"{stem}.log": b"" for stem in many})
        with pytest.raises(InvalidArgumentError, match="'a/', 'b/'"):
            Aiven(store).list_partitions()

    @pytest.mark.parametrize("root", ["", "x-"])
    def test_the_root_s_own_topics_are_read_with_a_warning_of_the_other_prefixes(
        self, root: str
    ) -> None:
        other = OTHER.with_(prefix="a/")
        store = stored(SEGMENT.with_(prefix=root), other, OTHER.with_(prefix="b/c/"))
        storage = Aiven(store)
        with pytest.warns(TieredFSWarning, match=rf"{root!r}; .*'a/', 'b/c/'.*key_pr"):
            assert found(storage) == ["orders-0@5"]
        assert found(storage) == ["orders-0@5"]  # and says so once
        for prefix, segment in ((root, "orders-0@5"), ("a/", "orders-0@10")):
            assert found(Aiven(store, key_prefix=prefix)) == [segment]

    def test_a_prefix_behind_thousands_of_the_root_s_own_objects_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_prefix, "_MAX_PAGE_KEYS", 10)
        many = [SEGMENT.with_(topic=f"t{n}", number=n) for n in range(1, 9)]
        store = stored(*many, OTHER.with_(prefix="z/z/"))
        with pytest.warns(TieredFSWarning, match=r"''; .*'z/z/' are left out"):
            assert len(found(Aiven(store))) == 8

    def test_topics_of_another_prefix_without_a_slash_are_seen_behind_any_number(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_prefix, "_MAX_PAGE_KEYS", 10)
        many = [SEGMENT.with_(prefix="a-", start_offset=n) for n in range(9)]
        store = stored(*many, SEGMENT.with_(prefix="b-"))
        with pytest.raises(InvalidArgumentError, match=r"'a-', 'others'.*key_prefix"):
            Aiven(store).list_partitions()

    def test_folders_that_were_not_looked_into_are_no_secret(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_prefix, "_MAX_PAGE_KEYS", 10)
        store = stored(SEGMENT)
        fill(store, {f"table/day={number}/x": b"" for number in range(99)})
        with pytest.warns(TieredFSWarning, match="too many folders.*key_prefix"):
            assert found(Aiven(store)) == ["orders-0@5"]
        assert found(Aiven(store, key_prefix="")) == ["orders-0@5"]

    @pytest.mark.parametrize("given", ["", "b/", "a/orders"])
    def test_one_that_no_topic_has_is_said_with_those_that_there_are(
        self, given: str
    ) -> None:
        store = stored(SEGMENT.with_(prefix="a/"))
        with pytest.warns(TieredFSWarning, match=rf"prefix {given!r}; .*'a/'"):
            assert Aiven(store, key_prefix=given).list_partitions() == []

    def test_the_command_says_which_topics_it_leaves_out(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = ObjectStore(str(tmp_path))
        fill(store, SEGMENT.objects())
        fill(store, OTHER.with_(prefix="a/").objects())
        with warnings.catch_warnings():
            warnings.simplefilter("default", TieredFSWarning)
            with pytest.raises(SystemExit) as ended:
                main(["ls", str(tmp_path)])
        shown = capsys.readouterr()
        assert (ended.value.code, shown.out) == (0, "orders\n")
        assert "topics under 'a/' are left out" in shown.err

    def test_another_layout_s_folders_do_not_hide_it(self) -> None:
        store = stored(SEGMENT.with_(prefix="tiered/"))
        name = f"orders-0-BwcHBwcHBwcHBwcHBwcHBw/{5:020d}-{SEGMENT.metadata.id}.log"
        fill(store, {name: b""})
        assert found(Aiven(store)) == ["orders-0@5"]

    def test_the_root_s_topics_are_seen_behind_any_number_of_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_prefix, "_MAX_PAGE_KEYS", 10)
        store = stored(SEGMENT)
        fill(store, {f"a/{number}": b"" for number in range(200)})
        assert found(Aiven(store)) == ["orders-0@5"]

    @pytest.mark.parametrize("prefix", ["tiered-", "x", "a/b-"])
    def test_it_is_found_out_without_a_slash_by_a_manifest(self, prefix: str) -> None:
        store = stored(SEGMENT.with_(prefix=prefix), OTHER.with_(prefix=prefix))
        assert found(Aiven(store)) == ["orders-0@5", "orders-0@10"]
        assert open_tier(store.url).topics() == ["orders"]

    @pytest.mark.parametrize("page", [1000, 3])
    def test_it_is_found_out_where_the_first_topic_may_not_be_read(
        self, monkeypatch: pytest.MonkeyPatch, page: int
    ) -> None:
        monkeypatch.setattr(key_prefix, "_MAX_PAGE_KEYS", page)
        segment = SEGMENT.with_(prefix="tiered-")
        away = {
            key.replace("tiered-orders", _Denying.folder): data
            for key, data in segment.objects().items()
        }
        store = stored(segment)
        fill(store, away)
        assert Aiven(_Denying.over(store)).list_partitions("orders")

    def test_several_without_a_slash_are_named(self) -> None:
        store = stored(SEGMENT.with_(prefix="a-"), SEGMENT.with_(prefix="b-"))
        with pytest.raises(InvalidArgumentError, match=r"'a-', 'others'.*key_prefix"):
            Aiven(store).list_partitions()
        assert found(Aiven(store, key_prefix="b-")) == ["orders-0@5"]

    def test_a_wrong_one_is_seen_in_the_manifest(self) -> None:
        storage = Aiven(stored(SEGMENT.with_(prefix="tiered-")), key_prefix="")
        (partition,) = storage.list_partitions()
        (segment,) = storage.list_segments(partition)
        assert partition.topic == "tiered-orders"
        with pytest.raises(InvalidArgumentError, match=r"key_prefix.*'tiered-'"):
            storage.describe(segment)

    @pytest.mark.parametrize("manifest", [b"", b"{}", b'{"version":"7"}'])
    def test_a_damaged_manifest_hides_no_other_segment(self, manifest: bytes) -> None:
        store = stored(SEGMENT, OTHER)
        fill(store, {f"{SEGMENT.stem}.rsm-manifest": manifest})
        assert found(Aiven(store)) == ["orders-0@5", "orders-0@10"]

    def test_one_that_no_key_can_have_is_refused(self) -> None:
        for prefix in ("/a", "a//b", "../", "a/./"):
            with pytest.raises(InvalidArgumentError):
                Aiven(stored(SEGMENT), key_prefix=prefix).list_partitions()

    def test_what_is_stored_later_is_found_by_the_same_storage(self) -> None:
        store = new_store()
        storage = Aiven(store)
        assert found(storage) == []
        fill(store, SEGMENT.with_(prefix="late/").objects())
        assert found(storage) == ["orders-0@5"]


class TestIdentity:
    def test_a_manifest_of_another_segment_is_damage(self) -> None:
        store = stored(SEGMENT, OTHER)
        manifest = OTHER.objects()[f"{OTHER.stem}.rsm-manifest"]
        fill(store, {f"{SEGMENT.stem}.rsm-manifest": manifest})
        storage = Aiven(store)
        for read in (storage.fetch_log_segment, storage.fetch_all_indexes):
            with pytest.raises(CorruptObjectError, match=OTHER.metadata.id):
                read(SEGMENT.metadata)

    def test_a_layout_of_another_segment_is_damage(self) -> None:
        storage = Aiven(stored(SEGMENT, OTHER))
        layout = storage.fetch_all_indexes(OTHER.metadata).layout
        with pytest.raises(CorruptObjectError, match=OTHER.metadata.id):
            storage.fetch_log_segment(SEGMENT.metadata, layout=layout)

    def test_a_manifest_of_another_topic_is_damage(self) -> None:
        manifest = SEGMENT.with_(topic="payments").manifest()
        store = new_store()
        fill(store, SEGMENT.objects(manifest))
        with pytest.raises(CorruptObjectError, match="'payments'"):
            Aiven(store).describe(SEGMENT.metadata)


class TestRecognising:
    @pytest.mark.parametrize("variant", sorted({one.folder.name for one in samples()}))
    def test_every_sample_is_recognised(self, variant: str) -> None:
        keys = [
            key for one in samples() if one.folder.name == variant for key in one.keys
        ]
        assert Aiven.recognises(keys) == 1

    def test_what_is_there_is_found_out_without_being_named(self) -> None:
        for one in (sample("plain", "txn"), sample("encrypted", "txn")):
            tier = open_tier(str(one.folder / "objects" / prefix_of(one)))
            assert isinstance(tier.storage, Aiven)
            assert "txn.topic-0-1" in tier.topics()

    def test_nothing_of_it_is_never_an_empty_tier(self) -> None:
        store = new_store()
        fill(store, {"a/b/c.csv": b"1"})
        with pytest.raises(UnsupportedFormatError):
            open_tier(store.url)
        assert Aiven.recognises([]) == 0

    def test_other_layouts_are_not_claimed(self) -> None:
        segment = SegmentMetadata(SEGMENT.metadata.partition, SEGMENT.metadata.id, 5)
        assert (
            Aiven.recognises(
                [
                    f"orders-0-BwcHBwcHBwcHBwcHBwcHBw/{5:020d}-{segment.id}.log",
                    f"orders-0/{5:020d}.log",
                    f"orders/BwcHBwcHBwcHBwcHBwcHBw/0/{9:020d}.segment",
                ]
            )
            == 0
        )
