"""The machine passes on every backend, and finds what is wrong with broken stores."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from urllib.parse import unquote

import pytest
from hypothesis.errors import FlakyFailure
from typing_extensions import override

from support.stores import make_place, open_store
from testing.running import run_machine, run_once
from tieredfs import AlreadyExistsError, ByteRange, NotFoundError, ObjectStore
from tieredfs.objects import Content, ObjectInfo
from tieredfs.objects.content import BufferContent
from tieredfs.objects.keys import check_keys, check_target
from tieredfs.testing import store_machine_test
from tieredfs.testing.object_store_machine.machine import object_store_machine
from tieredfs.testing.stores import scratch_store

UNNESTED = ("a0", "ab/c", "b/x", "b/y", "d e", "a%20b", "a+b", "~", "é/ü", "日本")
"""No folder has a sibling whose name begins like its own: after such a one SeaweedFS
lists too little, which no client can see."""

Data = bytes | bytearray | memoryview


@contextmanager
def local_store() -> Iterator[ObjectStore]:
    with TemporaryDirectory() as folder:
        yield ObjectStore(f"{folder}/root")


TestMemory = store_machine_test(examples=30)
TestLocal = store_machine_test(local_store, examples=20)


@pytest.mark.parametrize(
    ("kind", "examples"), [("s3", 3), ("gcs", 8), ("azure", 8), ("zip", 5)]
)
def test_the_machine_passes_on_other_stores(
    kind: str, examples: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there = {"a": b"there", "a/b": bytes(5000)} if kind == "zip" else None

    @contextmanager
    def opened() -> Iterator[ObjectStore]:
        yield open_store(make_place(kind, request, tmp_path, there))

    plain = {"keys": UNNESTED} if kind == "s3" else {}
    run_machine(store_machine_test(opened, examples=examples, steps=15, **plain))


class CreatesAnyway(ObjectStore):
    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        super().put(key, data, overwrite=True)


class LooksBeforeItCreates(ObjectStore):
    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        check_target(key)
        if not overwrite and any(info.key == key for info in self.list(key)):
            raise AlreadyExistsError(key)
        if not overwrite:
            sleep(0.01)  # what the other creator needs to look as well
        super().put(key, data, overwrite=True)


class ListsOnePage(ObjectStore):
    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return islice(found, 1000)


class ListsTwoKeys(ObjectStore):
    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return islice(found, 2)


class ListsBackwards(ObjectStore):
    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return reversed([*found])


class ListsFromTheKeyOn(ObjectStore):
    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, delimiter=delimiter)
        return (info for info in found if info.key >= start_after)


class ListsOnce(ObjectStore):
    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        asked = f"{prefix}\0{start_after}\0{delimiter}"
        known = vars(self).setdefault("known", {})
        if asked not in known:
            found = super().list(prefix, start_after=start_after, delimiter=delimiter)
            known[asked] = [*found]
        return iter(known[asked])


class CountsTheEndIn(ObjectStore):
    @override
    def get_range(self, key: str, start: int, end: int) -> memoryview:
        return super().get_range(key, start, end)[: end - start - 1]


class MixesRanges(ObjectStore):
    @override
    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[memoryview]:
        return super().get_ranges(key, sorted(ranges))


class CutsRanges(ObjectStore):
    @override
    def get_range(self, key: str, start: int, end: int) -> memoryview:
        if start < 0 or end < start:
            return super().get_range(key, start, end)
        size = self.head(key).size or 0
        return super().get_range(key, min(start, size), min(end, size))


class ReadsOnce(ObjectStore):
    @override
    def get(self, key: str) -> memoryview:
        known: dict[str, memoryview] = vars(self).setdefault("known", {})
        if key not in known:
            known[key] = super().get(key)
        return known[key]


class FindsMissingEmpty(ObjectStore):
    @override
    def get(self, key: str) -> memoryview:
        try:
            return super().get(key)
        except NotFoundError:
            return memoryview(b"")


class DeletesByPrefix(ObjectStore):
    @override
    def delete(self, keys: Iterable[str]) -> None:
        for key in check_keys(keys):
            super().delete([info.key for info in self.list(key)])


class DeletesTheFirst(ObjectStore):
    @override
    def delete(self, keys: Iterable[str]) -> None:
        super().delete(check_keys(keys)[:1])


class AcknowledgesTooEarly(ObjectStore):
    """Writes with the next call of the same handle, which may never come."""

    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        check_target(key)
        BufferContent(data)
        self.flush()
        vars(self)["waiting"] = partial(super().put, key, data, overwrite=overwrite)

    @override
    def get(self, key: str) -> memoryview:
        self.flush()
        return super().get(key)

    def flush(self) -> None:
        waiting = vars(self).pop("waiting", None)
        if waiting is not None:
            waiting()


class WritesInPlace(ObjectStore):
    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        if overwrite and len(data) > 1:
            super().put(key, data[: len(data) // 2], overwrite=True)
            sleep(0.005)
        super().put(key, data, overwrite=overwrite)


class LeavesTheOldEnd(ObjectStore):
    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        BufferContent(data)
        old = b""
        with suppress(NotFoundError):
            old = bytes(self.get(key)) if overwrite else b""
        super().put(key, bytes(data) + old[len(data) :], overwrite=overwrite)


class PutsWhatItCouldRead(ObjectStore):
    @override
    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        try:
            super().put_file(key, source, overwrite=overwrite)
        except ValueError:
            self.put(key, b"cut", overwrite=overwrite)
            raise


class KnowsNoVersions(ObjectStore):
    @override
    def head(self, key: str) -> ObjectInfo:
        return replace(super().head(key), version="1")

    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        found = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return (replace(info, version="1") for info in found)


class DecodesKeys(ObjectStore):
    @override
    def put(self, key: str, data: Data, *, overwrite: bool) -> None:
        super().put(unquote(key), data, overwrite=overwrite)


class TakesAnyKey(ObjectStore):
    @override
    def get(self, key: str) -> memoryview:
        return super().get(key.strip("/") or "a")


BROKEN = {
    CreatesAnyway: "a create does not overwrite|one of several concurrent creates wins",
    LooksBeforeItCreates: "one of several concurrent creates wins",
    ListsTwoKeys: "a listing is complete: .* lacks",
    ListsBackwards: "a listing is sorted",
    ListsFromTheKeyOn: "a listing has nothing else: .*start_after",
    ListsOnce: "a listing is (complete|never stale)|describes an object as a listing",
    CountsTheEndIn: "a read is exact: .* get_range",
    MixesRanges: "a read is exact: .* of get_ranges",
    CutsRanges: "a range past the end is an error",
    ReadsOnce: "a read is never stale|a deleted object is not found",
    FindsMissingEmpty: "a missing object is not found",
    DeletesByPrefix: "a listing is complete: after delete.* lacks",
    DeletesTheFirst: "a listing is never stale: after delete",
    AcknowledgesTooEarly: "after (a )?put.*(lacks|earlier content|it has)",
    WritesInPlace: "a reader sees whole objects",
    LeavesTheOldEnd: "a size is that of the object|a reader sees whole objects",
    PutsWhatItCouldRead: "after put_file.*failing",
    KnowsNoVersions: "a new content has a new version",
    DecodesKeys: "a listing (is complete|has nothing else): .*%|one of several creates",
    TakesAnyKey: "a wrong argument is refused",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_store_is_found(broken: type[ObjectStore]) -> None:
    @contextmanager
    def opened() -> Iterator[ObjectStore]:
        with scratch_store() as store:
            yield broken(store.url)

    with pytest.raises((AssertionError, FlakyFailure)) as found:
        run_once(store_machine_test(opened))
    # A race that is won the second time is Flaky, for what was found the first time.
    texts = [str(found.value), *map(str, getattr(found.value, "exceptions", ()))]
    assert re.search(BROKEN[broken], "\n".join(texts))


def test_a_store_that_lists_one_page_is_found() -> None:
    """By the step itself: 1001 objects are put in few of the examples."""

    @contextmanager
    def opened() -> Iterator[ObjectStore]:
        with scratch_store() as store:
            yield ListsOnePage(store.url)

    machine = object_store_machine(opened, ("a",))()
    machine.begin(["a"])
    machine.put_a_crowd(3, 0)
    with pytest.raises(AssertionError, match="a listing is complete"):
        machine.put_a_crowd(1001, 0)
    machine.teardown()
