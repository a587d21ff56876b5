"""``tieredfs conformance``: the verdict on a plugin, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from typing_extensions import override

from cli.commands import Run, ours, wait_until
from support.kafka_data import KAFKA, LOCAL
from support.stores import files_of
from testing.broken.reading import TakesTheEndAsIncluded
from testing.pasted import run_test
from tieredfs import (
    IndexType,
    ObjectStore,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
)
from tieredfs.cli import trial
from tieredfs.cli.options import StoreOptions
from tieredfs.cli.trial import Trial
from tieredfs.storage import StorageAddress
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import CHECKS
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.verdict import EXTENTS, Outcome, Profile, rules

BROKEN = f"{TakesTheEndAsIncluded.__module__}:TakesTheEndAsIncluded"


class CutsLogs(KafkaLog):
    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        found = super().fetch_log_segment(metadata, start, end, layout=layout)
        return found[:-1] if start else found


class HasAToken(TakesTheEndAsIncluded):
    def __init__(self, store: ObjectStore, *, token: str) -> None:
        super().__init__(store)
        self.token = token


class ChangesTheFolder(SingleObject):
    """Works in a folder of its own."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        if Path("elsewhere").exists():
            os.chdir("elsewhere")


@pytest.fixture(autouse=True)
def _few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try few sequences of calls: what they find is tested where they are made."""
    few = replace(
        EXTENTS[Profile.QUICK],
        sequences=5,
        steps=10,
        search_seconds=25.0,
        shrink_seconds=1.0,
    )
    monkeypatch.setitem(EXTENTS, Profile.QUICK, few)


@pytest.fixture
def _few_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the rules that take least."""
    monkeypatch.setattr(rules, "CHECKS", CHECKS[:3])


def broken_rules(text: str) -> dict[str, Any]:
    return {
        rule["name"]: rule
        for rule in json.loads(text)["rules"]
        if rule["outcome"] == "broken"
    }


def test_a_sound_plugin_keeps_all_rules_and_leaves_nothing(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "other").write_bytes(b"of somebody else")
    done = run("conformance", "kafka-local", "--url", str(tmp_path))
    assert (done.code, done.err) == (0, [])
    for check in CHECKS:
        assert check.__name__ in done.text
    lines = [line.split() for line in done.text.splitlines()]
    skipped = {line[0] for line in lines if line[1:3] == ["not", "applicable"]}
    assert "check_copy_is_one_write" in skipped
    assert "the layout does not have ATOMIC_COPY" in done.text
    rules = len(CHECKS) + len(Promise)
    assert done.text.splitlines()[-1].startswith(f"{rules - len(skipped)} held, ")
    assert [path.name for path in tmp_path.rglob("*")] == ["other"]


def test_a_broken_plugin_gets_the_sentence_and_the_code(run: Run) -> None:
    url = "memory://conformance-of-a-broken-one"
    done = run("conformance", BROKEN, "--url", url)
    assert done.code == 1
    assert "check_ranges_are_exact: `fetch_log_segment` returns exactly" in done.text
    assert "returned 1 bytes, expected 0" in done.text
    assert "    def test_ranges_are_exact():\n" in done.text
    assert "        check_ranges_are_exact(make_storage)\n" in done.text
    assert not list(ObjectStore(url).list())


def test_the_code_breaks_the_rule_again(run: Run) -> None:
    asked = ("conformance", BROKEN, "--url", "memory://conformance-as-json", "--json")
    done = run(*asked, "--profile", "quick")
    assert done.code == 1
    said = json.loads(done.text)
    assert (said["plugin"], said["profile"]) == (BROKEN, "quick")
    assert sum(said[outcome] for outcome in Outcome) == len(said["rules"])
    for rule in broken_rules(done.text).values():
        with pytest.raises(AssertionError):
            run_test(rule["code"])


def test_what_only_reads_is_asked_about_a_copy_of_what_is_there(
    run: Run, tmp_path: Path
) -> None:
    for name, content in files_of(KAFKA / "plain" / LOCAL).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    before = files_of(tmp_path)
    done = run("conformance", "kafka-log", "--url", str(tmp_path), "--json")
    assert (done.code, json.loads(done.text)["broken"]) == (0, 0)
    plugin = f"{__name__}:CutsLogs"
    done = run("conformance", plugin, "--url", str(tmp_path), "--json")
    assert done.code == 1
    broken = broken_rules(done.text)["check_ranges_are_exact"]
    with pytest.raises(AssertionError, match="were asked for"):
        run_test(broken["code"])
    assert files_of(tmp_path) == before


