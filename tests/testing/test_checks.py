import ast
import inspect
import re
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
from typing_extensions import override

from testing.broken import BROKEN, BUGS
from testing.broken.plugin import Broken
from testing.correct import Manifests, Packed
from testing.layouts import LAYOUTS
from tieredfs import (
    Capability,
    LogSegmentData,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    testing,
)
from tieredfs.errors import AlreadyExistsError
from tieredfs.storage.contract.author import StorageLayout
from tieredfs.storage.contract.verification import StorageVerification
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import CHECKS, Check, MakeStorage, case, copies, deleting, reads
from tieredfs.testing.rule import BrokenRuleError, NotApplicableError, checks_in
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import scratch_store

SURFACES = (StorageLayout, RemoteStorageManager, StorageVerification)

_RULE = """
from tieredfs.storage import Capability
from tieredfs.testing.rule import Case, rule

@rule(Capability.WRITE)
def check_it_is_blue(case: Case) -> None: ...
"""


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_a_broken_storage_is_found_and_the_sentence_says_what_is_wrong(
    broken: Broken,
) -> None:
    with pytest.raises(BrokenRuleError) as told:
        broken.check(broken.make)
    assert re.search(broken.said, told.value.how, re.DOTALL)
    assert told.value.rule == broken.check.sentence
    assert str(told.value) == f"{told.value.rule} {told.value.how}"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [Manifests, Packed])
def test_a_correct_plugin_of_another_kind_breaks_no_rule(
    make: MakeStorage, check: Check
) -> None:
    check(make)


def test_each_check_was_seen_to_find_something() -> None:
    assert {broken.check for broken in BROKEN} == set(CHECKS)


def test_every_public_name_of_the_contract_is_used_by_a_rule() -> None:
    used = {
        node.attr
        for module in (
            *(sys.modules[one.__module__] for one in CHECKS),
            case,
            copies,
            reads,
        )
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
    }
    public = {name for one in SURFACES for name in vars(one) if name[0] != "_"}
    assert len(public) > 30
    assert not public - used


def test_every_method_that_reads_is_made_while_requests_fail() -> None:
    storage = KafkaLocal(ObjectStore("memory://never-asked"))
    calls = reads.every_read(storage, sample(PARTITIONS[0], 0).metadata)
    named = {name.split()[0] for name in calls}
    asked = {name for one in SURFACES for name in vars(one) if name[0] != "_"}
    without_requests = {
        *("capabilities", "close", "describe", "with_policy", "recognises", "identity"),
        *("name_of", "is_active", "is_end_checked", "note_checked_end"),
        "is_layout_current",
        "with_observer",
        *("highest_epoch", "is_txn_index_empty", "check_key", "plan_fetch"),
        *("keeps_topic_ids", "log_checksum"),
    }
    writes = {
        name for name in asked if name.split("_")[0] in {"copy", "append", "replace"}
    } | {"delete_log_segment", "delete_partition", "cancel_copying"}
    assert asked - without_requests - writes == named - {"describe"}


@pytest.mark.parametrize(
    "check",
    [
        testing.check_foreign_objects_are_skipped,
        testing.check_malformed_names_are_skipped,
        testing.check_errors_are_typed,
        testing.check_short_object_is_an_error,
    ],
    ids=lambda check: check.__name__,
)
def test_what_needs_no_copy_is_asked_of_a_layout_that_is_read_only(
    check: Check,
) -> None:
    check.apply(LAYOUTS["kafka-log-epochs"])


def test_every_check_is_public_and_named() -> None:
    public = {name for name in testing.__all__ if name.startswith("check_")}
    assert {check.__name__ for check in CHECKS} == public
    assert len(CHECKS) == len(public)
    assert all(getattr(testing, check.__name__) is check for check in CHECKS)


def test_a_check_is_found_in_the_module_that_defines_it() -> None:
    module = ModuleType("tieredfs.testing.colours")
    exec(_RULE, vars(module))  # noqa: S102 - what a file of rules has
    (check,) = checks_in(module)
    assert check.__name__ == "check_it_is_blue"
    assert check.needs == {Capability.WRITE}
    module.check_ranges_are_exact = testing.check_ranges_are_exact  # type: ignore[attr-defined] # as by an import
    assert list(checks_in(module)) == [check]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_rule_is_one_sentence_that_a_person_can_read(check: Check) -> None:
    assert check.sentence.endswith(".")
    assert len(check.sentence) > 20
    assert "``" not in check.sentence


