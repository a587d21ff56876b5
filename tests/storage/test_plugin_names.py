"""How a plugin is named beside its entry point, and what is said when that fails."""

import pickle
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    PluginError,
    TieredFSWarning,
    UnknownPluginError,
    UnsupportedFormatError,
    installed_plugins,
    open_storage,
    open_tier,
)
from tieredfs.errors import PluginNotInstalledError
from tieredfs.storage import split_plugin_url

Distribute = Callable[..., str]
Distribution = Callable[[dict[str, str | None]], None]

PLUGIN = """
class P(Base):
    def __init__(self, store, *, chunk=7, compression=None):
        super().__init__(store)
        self.chunk = chunk
"""


def names() -> list[str]:
    return [info.name for info in installed_plugins()]


@pytest.fixture
def only_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else of this project's is installed here is not found."""
    monkeypatch.syspath_prepend(tmp_path)  # what was found before does not count
    found = entry_points

    def without_ours(*, group: str) -> object:
        return [p for p in found(group=group) if not p.value.startswith("tieredfs_")]

    monkeypatch.setattr("tieredfs.storage.plugins.installed.entry_points", without_ours)


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    """Install a distribution that tells what the test says; None leaves a file out."""

    def install(files: dict[str, str | None]) -> None:
        info = tmp_path / "odd_one-1.0.dist-info"
        info.mkdir()
        told: dict[str, str | None] = {
            "METADATA": "Metadata-Version: 2.1\nName: odd-one\nVersion: 1.0\n",
            "entry_points.txt": "[tieredfs.plugins]\ntold = json:JSONDecoder\n",
        }
        for name, text in (told | files).items():
            if text is not None:
                (info / name).write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


@pytest.mark.usefixtures("only_built_in")
class TestAPluginOfOursThatIsNotInstalled:
    @pytest.mark.parametrize("url", ["aiven+memory://x", "aiven+data/tier"])
    def test_the_error_is_the_exact_pip_install(self, url: str) -> None:
        with pytest.raises(
            PluginNotInstalledError, match=r"'aiven'.*: pip install tieredfs-aiven$"
        ):
            open_tier(url)

    def test_a_name_near_it_is_told_of_it(self, memory: ObjectStore) -> None:
        with pytest.raises(UnknownPluginError, match="did you mean 'aiven'"):
            open_storage(memory, "aivn")

    def test_it_is_told_of_where_no_plugin_recognises_what_is_there(
        self, memory: ObjectStore
    ) -> None:
        memory.put("t/0/x.rsm-manifest", b"{}", overwrite=True)
        with pytest.raises(
            UnsupportedFormatError,
            match="more plugins: pip install tieredfs-aiven tieredfs-kafscale",
        ):
            open_storage(memory)

    def test_it_is_not_told_of_once_it_is_installed(
        self, memory: ObjectStore, distribute: Distribute
    ) -> None:
        distribute("aiven", PLUGIN)
        memory.put("x", b"1", overwrite=True)
        with pytest.raises(UnsupportedFormatError) as caught:
            open_storage(memory)
        assert "tieredfs-aiven" not in str(caught.value)
        assert type(open_tier("aiven+memory://x").storage).__name__ == "P"


class TestModuleAndAttribute:
    def test_a_class_is_opened_where_there_is_no_entry_point(
        self, distribute: Distribute, memory: ObjectStore
    ) -> None:
        module = distribute("mine", PLUGIN)
        storage = open_storage(memory, f"{module}:P", {"chunk": 9})
        assert type(storage).__module__ == module
        assert storage.chunk == 9  # type: ignore[attr-defined] # of the class made here
        tier = open_tier(memory.url, plugin=f"{module}:P")
        assert type(tier.storage) is type(storage)

    def test_it_may_be_an_attribute_of_an_attribute(
        self, distribute: Distribute, memory: ObjectStore
    ) -> None:
        module = distribute("mine", "class Outer:\n    class P(Base): pass")
        storage = open_storage(memory, f"{module}:Outer.P")
        assert type(storage).__qualname__ == "Outer.P"

    def test_a_storage_of_it_can_be_pickled(
        self, distribute: Distribute, memory: ObjectStore
    ) -> None:
        module = distribute("mine", PLUGIN)
        storage = open_storage(memory, f"{module}:P")
        copied = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
        assert type(copied) is type(storage)

    def test_a_module_that_is_not_there_is_a_plugin_error(
        self, memory: ObjectStore
    ) -> None:
        with pytest.raises(
            PluginError,
            match=r"'nowhere:P' cannot be imported: .*No m.* by python -m",
        ):
            open_storage(memory, "nowhere:P")

    def test_an_attribute_that_is_not_there_is_a_plugin_error(
        self, distribute: Distribute, memory: ObjectStore
    ) -> None:
        module = distribute("mine", PLUGIN)
        with pytest.raises(PluginError, match=r":Q' cannot be imported: .*'Q'"):
            open_storage(memory, f"{module}:Q")

    def test_what_is_no_layout_is_a_plugin_error(self, memory: ObjectStore) -> None:
        with pytest.raises(PluginError, match="'json:dumps' is not a RemoteStorage"):
            open_storage(memory, "json:dumps")

    @pytest.mark.parametrize(
        "name", [":P", "m:", "m:P:Q", "m:P()", "m P:Q", "m/n:P", "../m:P", "m..n:P"]
    )
    def test_what_names_no_attribute_is_an_unknown_plugin(
        self, memory: ObjectStore, name: str
    ) -> None:
        with pytest.raises(UnknownPluginError, match="not module:Class"):
            open_storage(memory, name)

    def test_a_url_never_names_code_to_import(self, distribute: Distribute) -> None:
        module = distribute("mine", PLUGIN)
        url = f"{module}:P+memory://x"
        assert split_plugin_url(url) == (None, url)