def test_what_only_reads_needs_something_to_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("conformance", "kafka-log", "--url", str(tmp_path))
    assert done.code == 3
    assert "read only: give the URL of some segments" in done.err[0]
    (tmp_path / "large").write_bytes(bytes(9))
    done = run("conformance", "kafka-log", "--url", str(tmp_path))
    assert done.code == 3
    assert "no segment in" in done.err[0]
    monkeypatch.setattr(trial, "_MAX_SAMPLE_BYTES", 8)
    done = run("conformance", "kafka-log", "--url", str(tmp_path))
    assert done.code == 2
    assert "9 bytes are too many" in done.err[0]


def test_options_are_named_in_the_code_and_their_values_are_not(run: Run) -> None:
    url = ("--url", "memory://conformance-with-options")
    options = ("--plugin-options", '{"token": "hunter2"}')
    done = run("conformance", f"{__name__}:HasAToken", *url, *options)
    assert done.code == 1
    assert ':HasAToken", {"token": ...})' in done.text
    assert "hunter2" not in done.text


def test_the_code_names_a_store_below_the_first_url_of_a_chain() -> None:
    url = "zip://seg::file:///tmp/x.zip"
    address = StorageAddress.of(url, plugin="kafka-local")
    tested = Trial(StoreOptions(None, 30.0), address, "kafka-local", 0)
    recipe = tested._recipe(is_writable=True)
    assert recipe.store == (
        'ObjectStore("zip://seg/tieredfs-conformance-" + uuid4().hex'
        ' + "::file:///tmp/x.zip")'
    )


def test_a_plugin_that_cannot_be_opened_is_wrong_usage(run: Run) -> None:
    url = ("--url", "memory://conformance-of-none")
    options = ("--plugin-options", '{"compression": "none-such"}')
    assert run("conformance", "single-object", *url, *options).code == 2
    done = run("conformance", "no-such-layout", *url)
    assert done.code == 2
    assert "no plugin is called 'no-such-layout'" in done.err[0]
    assert run("conformance", "single-object").code == 2


def test_a_store_that_cannot_be_reached_is_no_verdict(run: Run) -> None:
    reach = {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}
    options = ("--storage-options", json.dumps(reach), "--deadline", "2")
    done = run("conformance", "single-object", "--url", "s3://bucket/a", *options)
    assert (done.code, done.text) == (5, "")


def test_only_the_rules_that_are_named_are_tested(run: Run, tmp_path: Path) -> None:
    names = ("check_ranges_are_exact", "promise_calls_succeed")
    rules = [word for name in names for word in ("--rule", name)]
    asked = ("conformance", "single-object", "--url", str(tmp_path), "--json")
    done = run(*asked, *rules)
    assert (done.code, done.err) == (0, [])
    found = json.loads(done.text)
    assert [(rule["name"], rule["outcome"]) for rule in found["rules"]] == [
        (name, "held") for name in names
    ]
    done = run(*asked, "--rule", "check_ranges_are_exakt")
    assert done.code == 2
    assert "did you mean check_ranges_are_exact?" in done.err[0]


