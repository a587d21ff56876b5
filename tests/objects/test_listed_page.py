"""A listing by the page has the objects that a listing of entries has."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import ListedPage, ObjectInfo, ObjectStore, UnsupportedOperationError
from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.backends.listing import EntryColumns, Listing, Page
from tieredfs.objects.keys import are_keys, is_key, is_probe
from tieredfs.objects.listed_page import check_page

PARTS = st.sampled_from(
    [
        *("a", "b", ".", "..", "", ".a", "a.", "\n", "a\nb", "\0", "\\", "\ud800"),
        ".tieredfs-probe-0123456789abcdef",
        "é",
    ]
)
KEYS = st.lists(PARTS, max_size=4).map("/".join)


@given(keys=st.lists(KEYS, max_size=4))
def test_plainly_valid_keys_are_valid_one_by_one(keys: list[str]) -> None:
    if are_keys(keys):
        assert all(is_key(key) and not is_probe(key) for key in keys)


def test_the_keys_of_segments_are_plainly_valid() -> None:
    assert are_keys([f"orders/{'A' * 22}/0/{n:020d}.segment" for n in range(9)])


def one_by_one(keys: list[str], listing: Listing, last: str) -> list[str] | None:
    """Return the keys that each, by itself, belong to a page; None for an error."""
    found = []
    for key in keys:
        if not key.startswith(listing.prefix) or key <= listing.start_after:
            continue
        if not is_key(key) or is_probe(key) or key == last:
            continue
        if key < last:
            return None
        last = key
        found.append(key)
    return found


@given(
    keys=st.lists(KEYS, max_size=6) | st.lists(KEYS, max_size=6).map(sorted),
    prefix=st.sampled_from(["", "a", "a/"]),
    after=st.sampled_from(["", "a", "b/a"]),
    data=st.data(),
)
def test_a_page_keeps_what_each_of_its_entries_would_keep(
    keys: list[str], prefix: str, after: str, data: st.DataObject
) -> None:
    listing = Listing(prefix, after, "")
    last = max(after, data.draw(st.sampled_from(["", *keys])))
    columns = EntryColumns(keys, list(range(len(keys))), ["v"] * len(keys))
    expected = one_by_one(keys, listing, last)
    for entries in (columns, list(columns)):
        if expected is None:
            with pytest.raises(UnsupportedOperationError, match="key order"):
                check_page(Page(entries), listing, last, "s3://b")
            continue
        page = check_page(Page(entries), listing, last, "s3://b")
        assert [entry.key for entry in page.entries] == list(page.keys()) == expected
        assert [entry.size for entry in page.entries] == list(page.sizes())


class TestAStore:
    KEYS = ("a", "b/1", "b/2", "c")

    @pytest.fixture
    def store(self, memory: ObjectStore) -> ObjectStore:
        for number, key in enumerate(self.KEYS):
            memory.put(key, bytes(number), overwrite=True)
        return memory

    def test_a_page_has_keys_and_sizes(self, store: ObjectStore) -> None:
        assert list(store.list_pages("b/")) == [ListedPage(["b/1", "b/2"], [1, 2])]

    def test_a_page_begins_after_a_key(self, store: ObjectStore) -> None:
        (page,) = store.list_pages(start_after="b/1")
        assert page.keys == ["b/2", "c"]

    def test_an_invalid_prefix_is_refused_by_the_call(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidArgumentError, match="invalid prefix"):
            store.list_pages("/a")

    def test_a_store_that_lists_other_objects_has_them_on_its_pages(
        self, store: ObjectStore
    ) -> None:
        class Lone(ObjectStore):
            def list(
                self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
            ) -> Iterator[ObjectInfo]:
                del prefix, start_after, delimiter
                return iter([ObjectInfo("lone", 7)])

        assert list(Lone(store.url).list_pages()) == [ListedPage(["lone"], [7])]