class TestTheStorageOptionOfAChain:
    @pytest.fixture
    def url(self, memory: ObjectStore) -> str:
        """A chain of two filesystems, with nothing of any layout."""
        memory.put("root/x", b"1", overwrite=True)
        return f"dir://root::{memory.url}"

    def test_it_names_the_plugin(self, url: str) -> None:
        tier = open_tier(url, storage_options={"tieredfs": {"plugin": "kafka-log"}})
        assert type(tier.storage).__name__ == "KafkaLog"
        assert tier.topics() == []

    def test_it_is_not_fsspec_s_business(self, memory: ObjectStore) -> None:
        memory.put("x", b"1", overwrite=True)
        options = {"tieredfs": {"plugin": "kafka-local"}}
        assert open_tier(memory.url, storage_options=options).topics() == []
        assert options == {"tieredfs": {"plugin": "kafka-local"}}

    def test_it_has_the_plugin_s_options_and_those_that_are_given_win(
        self, distribute: Distribute, url: str
    ) -> None:
        distribute("mine", PLUGIN)
        own = {"plugin": "mine", "plugin_options": {"chunk": 1, "compression": "z"}}
        tier = open_tier(
            url, storage_options={"tieredfs": own}, plugin_options={"chunk": 2}
        )
        assert vars(tier.storage)["chunk"] == 2

    @pytest.mark.parametrize(
        ("own", "message"),
        [
            (
                {"plugins": "x"},
                "unknown key 'plugins'; its keys: plugin, plugin_options",
            ),
            ({"plugin": 3}, "no name of a plugin"),
            ("hunter2", "is not a mapping"),
            ({"plugin_options": "hunter2"}, "is not a mapping"),
        ],
    )
    def test_what_it_cannot_be_is_refused(
        self, own: object, message: str, url: str
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=message) as caught:
            open_tier(url, storage_options={"tieredfs": own})
        assert "hunter2" not in str(caught.value)

    def test_another_plugin_named_elsewhere_is_refused(self, url: str) -> None:
        options = {"tieredfs": {"plugin": "kafka-log"}}
        with pytest.raises(InvalidArgumentError, match=r"kafka-local.*kafka-log"):
            open_tier(f"kafka-local+{url}", storage_options=options)
        with pytest.raises(InvalidArgumentError, match=r"kafka-log.*kafka-local"):
            open_tier(url, plugin="kafka-local", storage_options=options)
        tier = open_tier(f"kafka-log+{url}", storage_options=options)
        assert type(tier.storage).__name__ == "KafkaLog"


class TestADistributionThatTellsNonsense:
    @pytest.mark.parametrize("value", ["", "no value", "m:P:Q", "m:"])
    def test_a_point_that_names_nothing_is_listed_and_a_plugin_error(
        self, distribution: Distribution, memory: ObjectStore, value: str
    ) -> None:
        distribution({"entry_points.txt": f"[tieredfs.plugins]\nodd = {value}\n"})
        assert "odd" in names()
        with pytest.raises(PluginError, match="'odd'"):
            open_storage(memory, "odd")

    def test_one_without_metadata_is_listed(self, distribution: Distribution) -> None:
        distribution({"METADATA": None})
        assert "told" in names()
        assert "kafka-local" in names()

    @pytest.mark.parametrize("group", ["tieredfs.plugins", "others"])
    def test_points_that_cannot_be_read_hide_no_other_plugin(
        self, distribution: Distribution, memory: ObjectStore, group: str
    ) -> None:
        distribution({"entry_points.txt": f"[{group}]\nnonsense\n"})
        with pytest.warns(TieredFSWarning, match="entry points cannot be read"):
            assert "kafka-local" in names()
        open_storage(memory, "kafka-local")


@pytest.mark.parametrize("name", ["kafka-lokal", "single-objekt", "kafka-locale"])
def test_a_name_near_that_of_a_plugin_is_none_of_a_folder_that_is_not_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownPluginError, match=name):
        open_tier(f"{name}+archive")
    (tmp_path / f"{name}+archive").mkdir()
    assert split_plugin_url(f"{name}+archive") == (None, f"{name}+archive")