def test_a_relative_path_is_below_the_folder_in_which_the_command_began(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    plugin, rule = f"{__name__}:ChangesTheFolder", "check_ranges_are_exact"
    assert run("conformance", plugin, "--url", "here", "--rule", rule).code == 0
    assert Path.cwd() == tmp_path / "elsewhere"
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.usefixtures("_few_rules")
def test_nothing_is_left_in_the_current_directory(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYPOTHESIS_STORAGE_DIRECTORY", raising=False)
    url = "memory://conformance-without-traces"
    assert run("conformance", "single-object", "--url", url).code == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_few_rules")
def test_where_nothing_could_be_decided_the_command_does_not_end_with_0(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = replace(
        EXTENTS[Profile.QUICK],
        sequences=5,
        steps=10,
        search_seconds=0.0,
        shrink_seconds=1.0,
    )
    monkeypatch.setitem(EXTENTS, Profile.QUICK, none)
    done = run("conformance", "single-object", "--url", str(tmp_path), "--json")
    answer = json.loads(done.text)
    assert (answer["broken"], answer["undecided"]) == (0, len(Promise))
    assert done.code == 1


class Tells(KafkaLog):
    """Says its options in its errors, as a client does that cannot log in."""

    def __init__(self, store: ObjectStore, *, password: str = "") -> None:
        super().__init__(store)
        self.password = password

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        raise RuntimeError(f"cannot log in as me:{self.password} at {self.store}")


def test_what_a_plugin_says_in_its_errors_is_shown_without_secrets(
    run: Run, tmp_path: Path
) -> None:
    for name, content in files_of(KAFKA / "plain" / LOCAL).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    asked = ("conformance", f"{__name__}:Tells", "--url", str(tmp_path))
    options = ("--plugin-options", '{"password": "hunter2"}')
    for form in ((), ("--json",)):
        done = run(*asked, *options, *form)
        assert done.code == 1
        assert "cannot log in as me:***" in done.text
        assert "hunter2" not in done.text


def test_an_error_shows_the_url_without_its_secrets(run: Run) -> None:
    url = "memory://user:hunter2@host/conformance-secret"
    ObjectStore(url).put("a.txt", b"1", overwrite=True)
    done = run("conformance", "kafka-log", "--url", url)
    assert done.code == 3
    assert "no segment in memory://***@host" in done.err[0]
    assert "hunter2" not in done.err[0]


class ListsNothingButASecret(Tells):
    """Fails with its options where it lists."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        raise StorageUnavailableError(f"cannot log in with {self.password}")


def test_an_error_of_the_plugin_shows_no_secret(run: Run, tmp_path: Path) -> None:
    (tmp_path / "any").write_bytes(b"1")
    asked = ("conformance", f"{__name__}:ListsNothingButASecret", "--url")
    options = ("--plugin-options", '{"password": "hunter2"}')
    done = run(*asked, str(tmp_path), *options)
    assert done.code == 5
    assert "cannot log in with ***" in done.err[0]


class HangsWhenMade(KafkaLog):
    """Waits for itself in its constructor."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        lock = Lock()
        with lock:
            lock.acquire()


def test_a_plugin_whose_first_storage_hangs_is_an_error_that_says_where(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = replace(EXTENTS[Profile.QUICK], call_seconds=0.5)
    monkeypatch.setitem(EXTENTS, Profile.QUICK, hasty)
    done = run("conformance", f"{__name__}:HangsWhenMade", "--url", str(tmp_path))
    assert (done.code, done.out) == (1, b"")
    assert "the plugin cannot be tested: A call did not end within 0.5 s" in done.err[0]
    assert f"{Path(__file__).name}:" in done.err[0]


def test_what_goes_on_when_a_test_has_ended_stores_nothing(tmp_path: Path) -> None:
    address = StorageAddress.of(str(tmp_path), plugin="kafka-local")
    tested = Trial(StoreOptions(None, 30.0), address, "kafka-local", 0)
    with tested.subject(EXTENTS[Profile.QUICK]) as subject:
        store = subject.make_store()
        store.put("a", b"1", overwrite=True)
    with pytest.raises(StorageUnavailableError, match="the test has ended"):
        store.put("b", b"2", overwrite=True)
    assert not list(tmp_path.iterdir())


_FEW_RULES = """
import sys
from tieredfs.testing.verdict import rules
rules.CHECKS = rules.CHECKS[:3]
from tieredfs.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_shows_the_verdicts_so_far_and_leaves_nothing(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    asked = ("conformance", "kafka-local", "--url", str(tmp_path), *form)
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _FEW_RULES, *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ours({"PYTHONPATH": os.pathsep.join(sys.path)}),
    ) as process:
        # The rules have the stores up to the third: these are of the search.
        wait_until(lambda: any(tmp_path.glob("*/[6-9]/*")), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().splitlines() == ["tieredfs: interrupted"]
    names = [check.__name__ for check in CHECKS[:3]]
    if form:
        assert [rule["name"] for rule in json.loads(out)["rules"]] == names
    else:
        rows = out.decode().splitlines()
        assert [row.split()[0] for row in rows[1:4]] == names
        assert rows[-1] == "3 held, 0 broken, 0 not applicable, 0 undecided"
    assert not list(tmp_path.iterdir())
