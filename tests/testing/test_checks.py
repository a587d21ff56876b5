from pathlib import Path
from types import ModuleType

import pytest

from testing.broken import BROKEN, Broken
from tieredfs import Capability, ObjectStore, testing
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import CHECKS, Check
from tieredfs.testing.rule import checks_in

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
    with pytest.raises(AssertionError, match=f"(?s){broken.said}") as told:
        broken.check(broken.make)
    rule = (broken.check.__doc__ or "").partition("\n")[0]
    assert str(told.value).startswith(f"{rule} ")


def test_each_check_was_seen_to_find_something() -> None:
    assert {broken.check for broken in BROKEN} == set(CHECKS)


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
    rule = (check.__doc__ or "").partition("\n")[0]
    assert rule.endswith(".")
    assert len(rule) > 20


def test_what_a_layout_cannot_do_is_not_asked(tmp_path: Path) -> None:
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
