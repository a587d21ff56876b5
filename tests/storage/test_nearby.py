"""A URL that is a level off is answered with the right one."""

from pathlib import Path

import pytest

from support.kafka_data import KAFKA, REMOTE
from support.log_directories import recorded
from tieredfs import (
    InvalidArgumentError,
    ObjectStore,
    UnsupportedFormatError,
    open_storage,
    open_tier,
)
from tieredfs.log.push.push import push
from tieredfs.storage import check_layout
from tieredfs.storage.plugins.nearby import nearby_urls


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A folder with a tier in each layout, and with another folder."""
    log = open_storage(
        ObjectStore(str(recorded("epochs", tmp_path / "kafka-log"))), "kafka-log"
    )
    (tmp_path / "kafka-local").symlink_to(KAFKA / "plain" / REMOTE)
    archive = open_storage(
        ObjectStore(str(tmp_path / "single-object")), "single-object"
    )
    push(log, archive, log.list_partitions())
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"\xff\xd8")
    return tmp_path


def inside(tier: Path, count: int) -> Path:
    """Return a folder of a tier, some levels below it."""
    for _ in range(count):
        tier = min(path for path in tier.iterdir() if path.is_dir())
    return tier


@pytest.mark.parametrize(
    ("layout", "levels"),
    [
        ("kafka-log", 1),
        ("kafka-local", 1),
        ("single-object", 1),
        ("single-object", 2),
        ("single-object", 3),
    ],
)
def test_a_folder_of_a_tier_is_answered_with_the_tier(
    layout: str, levels: int, parent: Path
) -> None:
    tier = (parent / layout).resolve()
    folder = inside(tier, levels)
    store = ObjectStore(str(folder))
    said = f"{folder}: no tier begins here: give {tier}"
    with pytest.raises(InvalidArgumentError) as found_out:
        open_storage(store)
    with pytest.raises(InvalidArgumentError) as named:
        check_layout(open_storage(store, layout))
    assert (str(found_out.value), str(named.value)) == (said, said)


@pytest.mark.filterwarnings("ignore:.*symbolic links are ignored")
def test_the_folder_above_is_answered_with_the_tiers_in_it(parent: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_tier(str(parent))
    wanted = f"give {parent}/kafka-log or {parent}/single-object"
    assert str(caught.value) == f"{parent}: no tier begins here: {wanted}"


def test_nothing_is_suggested_where_no_tier_is_near(parent: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"first are 1\.jpg"):
        open_tier(str(parent / "photos"))


@pytest.mark.parametrize(
    ("url", "keys", "tier", "found"),
    [
        ("s3://b/tier/x", ["1"], "x/1", ["s3://b/tier"]),
        ("s3://b/x", ["1"], "x/1", ["s3://b"]),
        ("s3://b/x/", ["1"], "x/1", ["s3://b"]),
        ("s3://b", ["x/1"], "b/x/1", []),  # a bucket is in no other
        ("s3://b", ["x/1", "y/1"], "1", ["s3://b/x", "s3://b/y"]),
        ("s3://b/", ["x/1"], "1", ["s3://b/x"]),
        ("/x", ["1"], "x/1", ["/"]),
        ("/", ["x/1"], "1", ["/x"]),
        ("file:///a/b/c/d", ["1"], "b/c/d/1", ["file:///a"]),
        ("/a/b/c/d/e", ["1"], "b/c/d/e/1", []),
        ("zip::s3://b/x/a.zip", ["y/1"], "1", []),
        ("memory://m", ["2"], "1", []),
        ("memory://m", [], "1", []),
    ],
)
def test_every_level_is_looked_at_by_the_keys_alone(
    url: str, keys: list[str], tier: str, found: list[str]
) -> None:
    assert nearby_urls(url, keys, lambda page: tier in page) == found


def test_above_comes_before_below() -> None:
    seen = nearby_urls("/a/b", ["c/1"], lambda page: page in {("b/c/1",), ("1",)})
    assert seen == ["/a"]
