import re
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import Bucket
from support.events import Events
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import push_all, source_of
from support.stores import files_of, fill
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PluginError,
    TieredFSError,
    TieredFSWarning,
    UnsupportedFormatError,
    open_storage,
    open_tier,
)

Distribute = Callable[..., str]

RAW = "raw-log-dir"
FOREIGN = (
    "README.txt",
    "backup/2026/notes.parquet",
    "meta.properties",
    "plain-0/notes.txt",
    "topic/part-0000.log",
    f"{0:020d}.log",
)

CLAIMS = """
class P(Base):
    @classmethod
    def recognises(cls, keys):
        return {score}
"""


def kind(store: ObjectStore) -> str:
    return type(open_storage(store)).__name__


@pytest.fixture
def tiered() -> ObjectStore:
    """What LocalTieredStorage wrote."""
    return ObjectStore(str(KAFKA / "two-partitions" / REMOTE))


def test_local_tiered_storage_is_found_out(tiered: ObjectStore) -> None:
    assert kind(tiered) == "KafkaLocal"


def test_its_parent_is_found_out_when_it_holds_nothing_else(
    memory: ObjectStore,
) -> None:
    files = files_of(KAFKA / "two-partitions" / REMOTE)
    fill(memory, {f"{REMOTE}/{key}": content for key, content in files.items()})
    storage = open_storage(memory)
    assert type(storage).__name__ == "KafkaLocal"
    assert len(storage.list_partitions()) == 3
    assert all(storage.list_segments(p) for p in storage.list_partitions())


def test_a_parent_with_other_things_is_never_an_empty_tier(memory: ObjectStore) -> None:
    files = files_of(KAFKA / "two-partitions" / REMOTE)
    fill(memory, {f"{REMOTE}/{key}": content for key, content in files.items()})
    memory.put("notes.txt", b"mine", overwrite=True)
    try:
        storage = open_storage(memory)
    except UnsupportedFormatError:
        return
    assert len(storage.list_partitions()) == 3


@pytest.mark.parametrize("topic", ["epochs", "compacted"])
def test_a_broker_s_log_directory_is_found_out(topic: str) -> None:
    assert kind(ObjectStore(str(KAFKA / topic / LOCAL))) == "KafkaLog"


def test_a_broker_s_log_directory_with_its_own_files_is_found_out(
    memory: ObjectStore,
) -> None:
    fill(memory, files_of(KAFKA / "compacted" / LOCAL))
    for name in (
        "meta.properties",
        "bootstrap.checkpoint",
        "cleaner-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        ".lock",
    ):
        memory.put(name, b"0\n0\n", overwrite=True)
    assert kind(memory) == "KafkaLog"


def test_the_folder_of_one_partition_is_not_taken_for_a_tier() -> None:
    folder = next((KAFKA / "plain" / REMOTE).iterdir())
    with pytest.raises(InvalidArgumentError, match=f"give {folder.parent}$"):
        open_tier(str(folder))


def test_strangers_files_are_named(memory: ObjectStore) -> None:
    for name in ("a.csv", "data/part-0.parquet", "x/y/z"):
        memory.put(name, b"1", overwrite=True)
    with pytest.raises(UnsupportedFormatError) as caught:
        open_storage(memory)
    text = str(caught.value)
    assert "a.csv" in text
    assert "data/part-0.parquet" in text
    assert "kafka-local" in text
    assert memory.url in text


