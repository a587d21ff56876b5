"""Reading: exactly the requested bytes, or an error."""

from functools import partial
from itertools import pairwise

import pytest

from objects.guarantees.model import guarantee
from objects.subject import Subject
from support.stores import CLOUDS, SECOND
from tieredfs import ByteRange, CorruptObjectError, NotFoundError
from tieredfs.objects import StoreCapability

CONTENT = bytes(range(256)) * 40
SIZE = len(CONTENT)
FILES = {"folder/object": CONTENT, "folder/empty": b""}

ODD = [
    *("a b", "ä/ö", "a+b", "a%20b", "a#b", "a?b", "a?versionId=null", "a*b[c]"),
    *("a&b=c", "a:b", "a~b", "...", ".hidden", "-", "~", "日本/語", "a'b", 'a"b'),
    *("x" * 200, "{a}", "a;b", "a@b", "a,b", "$HOME", "a=b/c=d"),
]


@guarantee("ranges are exact", given=FILES)
def exact_ranges(subject: Subject) -> None:
    """`get_range(key, start, end)` returns the bytes from `start` up to, but not
    including, `end`; an empty range makes no request.
    """
    store = subject.store
    for start, end in [*pairwise((0, 1, 255, 4096, SIZE - 1, SIZE)), (0, SIZE)]:
        assert store.get_range("folder/object", start, end) == CONTENT[start:end]
    subject.events.clear()
    assert store.get_range("folder/object", 7, 7) == b""
    assert store.get_ranges("folder/object", []) == []
    assert not subject.events


@guarantee(
    "a range moves only its bytes",
    places=(*CLOUDS, *SECOND, "webhdfs", "http"),
    needs=StoreCapability.RANGE_READ,
    given=FILES,
)
def range_moves_its_bytes(subject: Subject) -> None:
    """Reading a range of a large object does not fetch the rest of it."""
    with subject.proxied() as (store, proxy):
        assert store.get_range("folder/object", 10, 20) == CONTENT[10:20]
        assert sum(request.moved for request in proxy.requests()) == 10


@guarantee("an object that is too short is an error", given=FILES)
def short_object(subject: Subject) -> None:
    """A range past the end of the object is a `CorruptObjectError` that names the
    object and the range; never fewer bytes, never other bytes.
    """
    for key, start, end in [
        ("folder/object", 0, SIZE + 1),
        ("folder/object", SIZE - 1, SIZE + 1),
        ("folder/object", SIZE, SIZE + 1),
        ("folder/object", SIZE + 1000, SIZE + 1001),
        ("folder/empty", 0, 1),
    ]:
        with pytest.raises(CorruptObjectError) as caught:
            subject.store.get_range(key, start, end)
        assert key in str(caught.value)
        assert f"[{start}, {end})" in str(caught.value)
    spans = [ByteRange(0, 5), ByteRange(SIZE, SIZE + 1)]
    with pytest.raises(CorruptObjectError):
        subject.store.get_ranges("folder/object", spans)


@guarantee("several ranges are exact", given=FILES)
def several_ranges(subject: Subject) -> None:
    """`get_ranges` returns the ranges in the order given; they may overlap, repeat and
    be empty. It returns all of them or raises.
    """
    spans = [
        *(ByteRange(start, start + 64) for start in range(SIZE - 64, 0, -1013)),
        *(ByteRange(5, 5), ByteRange(0, 9), ByteRange(3, 12), ByteRange(0, 9)),
        ByteRange(0, SIZE),
    ]
    found = subject.store.get_ranges("folder/object", spans)
    assert found == [CONTENT[span.start : span.end] for span in spans]


@guarantee("whole objects are exact", given=FILES)
def whole_objects(subject: Subject) -> None:
    """`get` returns all of an object, even an empty one; the result is read-only."""
    for key, content in FILES.items():
        found = subject.store.get(key)
        assert found == content
        assert found.readonly


@guarantee("`head` returns size and version", given=FILES)
def size_and_version(subject: Subject) -> None:
    """`head` returns the size, and the same version as the listing."""
    for key, content in FILES.items():
        found = subject.store.head(key)
        assert (found.key, found.size) == (key, len(content))
        assert found.version
        assert [found] == list(subject.store.list(key))


@guarantee("a missing object is not found", given=FILES)
def missing_object(subject: Subject) -> None:
    """`get`, `get_range`, `get_ranges` and `head` raise `NotFoundError`, even for the
    name of a folder.
    """
    store = subject.store
    for key in ("folder/missing", "missing", "folder", "no/such/folder"):
        for call in (
            partial(store.get, key),
            partial(store.get_range, key, 0, 1),
            partial(store.get_ranges, key, [ByteRange(0, 1)]),
            partial(store.head, key),
        ):
            with pytest.raises(NotFoundError, match=key):
                call()


@guarantee("keys are any text", given={key: key.encode() for key in ODD})
def any_text(subject: Subject) -> None:
    """Spaces, `%`, `#`, `?`, `*`, quotes, letters of any script: every verb takes a key
    literally.
    """
    store = subject.store
    for key in ODD:
        content = key.encode()
        assert store.get(key) == content
        assert store.get_range(key, 0, 1) == content[:1]
        assert store.head(key).size == len(content)
        assert subject.keys(key) == [key]
    assert subject.keys() == sorted(ODD)
    if subject.can(StoreCapability.WRITE):
        for key in ODD:
            store.copy(key, f"copy/{key}")
        assert store.get(f"copy/{ODD[0]}") == ODD[0].encode()
        assert subject.keys("copy/") == [f"copy/{key}" for key in sorted(ODD)]
        store.delete([*ODD, *(f"copy/{key}" for key in ODD)])
        assert subject.keys() == []
