"""The steps that put objects."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.errors import (
    AlreadyExistsError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.objects import Content, StoreCapability
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.options import Options
from tieredfs.testing.object_store_machine.draws import (
    BUFFERS,
    CONTENTS,
    HANDLES,
    ONE_KEY,
    SOURCES,
)
from tieredfs.testing.object_store_machine.outcomes import Outcomes
from tieredfs.testing.object_store_machine.samples import PiecewiseContent, noise
from tieredfs.testing.object_store_machine.state import can, can_create, can_write
from tieredfs.testing.rule import expect_error, require

__all__ = ["Puts"]

_MIB: Final = 1 << 20


class Puts(Outcomes):
    """A machine that puts objects."""

    @precondition(can_write)
    @rule(key=ONE_KEY, handle=HANDLES, content=CONTENTS, buffer=BUFFERS)
    def put(
        self, key: str, handle: int, content: bytes, buffer: Callable[[bytes], Any]
    ) -> None:
        """Put an object, or replace it."""
        said = self.says(f"put({key!r}, {len(content)} bytes)")
        store = self.handles[handle]
        self.expect_write(
            said, key, content, lambda: store.put(key, buffer(content), overwrite=True)
        )

    @precondition(can_create)
    @rule(key=ONE_KEY, handle=HANDLES, content=CONTENTS)
    def create(self, key: str, handle: int, content: bytes) -> None:
        """Put an object that must not exist yet."""
        said = self.says(f"put({key!r}, {len(content)} bytes, overwrite=False)")
        store = self.handles[handle]
        self.expect_create(
            said, key, content, lambda: store.put(key, content, overwrite=False)
        )

    @precondition(can_create)
    @rule(key=ONE_KEY, count=st.integers(2, 5), size=st.sampled_from([1, 100, 50_000]))
    def create_concurrently(self, key: str, count: int, size: int) -> None:
        """Let several threads create one key, by both handles."""
        if self.model.may_refuse(key):
            return
        said = self.says(f"{count} concurrent creates of {key!r}")
        contents = [noise(size, 100 + number) for number in range(count)]
        start = threading.Barrier(count)

        def created(number: int) -> bool:
            start.wait()
            store = self.handles[number % 2]
            try:
                store.put(key, contents[number], overwrite=False)
            except AlreadyExistsError:
                return False
            return True

        with DaemonExecutor(count) as pool:
            won = [*pool.map(created, range(count))]
        wanted = 0 if key in self.model.objects else 1
        # Two writers of the same bytes may both win, but these have bytes of their own.
        require(
            sum(won) == wanted,
            f"one of several concurrent creates wins, and none where the object exists:"
            f" of {said} {sum(won)} succeeded, not {wanted}",
        )
        if wanted:
            self.model.put(key, contents[won.index(True)])

    @precondition(can_write)
    @rule(prefix=ONE_KEY, handle=HANDLES, content=CONTENTS)
    def put_new(self, prefix: str, handle: int, content: bytes) -> None:
        """Put an object under a key that no other write has."""
        if self.model.may_refuse(f"{prefix}-"):
            return
        said = self.says(f"put_new('{prefix}-', {len(content)} bytes)")
        key = self.handles[handle].put_new(f"{prefix}-", content)
        require(
            key.startswith(f"{prefix}-") and len(key) == len(prefix) + 23,
            f"a new key is its prefix and 22 letters: {said} returned {key!r}",
        )
        require(
            key not in self.model.objects,
            f"a new key is no other object's: {said} returned {key!r}",
        )
        self.model.put(key, content)
        self.keys.append(key)

    @precondition(can_write)
    @rule(
        key=ONE_KEY,
        handle=HANDLES,
        content=CONTENTS,
        source=SOURCES,
        is_new=st.booleans(),
    )
    def put_file(
        self,
        key: str,
        handle: int,
        content: bytes,
        source: Literal["file", "content", "failing", "missing"],
        is_new: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Put an object from a file, or from what is read in pieces."""
        is_new = is_new and can_create(self)
        said = self.says(
            f"put_file({key!r}, {source} of {len(content)} bytes, "
            f"overwrite={not is_new})"
        )
        if source in {"content", "failing"}:
            content = content or b"not empty"  # nothing is read of what is empty
        given = self._source(source, content)
        put = partial(self.handles[handle].put_file, key, given, overwrite=not is_new)
        if source == "missing":
            expect_error(put, NotFoundError, f"a missing file is not found: {said}")
        elif source == "failing":
            self.expect_failure(said, put)
        elif is_new:
            self.expect_create(said, key, content, put)
        else:
            self.expect_write(said, key, content, put)
        if isinstance(given, Path):
            given.unlink(missing_ok=True)

    def _source(self, source: str, content: bytes) -> Path | Content:
        """Return what is put: a file, which may be missing, or a content."""
        if source in {"content", "failing"}:
            return PiecewiseContent(content, fails=source == "failing")
        path = self.folder / "source"
        if source == "file":
            path.write_bytes(content)
        return path

    @precondition(can(StoreCapability.WRITE, StoreCapability.PARTS))
    @rule(key=ONE_KEY, handle=HANDLES, seed=st.integers(0, 1))
    def put_in_parts(self, key: str, handle: int, seed: int) -> None:
        """Replace an object by one that is uploaded in parts, and that by a small one.

        The parts are as small as every store takes them.
        """
        if self.model.may_refuse(key):
            return
        content = noise(5 * _MIB + 1000, seed)
        said = self.says(f"put({key!r}, {len(content)} bytes in parts)")
        store = self.open_handle().with_options(
            Options(multipart_threshold_bytes=5 * _MIB)
        )
        store.put(key, content, overwrite=True)
        self.model.put(key, content)
        for other in (store, self.handles[handle]):
            self.model.check_content(f"get({key!r})", key, other.get(key))
        expect_error(
            lambda: store.put(key, content, overwrite=False),
            AlreadyExistsError if can_create(self) else UnsupportedOperationError,
            f"a create does not overwrite: {said}, overwrite=False,",
        )
        self.put(key, handle, b"small", bytes)

    @precondition(can_write)
    @rule(source=ONE_KEY, to=ONE_KEY, handle=HANDLES)
    def copy(self, source: str, to: str, handle: int) -> None:
        """Copy an object to another key, or what does not exist."""
        said = self.says(f"copy({source!r}, {to!r})")
        copy = partial(self.handles[handle].copy, source, to)
        content = self.model.objects.get(source)
        if content is None:
            expect_error(copy, NotFoundError, f"a missing object is not found: {said}")
        elif source != to:
            self.expect_write(said, to, content, copy)

    @precondition(can(StoreCapability.WRITE, StoreCapability.WHOLE_OBJECTS))
    @rule(key=ONE_KEY, content=CONTENTS)
    def replace_beside_a_reader(self, key: str, content: bytes) -> None:
        """Replace an object by one handle while the other one reads and lists it."""
        if key not in self.model.objects or self.model.may_refuse(key):
            return
        said = self.says(f"a put of {key!r} beside a reader")
        before = self.model.objects[key]
        writer, reader = self.handles
        with DaemonExecutor(1) as pool:
            ended = pool.submit(writer.put, key, content, overwrite=True)
            while True:
                is_over = ended.done()
                found = reader.get(key)
                require(
                    found in (before, content),
                    f"a reader sees whole objects: beside {said} it saw {len(found)} "
                    "bytes that are neither the old content nor the new one",
                )
                require(
                    key in {info.key for info in reader.list(key)},
                    f"a reader sees whole objects: beside {said} it was not listed",
                )
                if is_over:
                    break
        ended.result()
        self.model.put(key, content)
