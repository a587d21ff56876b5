"""Two hundred races of sixteen that create one key: exactly one wins each."""

from pathlib import Path

import pytest

from objects.racing import race
from proofs.extent import extent
from support.stores import CLOUDS, make_place, open_store
from tieredfs import UnsupportedOperationError
from tieredfs.objects import StoreCapability

RACES = extent(200, 2)
SIZES = (17, 100_000)
KINDS = ("local", "memory", *CLOUDS, "s3-moto")


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_sixteen_creators_wins_each_race(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place(kind, request, tmp_path))
    assert StoreCapability.EXCLUSIVE_CREATE in store.probe_capabilities()
    won = {}
    for number in range(RACES):
        key = f"races/{number:03d}"
        won[key] = race(store, key, size=SIZES[number % 2])
    winners = [len(contents) for contents in won.values()]
    assert winners == [1] * RACES
    for key, (content,) in won.items():
        assert store.get(key) == content
    assert [entry.key for entry in store.list()] == sorted(won)


def test_where_nobody_can_be_first_nobody_is_and_nothing_is_overwritten(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place("s3-rclone", request, tmp_path))
    assert StoreCapability.EXCLUSIVE_CREATE not in store.probe_capabilities()
    store.put("old", b"old", overwrite=True)
    for key in ("old", "new"):
        for number in range(RACES):
            with pytest.raises(UnsupportedOperationError, match="exclusive create"):
                store.put(key, str(number).encode(), overwrite=False)
    assert store.get("old") == b"old"
    assert [entry.key for entry in store.list()] == ["old"]
