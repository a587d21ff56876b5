"""Any calls of an object store in any order, against a dict of what it holds.

Two handles, each with connections of
its own, take turns, as two processes would. After every step a third one, that is new,
has to list exactly the objects of the model, and to read each to the byte. So these are
proved:

- what was put stays, whole, until it is replaced or deleted, whatever else is written;
- a read is exact, and a listing is complete, sorted and never stale, for each handle;
- of several creates of one key exactly one wins, and none where the object exists;
- a call that is refused says why by its error, and changes nothing.

What a store cannot do by its capabilities it has to refuse. A store with folders, such
as a disk, may refuse a key that is also the name of a folder. One that is read only is
asked about the objects that it is opened with.

A failure is printed as the shortest sequence of steps that hypothesis has found.
"""

import pickle
import threading
import unittest
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, Literal

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tieredfs.errors import (
    AlreadyExistsError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.model import ByteRange
from tieredfs.objects import Content, ObjectStore, StoreCapability
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.options import Options
from tieredfs.testing.object_model import ObjectModel
from tieredfs.testing.object_samples import PiecewiseContent, noise
from tieredfs.testing.refused_calls import WRITES, WRONG
from tieredfs.testing.rule import expect_error, require

__all__ = ["StoreMachine", "machine_test"]

_MIB: Final = 1 << 20


def machine_test(
    open_store: Callable[[], AbstractContextManager[ObjectStore]],
    keys: Sequence[str],
    examples: int | None,
    steps: int,
) -> type[unittest.TestCase]:
    """Return a test case of the machine; see ``store_machine_test``."""
    variables = {"setup": _Setup(open_store, tuple(keys))}
    machine: type[StoreMachine] = type("AnyStore", (StoreMachine,), variables)
    test: type[unittest.TestCase] = machine.TestCase
    test.settings = settings(  # type: ignore[attr-defined] # hypothesis reads it
        max_examples=settings().max_examples if examples is None else examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return test


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a machine is made of."""

    open_store: Callable[[], AbstractContextManager[ObjectStore]]
    keys: tuple[str, ...]


def _of_machine(draw: Callable[[Any], st.SearchStrategy[Any]]) -> Any:  # noqa: ANN401 - of hypothesis, which has no types for it
    """Draw what depends on the machine."""
    return st.runner().flatmap(draw)


HANDLES = st.integers(0, 1)
SOME_KEYS = _of_machine(
    lambda machine: st.lists(
        st.sampled_from(machine.setup.keys[:10]) | st.sampled_from(machine.setup.keys),
        min_size=4,
        max_size=8,
        unique=True,
    )
)
"""The keys of one sequence: few, so that steps meet at one key, and half of them among
the first, which begin with each other."""

ONE_KEY = _of_machine(lambda machine: st.sampled_from(machine.keys))
KEY_LISTS = _of_machine(
    lambda machine: st.lists(st.sampled_from([*machine.keys, "missing"]), max_size=4)
)
CONTENTS = (
    st.binary(max_size=20)
    | st.builds(noise, st.integers(0, 5000), st.integers(0, 9))
    | st.builds(noise, st.just(300_000), st.integers(0, 1))
)
BUFFERS = st.sampled_from([bytes, bytearray, memoryview])
SOURCES = st.sampled_from(["file", "content", "failing", "missing"])
PERMILLE = st.integers(0, 1000)
RANGES = st.lists(st.tuples(PERMILLE, PERMILLE), max_size=5)
BEGINNINGS = st.integers(0, 8)
"""How much of a key is taken for a prefix."""

COUNTS = st.sampled_from([*[3] * 59, 1001])
"""Of objects below one prefix; 1001 do not fit on one page of a listing."""


def _can(*needs: StoreCapability) -> Callable[[Any], bool]:
    """Return the condition that a store has capabilities."""
    return lambda machine: machine.capabilities.issuperset(needs)


def _cannot(capability: StoreCapability) -> Callable[[Any], bool]:
    """Return the condition that a store does not have a capability."""
    return lambda machine: capability not in machine.capabilities


_can_write = _can(StoreCapability.WRITE)
_can_create = _can(StoreCapability.WRITE, StoreCapability.EXCLUSIVE_CREATE)


class StoreMachine(RuleBasedStateMachine):
    """Two handles on one store, and all its verbs."""

    setup: ClassVar[_Setup]

    def __init__(self) -> None:
        """Begin with the store as it is opened."""
        super().__init__()
        self._open = ExitStack()
        self._store = self._open.enter_context(self.setup.open_store())
        self._folder = Path(self._open.enter_context(TemporaryDirectory()))
        self._handles = [self._made(), self._made()]
        self._is_checked = False
        self.capabilities = self._store.probe_capabilities()
        found = {e.key: bytes(self._store.get(e.key)) for e in self._store.list()}
        self.model = ObjectModel(found)
        self.keys = list(self.setup.keys)
        self._says("opening the store")

    def teardown(self) -> None:
        """Remove the store."""
        self._open.close()

    @initialize(keys=SOME_KEYS)
    def begin(self, keys: list[str]) -> None:
        """Choose the keys that this sequence is about."""
        self.keys = keys if _can_write(self) else [*self.model.objects, *keys]

    # What writers do.

    @precondition(_can_write)
    @rule(key=ONE_KEY, handle=HANDLES, content=CONTENTS, buffer=BUFFERS)
    def put(
        self, key: str, handle: int, content: bytes, buffer: Callable[[bytes], Any]
    ) -> None:
        """Put an object, or replace it."""
        said = self._says(f"put({key!r}, {len(content)} bytes)")
        store = self._handles[handle]
        self._write(
            said, key, content, lambda: store.put(key, buffer(content), overwrite=True)
        )

    @precondition(_can_create)
    @rule(key=ONE_KEY, handle=HANDLES, content=CONTENTS)
    def create(self, key: str, handle: int, content: bytes) -> None:
        """Put an object that must not exist yet."""
        said = self._says(f"put({key!r}, {len(content)} bytes, overwrite=False)")
        store = self._handles[handle]
        self._create(
            said, key, content, lambda: store.put(key, content, overwrite=False)
        )

    @precondition(_can_create)
    @rule(key=ONE_KEY, count=st.integers(2, 5), size=st.sampled_from([1, 100, 50_000]))
    def create_concurrently(self, key: str, count: int, size: int) -> None:
        """Let several threads create one key, by both handles."""
        if self.model.may_refuse(key):
            return
        said = self._says(f"{count} concurrent creates of {key!r}")
        contents = [noise(size, 100 + number) for number in range(count)]
        start = threading.Barrier(count)

        def created(number: int) -> bool:
            start.wait()
            store = self._handles[number % 2]
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

    @precondition(_can_write)
    @rule(prefix=ONE_KEY, handle=HANDLES, content=CONTENTS)
    def put_new(self, prefix: str, handle: int, content: bytes) -> None:
        """Put an object under a key that no other write has."""
        if self.model.may_refuse(f"{prefix}-"):
            return
        said = self._says(f"put_new('{prefix}-', {len(content)} bytes)")
        key = self._handles[handle].put_new(f"{prefix}-", content)
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

    @precondition(_can_write)
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
        is_new = is_new and _can_create(self)
        said = self._says(
            f"put_file({key!r}, {source} of {len(content)} bytes, "
            f"overwrite={not is_new})"
        )
        store, path = self._handles[handle], self._folder / "source"
        given: Path | Content = path
        if source == "file":
            path.write_bytes(content)
        elif source != "missing":
            content = content or b"not empty"  # nothing is read of what is empty
            given = PiecewiseContent(content, fails=source == "failing")
        put = partial(store.put_file, key, given, overwrite=not is_new)
        if source == "missing":
            expect_error(put, NotFoundError, f"a missing file is not found: {said}")
        elif source == "failing":
            self._fail(said, put)
        elif is_new:
            self._create(said, key, content, put)
        else:
            self._write(said, key, content, put)
        path.unlink(missing_ok=True)

    @precondition(_can(StoreCapability.WRITE, StoreCapability.PARTS))
    @rule(key=ONE_KEY, handle=HANDLES, seed=st.integers(0, 1))
    def put_in_parts(self, key: str, handle: int, seed: int) -> None:
        """Replace an object by one that is uploaded in parts, and that by a small one.

        The parts are as small as every store takes them.
        """
        if self.model.may_refuse(key):
            return
        content = noise(5 * _MIB + 1000, seed)
        said = self._says(f"put({key!r}, {len(content)} bytes in parts)")
        store = self._made(Options(multipart_threshold_bytes=5 * _MIB))
        store.put(key, content, overwrite=True)
        self.model.put(key, content)
        for other in (store, self._handles[handle]):
            self.model.check_content(f"get({key!r})", key, other.get(key))
        expect_error(
            lambda: store.put(key, content, overwrite=False),
            AlreadyExistsError if _can_create(self) else UnsupportedOperationError,
            f"a create does not overwrite: {said}, overwrite=False,",
        )
        self.put(key, handle, b"small", bytes)

    @precondition(_can_write)
    @rule(source=ONE_KEY, to=ONE_KEY, handle=HANDLES)
    def copy(self, source: str, to: str, handle: int) -> None:
        """Copy an object to another key, or what does not exist."""
        said = self._says(f"copy({source!r}, {to!r})")
        copy = partial(self._handles[handle].copy, source, to)
        content = self.model.objects.get(source)
        if content is None:
            expect_error(copy, NotFoundError, f"a missing object is not found: {said}")
        elif source != to:
            self._write(said, to, content, copy)

    @precondition(_can_write)
    @rule(keys=KEY_LISTS, handle=HANDLES)
    def delete(self, keys: list[str], handle: int) -> None:
        """Delete objects, of which some need not exist."""
        self._says(f"delete({keys})")
        self._handles[handle].delete(iter(keys))
        self.model.delete(keys)

    @precondition(_can_write)
    @rule(count=COUNTS, handle=HANDLES)
    def put_a_crowd(self, count: int, handle: int) -> None:
        """Put many objects below one prefix, list them and delete them."""
        said = self._says(f"put of {count} objects below 'crowd/'")
        store = self._handles[handle]
        keys = [f"crowd/{number:04}" for number in range(count)]
        with DaemonExecutor(8) as pool:
            put = partial(store.put, data=b"", overwrite=True)
            for key, _ in zip(keys, pool.map(put, keys), strict=True):
                self.model.put(key, b"")
        for after in ("", keys[1]):
            found = store.list("crowd/", start_after=after)
            self.model.check_listing(
                f"after {said} list('crowd/', start_after={after!r})",
                found,
                prefix="crowd/",
                start_after=after,
            )
        self._says(f"delete of {count} objects below 'crowd/'")
        store.delete(keys)
        self.model.delete(keys)

    @precondition(_can(StoreCapability.WRITE, StoreCapability.WHOLE_OBJECTS))
    @rule(key=ONE_KEY, content=CONTENTS)
    def replace_beside_a_reader(self, key: str, content: bytes) -> None:
        """Replace an object by one handle while the other one reads and lists it."""
        if key not in self.model.objects or self.model.may_refuse(key):
            return
        said = self._says(f"a put of {key!r} beside a reader")
        before = self.model.objects[key]
        writer, reader = self._handles
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

    # What readers do.

    @rule(handle=HANDLES)
    def get(self, handle: int) -> None:
        """Get every object whole, and its description, or what does not exist."""
        store = self._handles[handle]
        for key in self.keys:
            if key not in self.model.objects:
                self._miss(key, store)
                continue
            said = self._after(f"get({key!r})")
            self.model.check_content(said, key, store.get(key))
            info, (listed, *_) = store.head(key), store.list(key)
            self.model.check_info(self._after(f"head({key!r})"), info)
            require(
                info == listed,
                f"head describes an object as a listing does: of {key!r} came {info}, "
                f"listed is {listed}",
            )

    @rule(key=ONE_KEY, handle=HANDLES, ranges=RANGES)
    def get_ranges(
        self, key: str, handle: int, ranges: Sequence[tuple[int, int]]
    ) -> None:
        """Get ranges of an object, one by one and together, and some past its end."""
        store = self._handles[handle]
        if key not in self.model.objects:
            self._miss(key, store)
            return
        size = len(self.model.objects[key])
        spans = [
            ByteRange(*sorted((size * low // 1000, size * high // 1000)))
            for low, high in ranges
        ]
        together = store.get_ranges(key, spans)
        for found, span in zip(together, spans, strict=True):
            start, end = span.start, span.end
            said = self._after(f"[{start}, {end}) of get_ranges({key!r}, {spans})")
            self.model.check_part(said, key, found, start, end)
            said = self._after(f"get_range({key!r}, {start}, {end})")
            alone = store.get_range(key, start, end)
            self.model.check_part(said, key, alone, start, end)
        for start in {0, max(size - 1, 0), size, size + 1000}:
            end = max(size, start) + 1
            expect_error(
                partial(store.get_range, key, start, end),
                CorruptObjectError,
                f"a range past the end is an error: get_range({key!r}, {start}, {end}) "
                f"of {size} bytes",
            )

    @rule(
        prefix=ONE_KEY,
        beginning=BEGINNINGS,
        mark=ONE_KEY,
        handle=HANDLES,
        delimiter=st.sampled_from(["", "/"]),
        is_after=st.booleans(),
    )
    def list(
        self,
        prefix: str,
        beginning: int,
        mark: str,
        handle: int,
        delimiter: str,
        is_after: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """List the keys that begin as another one does, all or after a key."""
        begins, after = prefix[:beginning], mark if is_after else ""
        if begins in {".", ".."}:
            begins = ""  # no key is only that, and so it is no prefix of one
        said = self._after(
            f"list({begins!r}, start_after={after!r}, delimiter={delimiter!r})"
        )
        found = self._handles[handle].list(
            begins, start_after=after, delimiter=delimiter
        )
        self.model.check_listing(
            said, found, prefix=begins, start_after=after, delimiter=delimiter
        )
        self.model.check_listing(self._after("list()"), self._handles[handle].list())

    @rule(handle=HANDLES)
    def restart(self, handle: int) -> None:
        """Begin again, as another process would."""
        self._says("opening the store again")
        self._handles[handle] = self._made()

    # What is refused.

    @rule(handle=HANDLES)
    def call_wrongly(self, handle: int) -> None:
        """Make every call whose arguments are wrong: none reaches the store."""
        self._says("calls whose arguments are wrong")
        for wrong, call in WRONG.items():
            expect_error(
                partial(call, self._handles[handle]),
                InvalidArgumentError,
                f"a wrong argument is refused: {wrong}",
            )

    @precondition(_cannot(StoreCapability.WRITE))
    @rule(verb=st.sampled_from(sorted(WRITES)), key=ONE_KEY, handle=HANDLES)
    def write_to_what_is_read_only(self, verb: str, key: str, handle: int) -> None:
        """Ask a store that is read only to write."""
        self._says(f"{verb} of {key!r}")
        expect_error(
            partial(WRITES[verb], self._handles[handle], key),
            UnsupportedOperationError,
            f"a store without WRITE refuses to write: {verb} of {key!r}",
        )

    @precondition(_cannot(StoreCapability.EXCLUSIVE_CREATE))
    @rule(key=ONE_KEY, handle=HANDLES)
    def create_without_exclusion(self, key: str, handle: int) -> None:
        """Ask a store that cannot create exclusively to do so."""
        said = self._says(f"put({key!r}, overwrite=False)")
        expect_error(
            lambda: self._handles[handle].put(key, b"refused", overwrite=False),
            UnsupportedOperationError,
            f"a store without EXCLUSIVE_CREATE refuses to create: {said}",
        )

    # What has to be so.

    @invariant()
    def another_process_reads_what_the_model_holds(self) -> None:
        """List and read all with a handle that is new."""
        if self._is_checked:
            return  # the last step wrote nothing
        fresh = self._made()
        self.model.check_listing(self._after("a new handle's list()"), fresh.list())
        for key in self.model.objects:
            said = self._after(f"a new handle's get({key!r})")
            self.model.check_content(said, key, fresh.get(key))
        self._is_checked = True

    def _write(
        self, said: str, key: str, content: bytes, put: Callable[[], object]
    ) -> None:
        """Write an object, whatever is there."""
        try:
            put()
        except AlreadyExistsError as error:
            if not self.model.may_refuse(key):
                text = f"an overwrite replaces the object: {said} raised {error!r}"
                raise AssertionError(text) from error
        else:
            self.model.put(key, content)

    def _create(
        self, said: str, key: str, content: bytes, put: Callable[[], object]
    ) -> None:
        """Write an object, which must not exist."""
        if key in self.model.objects:
            said = f"a create does not overwrite: {said}"
            expect_error(put, AlreadyExistsError, said)
            return
        try:
            put()
        except AlreadyExistsError as error:
            if not self.model.may_refuse(key):
                text = f"a create of a missing object succeeds: {said} raised {error!r}"
                raise AssertionError(text) from error
        else:
            self.model.put(key, content)

    def _fail(self, said: str, put: Callable[[], object]) -> None:
        """Write what cannot be read to its end: nothing of it appears."""
        if StoreCapability.WHOLE_OBJECTS not in self.capabilities:
            return
        try:
            put()
        except (InvalidArgumentError, AlreadyExistsError):
            return
        raise AssertionError(f"a source that fails ends the put: {said} returned")

    def _miss(self, key: str, store: ObjectStore) -> None:
        """Ask for an object that does not exist."""
        asked: Mapping[str, Callable[[], object]] = {
            "get": lambda: store.get(key),
            "get_range": lambda: store.get_range(key, 0, 1),
            "get_ranges": lambda: store.get_ranges(key, [ByteRange(0, 1)]),
            "head": lambda: store.head(key),
        }
        state = "deleted" if self.model.was_deleted(key) else "missing"
        for verb, call in asked.items():
            said = self._after(f"{verb} of {key!r}")
            expect_error(call, NotFoundError, f"a {state} object is not found: {said}")

    def _made(self, options: Options | None = None) -> ObjectStore:
        """Return a handle that has only in common with others where the objects are."""
        state = self._store.__getstate__()
        made = type(self._store).__new__(type(self._store))
        # As another process gets it.
        changed = state if options is None else {**state, "options": options}
        made.__setstate__(pickle.loads(pickle.dumps(changed)))  # noqa: S301 - our own
        return made

    def _says(self, step: str) -> str:
        """Take note of the last step that may have changed the store."""
        self._last = step
        self._is_checked = False
        return step

    def _after(self, said: str) -> str:
        """Say what was called, and after which step."""
        return f"after {self._last} {said}"