def test_nothing_at_all_is_not_found(memory: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=memory.url):
        open_storage(memory)
    with pytest.raises(NotFoundError, match="missing"):
        open_tier(str(tmp_path / "missing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="empty"):
        open_tier(str(tmp_path / "empty"))


def test_a_tie_is_an_error_that_names_both(
    distribute: Distribute, tiered: ObjectStore
) -> None:
    distribute("rival", CLAIMS.format(score=1.0))
    with pytest.raises(PluginError, match=r"kafka-local and rival|rival and kafka-l"):
        open_storage(tiered)
    assert type(open_storage(tiered, "kafka-local")).__name__ == "KafkaLocal"


@pytest.mark.parametrize(
    ("topic", "more"),
    [("plain", RAW), ("plain", REMOTE), ("two-partitions", REMOTE)],
    ids=str,
)
def test_two_layouts_in_one_place_are_an_error_that_has_the_url_of_each(
    topic: str, more: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "place")
    store = ObjectStore(place)
    fill(store, files_of(KAFKA / topic / more))
    other = kind(store)
    assert other in {"KafkaLocal", "KafkaLog"}
    pushed = open_storage(store, "single-object")
    push_all(source_of(KAFKA / "epochs" / RAW), pushed)
    with pytest.raises(PluginError) as caught:
        open_tier(place)
    urls = re.findall(r"[a-z-]+\+/\S+", str(caught.value))
    tiers = [open_tier(url) for url in urls]
    assert {type(tier.storage).__name__ for tier in tiers} == {other, "SingleObject"}
    assert sorted(name for tier in tiers for name in tier.topics()) == sorted(
        [topic, "epochs"]
    )


@pytest.mark.parametrize("more", [RAW, REMOTE])
def test_foreign_files_beside_a_layout_are_not_taken_for_another(
    more: str, memory: ObjectStore
) -> None:
    fill(memory, files_of(KAFKA / "plain" / more))
    found = kind(memory)
    fill(memory, dict.fromkeys(FOREIGN, b"1"))
    assert kind(memory) == found


def test_a_guess_is_no_second_layout(
    distribute: Distribute, tiered: ObjectStore, memory: ObjectStore
) -> None:
    fill(memory, files_of(Path(tiered.url)))
    fill(memory, dict.fromkeys(FOREIGN, b"1"))
    distribute("unsure", CLAIMS.format(score=0.5))
    assert kind(memory) == "KafkaLocal"


def test_a_plugin_that_recognises_a_part_of_a_layout_is_no_second_one(
    distribute: Distribute, tiered: ObjectStore
) -> None:
    logs = "sum(key.endswith('.log') for key in keys) / len(keys)"
    distribute("logs", CLAIMS.format(score=logs))
    assert kind(tiered) == "KafkaLocal"


def test_the_surest_wins(
    distribute: Distribute, tiered: ObjectStore, memory: ObjectStore
) -> None:
    memory.put("x", b"1", overwrite=True)
    distribute("unsure", CLAIMS.format(score=0.5))
    assert kind(tiered) == "KafkaLocal"
    surer = distribute("surer", CLAIMS.format(score=0.75))
    assert type(open_storage(memory)).__module__ == surer


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_module",
        "P = 5",
        CLAIMS.format(score="1 / 0"),
        CLAIMS.format(score="None"),
        CLAIMS.format(score="'surely'"),
        CLAIMS.format(score="float('nan')"),
        CLAIMS.format(score="2"),
        CLAIMS.format(score="-0.5"),
        CLAIMS.format(score="keys.clear()"),
        "class Ended(BaseException): pass\nraise Ended",
        "class Ended(BaseException): pass\n"
        + CLAIMS.format(score="exec('raise Ended')"),
        CLAIMS.format(score="exit()"),
        "class Mute(Exception):\n    def __str__(self): return self.args[5]\n"
        + CLAIMS.format(score="exec('raise Mute')"),
        "class P(RemoteStorageManager): pass",
        "class P(Base): capabilities = None",
        "class P(Base): capabilities = {'wriet'}",
        "class P(Base): capabilities = 'write'",
    ],
    ids=[
        "not imported",
        "no class",
        "raises",
        "says nothing",
        "says no number",
        "says NaN",
        "says more than surely",
        "says less than not",
        "empties what it is asked of",
        "ends its import",
        "ends its recogniser",
        "ends the process",
        "raises what cannot be shown",
        "lacks methods",
        "no capabilities",
        "an unknown capability",
        "one capability as a text",
    ],
)
def test_a_broken_plugin_is_warned_about_and_left_out(
    distribute: Distribute, tiered: ObjectStore, source: str
) -> None:
    distribute("broken", source)
    with pytest.warns(TieredFSWarning, match="broken"):
        storage = open_storage(tiered)
    assert type(storage).__name__ == "KafkaLocal"


def test_an_interrupt_while_a_plugin_is_asked_is_not_its_fault(
    distribute: Distribute, tiered: ObjectStore
) -> None:
    distribute("slow", CLAIMS.format(score="exec('raise KeyboardInterrupt')"))
    with pytest.raises(KeyboardInterrupt):
        open_storage(tiered)


def test_a_plugin_cannot_change_what_the_others_are_asked_of(
    distribute: Distribute, memory: ObjectStore
) -> None:
    memory.put("x", b"1", overwrite=True)
    seen = "0.1 * isinstance(keys, tuple) * (keys == ('x',))"
    distribute("curious", CLAIMS.format(score=seen))
    assert kind(memory) == "P"


def test_a_plugin_that_never_claims_has_to_be_named(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("shy", "class P(Base): pass")
    memory.put("x", b"1", overwrite=True)
    with pytest.raises(UnsupportedFormatError, match="shy"):
        open_storage(memory)
    assert type(open_storage(memory, "shy")).__name__ == "P"


def test_two_of_one_name_do_not_break_detection(
    distribute: Distribute, tiered: ObjectStore
) -> None:
    distribute("twice", CLAIMS.format(score=0.0))
    distribute("twice", CLAIMS.format(score=0.0))
    with pytest.warns(TieredFSWarning, match="twice"):
        assert kind(tiered) == "KafkaLocal"


def test_a_layout_is_found_out_from_one_page_of_a_listing(
    tiered: ObjectStore, s3_bucket: Bucket
) -> None:
    folder, name = min(files_of(KAFKA / "two-partitions" / REMOTE)).split("/")
    options = s3_bucket.storage_options
    fill(
        ObjectStore(s3_bucket.url, options),
        {f"{folder}/{n:020d}{name[20:]}": b"1" for n in range(1200)},
    )
    events = Events()
    store = ObjectStore(s3_bucket.url, options, observer=events)
    assert kind(store) == kind(tiered) == "KafkaLocal"
    assert events.by_verb() == {"list": 1}


def test_a_store_that_cannot_be_listed_is_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(TieredFSError, match="file"):
        open_tier(str(tmp_path / "file"))