_CONTRACT = Path(__file__).parents[2] / "docs" / "reference" / "plugin-contract.md"
_HEADING = re.compile(r"^(?:##|- \*\*) ?([\w ]+)", re.MULTILINE)
_HEADINGS = set(_HEADING.findall(_CONTRACT.read_text()))
_SURFACES: dict[str, type] = {
    "What an author implements": StorageLayout,
    "What a user calls": RemoteStorageManager,
    "What verification asks": StorageVerification,
    "Values and functions": Capability,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_rule_names_its_source(check: Check) -> None:
    """A proposal of Kafka, or a heading of the contract and what stands there."""
    (source,) = re.findall(r"^ *Source: (.+)\.$", check.__doc__ or "", re.MULTILINE)
    where, *what = source.split(", ")
    if where != "the plugin contract":
        assert where in {"KIP-405", "KIP-1002"}
        assert what
        return
    heading, *names = what
    assert heading in _HEADINGS
    assert heading not in _SURFACES or names
    for name in names:
        assert hasattr(_SURFACES[heading], name.strip("`"))


def test_what_a_layout_cannot_do_is_not_tested(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "store"))
    writing = [check for check in CHECKS if Capability.WRITE in check.needs]
    assert testing.check_copy_is_one_write in writing
    for check in writing:

        def make(store: ObjectStore) -> KafkaLocal:
            storage = KafkaLocal(store)
            storage.capabilities = frozenset()
            return storage

        check(make, store)
    assert not list(store.list())


def test_more_requests_than_are_tried_are_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(case, "_MAX_REQUESTS", 3)
    with pytest.raises(BrokenRuleError, match="sent 3 requests or more: too many"):
        testing.check_copy_that_returns_is_whole(KafkaLocal)
    with pytest.raises(BrokenRuleError, match="sent 3 requests or more: too many"):
        testing.check_copy_is_visible_only_whole(KafkaLocal)
    testing.check_copy_that_returns_is_whole(SingleObject)


def test_a_plugin_that_bypasses_the_store_is_not_said_to_survive_its_failures() -> None:
    with scratch_store() as place:

        def make(store: ObjectStore) -> SingleObject:
            del store
            return SingleObject(place)

        for check in (
            testing.check_copy_that_returns_is_whole,
            testing.check_transient_errors_are_raised,
            testing.check_store_errors_pass_through,
            testing.check_range_costs_no_more,
        ):
            with pytest.raises(NotApplicableError, match="through the given store"):
                check.apply(make)


def test_each_bug_that_authors_make_is_of_a_plugin_of_its_own() -> None:
    assert len(BUGS) == len({broken.make for broken in BUGS.values()}) == 21
    assert len(BUGS) == len([broken for broken in BROKEN if broken.bug])


def test_a_segment_of_two_objects_may_be_deleted_whole() -> None:
    """As where two writers of the native layout have another compression each."""
    numbers = count()

    def make(store: ObjectStore) -> SingleObject:
        return SingleObject(store, compression="zstd" if next(numbers) % 2 else None)

    testing.check_delete_removes_every_copy(make)


def test_a_check_asks_the_store_that_it_is_given(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "store"))
    testing.check_copy_is_idempotent(SingleObject, store)
    assert list(store.list())


def test_nothing_is_left_where_no_store_is_given() -> None:
    stores: list[ObjectStore] = []

    def make(store: ObjectStore) -> SingleObject:
        stores.append(store)
        return SingleObject(store)

    testing.check_copy_is_idempotent(make)
    assert stores
    assert not [entry for store in stores for entry in store.list()]


class MarksItsStore(SingleObject):
    """Writes the version of its format once, at the root of the store."""

    capabilities = SingleObject.capabilities - {Capability.ATOMIC_COPY}

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        custom = super().copy_log_segment(metadata, data)
        with suppress(AlreadyExistsError):
            self.store.put("format.json", b"1", overwrite=False)
        return custom


def test_what_a_layout_keeps_for_good_is_not_left_over() -> None:
    for check in checks_in(deleting):
        check(MarksItsStore)
