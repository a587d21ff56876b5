"""A store with other options: what it shares with the original, and what not."""

import pytest

from tieredfs import InvalidArgumentError, ObjectStore
from tieredfs.objects import DryRunStore
from tieredfs.options import DEFAULTS, Options

FEW = Options(max_concurrent_requests=1)


class Counting(ObjectStore):
    calls = 0


def test_a_view_with_other_options_shares_all_else(memory: ObjectStore) -> None:
    store = Counting(memory.url)
    store.calls = 7
    view = store.with_options(FEW)
    assert (view.options, store.options) == (FEW, DEFAULTS)
    assert (type(view), view.calls, view.policy) == (Counting, 7, store.policy)
    assert view._requests.connection is store._requests.connection
    view.put("a", b"1", overwrite=True)
    assert store.get("a") == b"1"


def test_a_view_of_a_dry_run_writes_nothing(memory: ObjectStore) -> None:
    memory.put("a", b"1", overwrite=True)
    store = DryRunStore.over(memory)
    view = store.with_options(FEW)
    view.delete(["a"])
    assert [*store.list()] == [*view.list()] == []
    assert memory.get("a") == b"1"


def test_options_of_another_class_are_refused(memory: ObjectStore) -> None:
    with pytest.raises(InvalidArgumentError, match="options=Options"):
        memory.with_options({"max_concurrent_requests": 1})  # type: ignore[arg-type] # which is what is wrong
