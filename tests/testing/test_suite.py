import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import cast
from unittest import SkipTest

import pytest

from testing.broken import BROKEN
from testing.broken.plugin import Broken
from testing.layouts import read_only
from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import (
    CHECKS,
    Check,
    RemoteStorageTests,
    check_append_has_one_winner,
    check_copy_is_one_write,
    check_deleted_segment_is_gone,
    check_errors_are_typed,
    check_key_that_contradicts_the_log_is_found,
    check_read_only_refuses_to_write,
    replaces_rule,
    state_machine_test,
)
from tieredfs.testing.stores import scratch_store

TESTS = {f"test_{check.__name__.removeprefix('check_')}": check for check in CHECKS}


class Single(RemoteStorageTests):
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return SingleObject(store)


def run(tests: RemoteStorageTests, check: Check) -> None:
    """Run the test of a rule as pytest does."""
    with scratch_store() as store:
        getattr(tests, check.__name__.replace("check_", "test_", 1))(store)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_suite_finds_a_broken_storage_by_the_test_of_its_rule(
    broken: Broken,
) -> None:
    class Mine(RemoteStorageTests):
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return broken.make(store)

    with pytest.raises(AssertionError, match=f"(?s){broken.said}"):
        run(Mine(), broken.check)


def test_there_is_a_test_for_each_rule_which_has_its_words() -> None:
    found = {name for name in vars(RemoteStorageTests) if name.startswith("test_")}
    assert found == set(TESTS)
    for name, check in TESTS.items():
        test = getattr(RemoteStorageTests, name)
        assert test.__name__ == name
        assert test.__doc__ == check.__doc__


def test_what_does_not_apply_is_skipped_with_the_capability() -> None:
    class Kafka(RemoteStorageTests):
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return KafkaLocal(store)

    class Reads(RemoteStorageTests):
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return read_only(store)

    with pytest.raises(SkipTest, match=r"does not have ATOMIC_COPY$"):
        run(Kafka(), check_copy_is_one_write)
    with pytest.raises(SkipTest, match=r"does not have ATOMIC_COPY and WRITE$"):
        run(Reads(), check_copy_is_one_write)
    with pytest.raises(SkipTest, match=r"the layout has WRITE$"):
        run(Single(), check_read_only_refuses_to_write)
    run(Reads(), check_read_only_refuses_to_write)


def test_what_turns_out_not_to_apply_is_skipped_with_the_reason() -> None:
    class Kafka(RemoteStorageTests):
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            return KafkaLocal(store)

    for check, reason in {
        check_append_has_one_winner: "the layout cannot be appended to",
        check_key_that_contradicts_the_log_is_found: (
            "highest_epoch returned None of every segment"
        ),
    }.items():
        with pytest.raises(SkipTest, match=f"^not applicable: .*{reason}$"):
            run(Kafka(), check)
        check(KafkaLocal)  # called directly, it passes


def test_a_test_that_is_replaced_unknowingly_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Mine\.test_ranges_are_exact repl"):

        class Mine(Single):
            def test_ranges_are_exact(self) -> None:
                """As by accident."""

    with pytest.raises(InvalidArgumentError, match="test_ranges_are_exact replaces"):

        class Without(Single):
            test_ranges_are_exact = None

    class Mixin:
        def test_ranges_are_exact(self) -> None:
            """As by a class that knows nothing of the suite."""

    with pytest.raises(InvalidArgumentError, match="test_ranges_are_exact replaces"):

        class Mixed(Mixin, Single):
            pass


def test_a_test_is_replaced_by_one_that_says_why() -> None:
    class Mine(Single):
        @replaces_rule("it takes an hour here")
        def test_ranges_are_exact(self, tieredfs_store: ObjectStore) -> str:
            return tieredfs_store.url

        def test_of_its_own(self) -> None:
            """One that replaces nothing."""

    class Below(Mine):
        pass

    with scratch_store() as store:
        assert Below().test_ranges_are_exact(store) == store.url


