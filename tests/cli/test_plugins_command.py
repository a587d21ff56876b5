"""``tieredfs plugins``: what is installed, and whether it works."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import Run, ours, run_process
from support.kafka_data import LOCAL
from tieredfs.format.compression.registry import PACKAGES_IN_USE


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """An environment with a distribution whose plugin cannot be imported."""
    return _installed(tmp_path, "broken", "no_such_module:Layout")


def _installed(folder: Path, name: str, value: str) -> dict[str, str]:
    info = folder / f"tieredfs_{name}-2.5.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: tieredfs-{name}\nVersion: 2.5\n"
    (info / "METADATA").write_text(metadata)
    (info / "entry_points.txt").write_text(f"[tieredfs.plugins]\n{name} = {value}\n")
    return {"PYTHONPATH": str(folder)}


def _with_source(folder: Path, name: str, source: str) -> dict[str, str]:
    env = _installed(folder, name, "its_module:Layout")
    head = "from tieredfs.storage.layouts.kafka_log import KafkaLog\n"
    (folder / "its_module.py").write_text(head + source)
    return env


def test_json_says_what_each_plugin_is_and_can(run: Run) -> None:
    done = run("plugins", "--json")
    assert (done.code, done.err) == (0, [])
    found = {row["name"]: row for row in json.loads(done.out)["plugins"]}
    assert set(found) >= {"kafka-local", "kafka-log"}
    assert found["kafka-log"] == {
        "name": "kafka-log",
        "value": "tieredfs.storage.layouts.kafka_log:KafkaLog",
        "distribution": "tieredfs",
        "version": importlib.metadata.version("tieredfs"),
        "state": "read",
        "capabilities": ["range_read"],
        "error": None,
    }


def test_json_says_which_kernel_decodes() -> None:
    done = run_process("plugins", "--json", env={"TIEREDFS_KERNEL": "python"})
    assert json.loads(done.out)["kernel"] == "python"


def test_a_kernel_that_does_not_exist_is_an_error_that_names_the_setting() -> None:
    done = run_process("plugins", "--json", env={"TIEREDFS_KERNEL": "rust"})
    assert done.code != 0
    assert "TIEREDFS_KERNEL=rust" in done.err[0]


def test_json_says_which_package_decompresses_each_codec(run: Run) -> None:
    codecs = json.loads(run("plugins", "--json").out)["codecs"]
    assert codecs == {
        codec.name.lower(): package for codec, package in PACKAGES_IN_USE.items()
    }


def test_the_table_says_what_the_json_says(run: Run) -> None:
    heading, *lines = run("plugins").text.splitlines()
    assert heading.split() == ["NAME", "STATE", "FROM", "VERSION", "CLASS"]
    rows = json.loads(run("plugins", "--json").out)["plugins"]
    for line, row in zip(lines, rows, strict=True):
        names = ("name", "state", "distribution", "version", "value")
        assert line.split() == " ".join(row[name] for name in names).split()


def test_a_broken_plugin_is_shown_as_broken_and_hurts_no_other(
    broken: dict[str, str],
) -> None:
    done = run_process("plugins", "--json", env=broken)
    assert done.code == 0
    states = {r["name"]: r["state"] for r in json.loads(done.out)["plugins"]}
    assert states["broken"] == "broken"
    assert states["kafka-log"] == "read"
    assert states["kafka-local"] != "broken"


def test_the_table_shows_a_broken_plugin_and_why_it_is(broken: dict[str, str]) -> None:
    done = run_process("plugins", env=broken)
    assert done.code == 0
    (line,) = [line for line in done.text.splitlines() if line.startswith("broken")]
    assert line.split() == [
        *("broken", "broken", "tieredfs-broken", "2.5"),
        "no_such_module:Layout",
    ]
    assert len(done.err) == 1
    assert done.err[0].startswith("tieredfs: warning: broken: ")
    assert "no_such_module" in done.err[0]


def test_a_broken_plugin_costs_one_line_when_a_layout_is_to_be_found_out(
    broken: dict[str, str], plain: str
) -> None:
    done = run_process("ls", plain, env=broken)
    assert (done.code, done.text) == (0, "plain\n")
    assert len(done.err) == 1
    assert done.err[0].startswith("tieredfs: warning: left out: plugin 'broken'")


def test_a_broken_plugin_is_not_imported_when_another_is_named(
    broken: dict[str, str], plain: str
) -> None:
    done = run_process("ls", plain, "--plugin", "kafka-local", env=broken)
    assert (done.code, done.text, done.err) == (0, "plain\n", [])


def test_a_broken_plugin_that_is_named_is_2(broken: dict[str, str], plain: str) -> None:
    done = run_process("ls", plain, "--plugin", "broken", env=broken)
    assert (done.code, done.out, len(done.err)) == (2, b"", 1)
    assert "plugin 'broken' of tieredfs-broken cannot be imported" in done.err[0]


def test_a_plugin_that_is_no_storage_is_broken(tmp_path: Path) -> None:
    env = _installed(tmp_path, "odd", "json:JSONDecoder")
    rows = json.loads(run_process("plugins", "--json", env=env).out)["plugins"]
    (odd,) = [row for row in rows if row["name"] == "odd"]
    assert odd["state"] == "broken"
    assert "not a RemoteStorageManager" in odd["error"]


class TestAPluginWithoutAnEntryPoint:
    @pytest.fixture
    def mine(self, tmp_path: Path) -> dict[str, str]:
        """An environment with a module that has a layout."""
        source = "from tieredfs.storage.layouts.kafka_local import KafkaLocal\n"
        (tmp_path / "mine.py").write_text(f"{source}class Mine(KafkaLocal): pass\n")
        return {"PYTHONPATH": str(tmp_path)}

    def test_it_is_named_by_its_module(self, mine: dict[str, str], plain: str) -> None:
        done = run_process("ls", plain, "--plugin", "mine:Mine", env=mine)
        assert (done.code, done.text, done.err) == (0, "plain\n", [])

    def test_one_that_is_not_there_is_2(self, mine: dict[str, str], plain: str) -> None:
        done = run_process("ls", plain, "--plugin", "mine:Yours", env=mine)
        assert (done.code, done.out, len(done.err)) == (2, b"", 1)
        assert "plugin 'mine:Yours' cannot be imported" in done.err[0]


def test_threads_that_a_plugin_leaves_running_do_not_keep_the_command(
    tmp_path: Path, plain: str
) -> None:
    (tmp_path / "mine.py").write_text(
        "import threading\n"
        "from tieredfs.storage.layouts.kafka_local import KafkaLocal\n"
        "class Mine(KafkaLocal):\n"
        "    def list_partitions(self, topic=None):\n"
        "        wait = threading.Event().wait\n"
        "        threading.Thread(target=wait, name='mine').start()\n"
        "        return super().list_partitions(topic)\n"
    )
    env = {"PYTHONPATH": str(tmp_path)}
    done = run_process("ls", plain, "--plugin", "mine:Mine", env=env)
    assert (done.code, done.text) == (0, "plain\n")
    (said,) = done.err
    assert said.startswith("tieredfs: warning: threads are still running: mine")


def test_the_storage_options_may_name_the_plugin(run: Run, plain: str) -> None:
    named = json.dumps({"tieredfs": {"plugin": "kafka-local"}})
    assert run("ls", plain, "--storage-options", named).text == "plain\n"
    done = run("ls", plain, "--storage-options", named, "--plugin", "kafka-log")
    assert done.code == 2
    assert "the option plugin names plugin 'kafka-log'" in done.err[0]


def test_a_plugin_that_ends_the_process_is_shown_as_broken(tmp_path: Path) -> None:
    env = _installed(tmp_path, "rude", "rude:Layout")
    (tmp_path / "rude.py").write_text("raise SystemExit(0)\n")
    rows = json.loads(run_process("plugins", "--json", env=env).out)["plugins"]
    assert {r["name"]: r["state"] for r in rows}["rude"] == "broken"


@pytest.mark.parametrize(
    "source",
    [
        "class Ended(BaseException): pass\nraise Ended('in\\ntwo lines')",
        "class Layout(KafkaLog): capabilities = None",
        "class Layout(KafkaLog): capabilities = {'wriet'}",
    ],
    ids=["ends its import", "no capabilities", "an unknown capability"],
)
def test_a_plugin_that_is_wrong_in_any_way_is_shown_as_broken(
    tmp_path: Path, plain: str, source: str
) -> None:
    env = _with_source(tmp_path, "rude", source)
    rows = json.loads(run_process("plugins", "--json", env=env).out)["plugins"]
    states = {row["name"]: row["state"] for row in rows}
    assert (states["rude"], states["kafka-log"]) == ("broken", "read")
    assert len(run_process("plugins", env=env).err) == 1
    done = run_process("ls", plain, env=env)
    assert (done.code, done.text, len(done.err)) == (0, "plain\n", 1)
    assert "left out: plugin 'rude'" in done.err[0]


def test_a_plugin_with_the_name_of_a_built_in_one_is_shown_as_broken(
    tmp_path: Path, plain: str
) -> None:
    env = _with_source(tmp_path, "kafka-local", "class Layout(KafkaLog): pass")
    rows = json.loads(run_process("plugins", "--json", env=env).out)["plugins"]
    ours, other = [row for row in rows if row["name"] == "kafka-local"]
    assert (ours["distribution"], ours["state"]) == ("tieredfs", "read, write")
    assert (other["version"], other["state"]) == ("2.5", "broken")
    assert "has the name of a built-in plugin" in other["error"]
    done = run_process("ls", plain, env=env)
    assert (done.code, done.text, len(done.err)) == (0, "plain\n", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'rude' needs the option 'bucket'"),
        ({"bucket": "b", "buckte": 1}, "'rude' has no option 'buckte'"),
        ({"bucket": "one"}, "'rude' cannot be opened with the options bucket: Value"),
    ],
    ids=["missing", "unknown", "wrong"],
)
def test_what_a_plugin_cannot_be_opened_with_is_one_line_and_2(
    tmp_path: Path, plain: str, options: dict[str, object], message: str
) -> None:
    init = "def __init__(self, store, *, bucket): int(bucket)"
    env = _with_source(tmp_path, "rude", f"class Layout(KafkaLog):\n    {init}")
    given = ("--plugin", "rude", "--plugin-options", json.dumps(options))
    done = run_process("ls", plain, *given, env=env)
    assert (done.code, done.out, len(done.err)) == (2, b"", 1)
    assert message in done.err[0]


class TestAPluginThatPrints:
    @pytest.fixture
    def loud(self, tmp_path: Path) -> dict[str, str]:
        """An environment with a plugin that prints whatever it is asked."""
        source = (
            "print('loud')\n"
            "class Layout(KafkaLog):\n"
            "    def __init__(self, store):\n"
            "        super().__init__(store)\n"
            "        print('loud')\n"
            "    @classmethod\n"
            "    def recognises(cls, keys):\n"
            "        print('loud')\n"
            "        return 0.5\n"
        )
        return _with_source(tmp_path, "loud", source)

    def test_it_is_listed_in_json(self, loud: dict[str, str]) -> None:
        done = run_process("plugins", "--json", env=loud)
        states = {r["name"]: r["state"] for r in json.loads(done.out)["plugins"]}
        assert states["loud"] == "read"
        assert done.err == ["loud"]

    def test_another_is_found_out_beside_it(
        self, loud: dict[str, str], plain: str
    ) -> None:
        done = run_process("ls", plain, env=loud)
        assert (done.text, done.err) == ("plain\n", ["loud", "loud"])

    def test_it_is_opened(self, loud: dict[str, str], data: Path) -> None:
        log = str(data / "kafka" / "plain" / LOCAL)
        done = run_process("ls", log, "--plugin", "loud", env=loud)
        assert (done.text, done.err) == ("plain\n", ["loud", "loud"])

    def test_it_is_found_to_be_the_wrong_one(
        self, loud: dict[str, str], tmp_path: Path
    ) -> None:
        (tmp_path / "tier").mkdir()
        (tmp_path / "tier" / "x").write_bytes(b"1")
        done = run_process("ls", str(tmp_path / "tier"), "--plugin", "loud", env=loud)
        assert (done.code, done.out, done.err) == (0, b"", ["loud"] * 3)

    @pytest.mark.parametrize(
        "command",
        [
            ["ls", "plain"],
            ["ls", "plain", "--json"],
            ["ls", "plain", "--segments", "--json"],
            ["cat", "plain", "--encoding", "hex"],
            ["cat", "plain", "--json", "--encoding", "hex"],
            ["cat", "plain", "--format", "arrow"],
            ["cat", "plain", "--format", "parquet"],
            ["verify", "--json"],
            ["pull", "back", "--json"],
        ],
        ids=" ".join,
    )
    def test_nothing_that_it_prints_later_is_in_an_answer(
        self, command: list[str], tmp_path: Path, data: Path
    ) -> None:
        source = (
            "class Layout(KafkaLog):\n"
            "    def __getattribute__(self, name):\n"
            "        print('loud', flush=True)\n"
            "        return super().__getattribute__(name)\n"
        )
        env = _with_source(tmp_path, "chatty", source)
        log = str(data / "kafka" / "plain" / LOCAL)
        verb, *rest = command
        outs = []
        for plugin in ("kafka-log", "chatty"):
            back = str(tmp_path / plugin)
            given = [back if word == "back" else word for word in rest]
            done = run_process(verb, log, *given, "--plugin", plugin, env=env)
            assert done.code == 0
            outs.append(done.out.replace(back.encode(), b"back"))
        assert set(done.err) == {"loud"}
        assert outs[0] == outs[1]

    def test_it_prints_where_it_likes_in_python(self, loud: dict[str, str]) -> None:
        code = (
            "from tieredfs import ObjectStore, open_storage\n"
            "open_storage(ObjectStore('memory://x'), 'loud')"
        )
        done = subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", code],
            env=ours(loud),
            check=True,
            capture_output=True,
        )
        assert (done.stdout, done.stderr) == (b"loud\nloud\n", b"")
