import sys
from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from support.kafka_data import KAFKA, REMOTE
from tieredfs import (
    Capability,
    InvalidArgumentError,
    ObjectStore,
    PluginError,
    PluginInfo,
    TieredFSWarning,
    UnknownPluginError,
    installed_plugins,
    open_storage,
    open_tier,
)
from tieredfs.storage import (
    RemoteStorageManager,
    check_plugin,
    check_target,
    split_plugin_url,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.plugins import installed
from tieredfs.storage.plugins.installed import BUILT_IN
from tieredfs.testing.samples import PARTITIONS, sample

Distribute = Callable[..., str]

PLUGIN = """
class P(Base):
    def __init__(self, store, *, chunk=7, compression=None):
        super().__init__(store)
        self.chunk = chunk
"""


def names() -> list[str]:
    return [info.name for info in installed_plugins()]


def test_the_built_in_plugins_are_listed_with_their_package() -> None:
    found = {info.name: info for info in installed_plugins()}
    assert found.keys() >= {"kafka-local", "kafka-log"}
    info = found["kafka-local"]
    assert info.distribution == "tieredfs"
    assert info.value == "tieredfs.storage.layouts.kafka_local:KafkaLocal"
    assert info.version
    assert names() == sorted(names())


def test_built_in_plugins_are_the_entry_points_of_the_package() -> None:
    ours = {info for info in installed_plugins() if info.distribution == "tieredfs"}
    found = {(info.name, info.value) for info in ours}
    assert found == {(name, point.value) for name, point in BUILT_IN.items()}


class TestMetadataOfDistributions:
    @pytest.fixture
    def read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Record each reading of the metadata of all distributions."""
        times: list[str] = []
        monkeypatch.syspath_prepend(tmp_path / "empty")

        def counted(*, group: str) -> object:
            times.append(group)
            return entry_points(group=group)

        place = "tieredfs.storage.plugins.installed.entry_points"
        monkeypatch.setattr(place, counted)
        return times

    def test_it_is_not_read_where_a_built_in_plugin_is_named(
        self, read: list[str], memory: ObjectStore
    ) -> None:
        open_storage(memory, "single-object")
        open_tier(f"kafka-local+{memory.url}")
        open_tier(memory.url, plugin="kafka-log")
        assert not read

    def test_it_is_read_once_however_many_tiers_are_opened(
        self, read: list[str]
    ) -> None:
        for _ in range(3):
            open_tier(KAFKA / "plain" / REMOTE)
        assert len(read) == 1

    def test_it_is_read_again_when_a_distribution_was_installed(
        self, read: list[str], distribute: Distribute
    ) -> None:
        assert "mine" not in names()
        distribute("mine", PLUGIN)
        assert "mine" in names()
        assert len(read) == 2

    def test_it_is_read_again_before_a_plugin_is_said_to_be_missing(
        self, distribute: Distribute, memory: ObjectStore, tmp_path: Path
    ) -> None:
        distribute("mine", PLUGIN)
        (points,) = tmp_path.rglob("entry_points.txt")
        content = points.read_text()
        points.write_text("")  # as an installer has it for a moment
        installed.read_plugins()
        assert "mine" not in names()
        points.write_text(content)
        assert open_storage(memory, "mine").store is memory


def test_a_distribution_s_plugin_is_listed_and_not_imported(
    distribute: Distribute,
) -> None:
    module = distribute("mine", "raise SystemExit('imported')")
    assert PluginInfo("mine", f"{module}:P", "fake-1", "1.2") in installed_plugins()
    assert module not in sys.modules


def test_a_named_plugin_gets_the_store_and_its_options(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("mine", PLUGIN)
    storage = open_storage(memory, "mine", {"chunk": 9})
    assert storage.store is memory
    assert storage.chunk == 9  # type: ignore[attr-defined] # of the class made here


def test_only_the_named_plugin_is_imported(
    distribute: Distribute, memory: ObjectStore
) -> None:
    module = distribute("other", "raise SystemExit('imported')")
    open_storage(memory, "kafka-local")
    assert module not in sys.modules


def test_an_unknown_option_lists_those_that_are_known(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("mine", PLUGIN)
    with pytest.raises(InvalidArgumentError, match=r"'chunks'.*chunk, compression"):
        open_storage(memory, "mine", {"chunks": 9})
    with pytest.raises(InvalidArgumentError, match="'store'"):
        open_storage(memory, "mine", {"store": 9})
    with pytest.raises(InvalidArgumentError, match=r"'x'.*none"):
        open_storage(memory, "kafka-local", {"x": 1})


def test_an_unknown_name_lists_the_known_and_the_nearest(memory: ObjectStore) -> None:
    with pytest.raises(UnknownPluginError) as caught:
        open_storage(memory, "kafka-locl")
    text = str(caught.value)
    assert "'kafka-locl'" in text
    assert "did you mean 'kafka-local'?" in text
    assert "kafka-log" in text.partition("installed:")[2]
    with pytest.raises(UnknownPluginError) as caught:
        open_storage(memory, "zzzzzz")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_module",
        "1/0",
        "not python",
        "pass",
        "P = 5",
        "class P: pass",
        "def P(store): return store",
        "raise SystemExit('imported')",
    ],
)
def test_a_plugin_that_cannot_be_used_is_a_plugin_error_and_still_listed(
    distribute: Distribute, memory: ObjectStore, source: str
) -> None:
    distribute("broken", source)
    assert "broken" in names()
    with pytest.raises(PluginError, match="'broken'") as caught:
        open_storage(memory, "broken")
    assert not isinstance(caught.value, UnknownPluginError)
    open_storage(memory, "kafka-log")


def test_a_plugin_that_lacks_methods_is_a_plugin_error(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("half", "class P(RemoteStorageManager): pass")
    with pytest.raises(PluginError, match=r"half.*lacks.*fetch_index.*list_segments"):
        open_storage(memory, "half")


class TestTwoOfOneName:
    @pytest.fixture(autouse=True)
    def _twice(self, distribute: Distribute) -> None:
        distribute("twice", PLUGIN)
        distribute("twice", PLUGIN)

    def test_it_is_an_error_to_load_it_that_names_both(
        self, memory: ObjectStore
    ) -> None:
        with pytest.raises(PluginError, match=r"fake_plugin_\d.*fake_plugin_\d"):
            open_storage(memory, "twice")

    def test_it_breaks_no_other_plugin(self, memory: ObjectStore) -> None:
        open_storage(memory, "kafka-local")

    def test_it_does_not_break_the_listing(self) -> None:
        assert "kafka-local" in names()
        assert names().count("twice") == 2

    def test_it_does_not_break_local_paths(self) -> None:
        assert split_plugin_url("/data/a+b") == (None, "/data/a+b")


class TestTheNameOfABuiltInPlugin:
    @pytest.fixture(autouse=True)
    def _taken(self, distribute: Distribute) -> None:
        distribute("kafka-local", "raise SystemExit('imported')")

    @pytest.fixture(params=[1, 2, "the same class"])
    def _by_several(
        self, request: pytest.FixtureRequest, distribute: Distribute, tmp_path: Path
    ) -> None:
        if request.param == 2:
            distribute("kafka-local", PLUGIN)
        elif request.param == "the same class":
            distribute("other", PLUGIN)
            points = tmp_path / "site2" / "fake_2-1.2.dist-info" / "entry_points.txt"
            value = "tieredfs.storage.layouts.kafka_local:KafkaLocal"
            points.write_text(f"[tieredfs.plugins]\nkafka-local = {value}\n")

    @pytest.mark.usefixtures("_by_several")
    def test_nobody_takes_it(self, memory: ObjectStore) -> None:
        storage = open_storage(memory, "kafka-local")
        assert type(storage) is KafkaLocal

    @pytest.mark.usefixtures("_by_several")
    def test_what_is_there_is_still_found_out(self) -> None:
        message = (
            r"left out: plugin 'kafka-local' of fake-\d has the name of a built-in"
        )
        with pytest.warns(TieredFSWarning, match=message):
            storage = open_storage(ObjectStore(str(KAFKA / "plain" / REMOTE)))
        assert type(storage).__name__ == "KafkaLocal"

    def test_the_other_is_listed_and_can_never_be_used(self) -> None:
        ours, other = [p for p in installed_plugins() if p.name == "kafka-local"]
        assert (ours.distribution, other.distribution) == ("tieredfs", "fake-1")
        assert Capability.WRITE in check_plugin(ours)
        with pytest.raises(PluginError, match="the name of a built-in plugin"):
            check_plugin(other)


@pytest.mark.parametrize("name", ["MyFlat", "my_flat", "1st", "a.b"])
def test_a_plugin_whose_name_no_url_can_have_is_left_out(
    distribute: Distribute, name: str
) -> None:
    distribute(name, PLUGIN)
    with pytest.warns(TieredFSWarning, match=rf"left out: plugin '{name}' of fake-1"):
        assert name not in names()


def test_a_layout_without_a_recogniser_may_be_put_beside_another(
    memory: ObjectStore,
) -> None:
    class Unrecognised(SingleObject):
        @classmethod
        def recognises(cls, keys: Collection[str]) -> float:
            del keys
            return 0.0

    class Unnamed(SingleObject):
        recognises = RemoteStorageManager.recognises

    one = sample(PARTITIONS[0], 0)
    SingleObject(memory).copy_log_segment(one.metadata, one.data)
    with pytest.raises(InvalidArgumentError, match="'single-object' is stored there"):
        check_target(Unrecognised(memory))
    check_target(Unnamed(memory))


def test_a_plugin_that_has_gone_since_it_was_listed_is_unknown() -> None:
    with pytest.raises(UnknownPluginError, match="'gone'"):
        check_plugin(PluginInfo("gone", "gone:P", "fake-1", "1.2"))


def test_one_plugin_found_twice_is_one_plugin(
    distribute: Distribute, memory: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribute("mine", PLUGIN)
    monkeypatch.setattr(sys, "path", [*sys.path, sys.path[0]])
    assert names().count("mine") == 1
    open_storage(memory, "mine")


@pytest.mark.parametrize(
    ("url", "name", "rest"),
    [
        ("s3://bucket/x", None, "s3://bucket/x"),
        ("kafka-local+s3://bucket/x", "kafka-local", "s3://bucket/x"),
        ("unheard-of+s3://bucket/x", "unheard-of", "s3://bucket/x"),
        ("kafka-log+simplecache::s3://b/x", "kafka-log", "simplecache::s3://b/x"),
        ("kafka-local+/data/tier", "kafka-local", "/data/tier"),
        ("kafka-local+data/tier", "kafka-local", "data/tier"),
        ("kafka-local+s3://bucket/a+b", "kafka-local", "s3://bucket/a+b"),
        ("s3://bucket/a+b", None, "s3://bucket/a+b"),
        ("s3://a+b/c", None, "s3://a+b/c"),
        ("/data/a+b", None, "/data/a+b"),
        ("/data+s3://x", None, "/data+s3://x"),
        ("a+b", None, "a+b"),
        ("a+b/c", None, "a+b/c"),
        ("c++/x", None, "c++/x"),
        ("+s3://bucket", None, "+s3://bucket"),
        ("memory://a+b", None, "memory://a+b"),
        ("", None, ""),
    ],
)
def test_a_url_is_split_from_the_plugin_it_names(
    url: str, name: str | None, rest: str
) -> None:
    assert split_plugin_url(url) == (name, rest)


def test_a_url_and_an_option_that_name_two_plugins_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"kafka-log.*kafka-local"):
        open_tier("kafka-log+memory://x", plugin="kafka-local")
    tier = open_tier("kafka-log+memory://x", plugin="kafka-log")
    assert type(tier.storage).__name__ == "KafkaLog"


def test_a_url_that_names_an_unknown_plugin_lists_the_known() -> None:
    with pytest.raises(UnknownPluginError, match="kafka-local"):
        open_tier("kafka-locl+memory://x")