def test_what_claims_to_replace_a_rule_has_to_replace_one() -> None:
    with pytest.raises(InvalidArgumentError, match="mean 'test_ranges_are_exact'"):

        class Mine(Single):
            @replaces_rule("of a misspelling")
            def test_range_are_exact(self) -> None:
                """A rule that was renamed."""

    with pytest.raises(InvalidArgumentError, match="needs a reason"):
        replaces_rule(" ")
    with pytest.raises(InvalidArgumentError, match=r"@replaces_rule\(\"…\"\)"):

        class Other(Single):
            test_ranges_are_exact = replaces_rule(cast("str", len))  # no parentheses


def test_objects_are_damaged_by_the_access_that_the_author_gives() -> None:
    class Seen(Single):
        """Remembers how the bytes were reached."""

        def __init__(self) -> None:
            self.used: set[str] = set()

        def raw_keys(self, store: ObjectStore) -> list[str]:
            self.used.add("keys")
            return super().raw_keys(store)

        def raw_get(self, store: ObjectStore, key: str) -> bytes:
            self.used.add("get")
            return super().raw_get(store, key)

        def raw_put(self, store: ObjectStore, key: str, data: bytes) -> None:
            self.used.add("put")
            super().raw_put(store, key, data)

        def raw_delete(self, store: ObjectStore, keys: Collection[str]) -> None:
            self.used.add("delete")
            super().raw_delete(store, keys)

    tests = Seen()
    run(tests, check_errors_are_typed)
    assert tests.used == {"keys", "get", "put", "delete"}


def test_a_plugin_that_keeps_its_objects_elsewhere_is_seen_not_to_delete() -> None:
    """What lies behind the back of the given store is found by raw access only."""
    with scratch_store() as place:

        class Elsewhere(Single):
            def raw_keys(self, store: ObjectStore) -> list[str]:
                return [*super().raw_keys(store), *super().raw_keys(place)]

        class Hoards(SingleObject):
            def delete_log_segment(self, metadata: SegmentMetadata) -> None:
                place.put(f"kept/{metadata.id}", b"a copy", overwrite=True)
                super().delete_log_segment(metadata)

        class Mine(Elsewhere):
            def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
                return Hoards(store)

        run(Elsewhere(), check_deleted_segment_is_gone)
        with pytest.raises(AssertionError, match="objects are left"):
            run(Mine(), check_deleted_segment_is_gone)


FILE = """
import pytest
from tieredfs import ObjectStore
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.testing import RemoteStorageTests

class TestMine(RemoteStorageTests):
    def make_storage(self, store):
        return KafkaLocal(store)

class TestElsewhere(TestMine):
    @pytest.fixture
    def tieredfs_store(self, tmp_path):
        return ObjectStore(str(tmp_path / "here"))

def test_nothing_is_wrong(tieredfs_store):
    assert not list(tieredfs_store.list())
"""


def test_pytest_runs_the_suite_in_memory_and_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-n0", "-p", "no:randomly"]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*command, "-k", "one_write or ranges_are or nothing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said
    for where in ("[memory]", "[local]"):
        assert f"::TestMine::test_ranges_are_exact{where} PASSED" in said
        assert f"::TestMine::test_copy_is_one_write{where} SKIPPED" in said
        assert f"::test_nothing_is_wrong{where} PASSED" in said
    assert "::TestElsewhere::test_ranges_are_exact PASSED" in said
    assert "SKIPPED [3]" in said
    assert "not applicable: the layout does not have ATOMIC_COPY" in said


def test_a_suite_without_make_storage_says_what_is_missing() -> None:
    class Misspelt(RemoteStorageTests):
        def make_stroage(self, store: ObjectStore) -> RemoteStorageManager:
            return SingleObject(store)

    with pytest.raises(InvalidArgumentError, match="has no method make_storage"):
        Misspelt().make_storage(ObjectStore("memory://none"))


def test_what_is_no_storage_is_said_to_be_none() -> None:
    class Mine(RemoteStorageTests):
        def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
            del store
            return cast("RemoteStorageManager", None)

    with pytest.raises(AssertionError, match="returned None, which is not"):
        run(Mine(), check_deleted_segment_is_gone)


def test_a_machine_of_a_plugin_instead_of_its_case_says_what_to_give() -> None:
    with pytest.raises(InvalidArgumentError, match=r"give a class whose make_storage"):
        state_machine_test(SingleObject)  # type: ignore[arg-type] # which is what is wrong
