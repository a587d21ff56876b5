"""What ``tieredfs conformance`` tests: a plugin in a folder below a URL."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, TypeVar

import click

from tieredfs.cli.options import StoreOptions
from tieredfs.cli.output.escapes import to_json
from tieredfs.errors import InvalidArgumentError, NotFoundError, TieredFSError
from tieredfs.model import SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.objects.redact import redact_text, secret_values, url_secrets
from tieredfs.storage import (
    Capability,
    RemoteStorageManager,
    StorageAddress,
    open_storage,
)
from tieredfs.testing.gate import Gate
from tieredfs.testing.stuck import StuckCallError, call_within
from tieredfs.testing.verdict import Extent, Recipe, Subject

__all__ = ["Trial"]

_T = TypeVar("_T")

_PREFIX: Final = "tieredfs-conformance-"

_STORE_IMPORTS: Final = (("tieredfs", "ObjectStore"), ("uuid", "uuid4"))

_GATE_SECONDS: Final = 5.0
"""How long requests of a test that was interrupted may take to end."""

_MAX_SAMPLE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Trial:
    """A plugin, and the URL below which it is tested.

    Attributes:
        reach: How to reach the store.
        address: Its URL and the plugin's options.
        plugin: The plugin's name.
        seed: Of what is drawn at random.
        only: Names of the rules that are tested; empty for all.
    """

    reach: StoreOptions
    address: StorageAddress
    plugin: str
    seed: int
    only: frozenset[str] = frozenset()
    name: str = field(default_factory=lambda: f"{_PREFIX}{uuid.uuid4().hex}")

    @contextmanager
    def subject(self, extent: Extent) -> Iterator[Subject]:
        """Yield what is to be tested; its objects are deleted at the end.

        Raises:
            NotFoundError: The plugin is read only, and the URL holds nothing to read.
            InvalidArgumentError: It is read only, and the URL holds too much to copy.
            TieredFSError: The plugin hangs before anything can be asked of it.
        """
        folder, gate = self._below(self.name), Gate()
        within = partial(_call_within, extent.call_seconds)
        is_writable = within(
            lambda: Capability.WRITE in self._open(folder).capabilities
        )
        sample = {} if is_writable else self._sample()
        numbers = count()

        def fill(store: ObjectStore) -> None:
            for key, content in sample.items():
                store.put(key, content, overwrite=True)

        def make_store() -> ObjectStore:
            store = gate.before(self._below(f"{self.name}/{next(numbers)}"))
            fill(store)
            return store

        # What cannot be written is an error of the store, and no verdict on a plugin.
        folder.put("probe", b"", overwrite=True)
        try:
            if not is_writable:
                copied = make_store()
                within(lambda: self._require_segments(copied))
            recipe = self._recipe(is_writable=is_writable)
            yield Subject(
                self._open, make_store, fill, recipe, extent, self.seed, self.only
            )
        finally:
            try:
                gate.shut(_GATE_SECONDS)  # threads that were given up go on
                folder.delete([entry.key for entry in folder.list()])
                path = folder.local_path
                if path is not None:
                    shutil.rmtree(path, ignore_errors=True)  # what is left are folders
            except KeyboardInterrupt:
                click.echo(f"tieredfs: left behind: {folder.url}", err=True)
                raise

    def _open(self, store: ObjectStore) -> RemoteStorageManager:
        return open_storage(store, self.plugin, self.address.plugin_options)

    def _require_segments(self, store: ObjectStore) -> None:
        """Raise NotFoundError where a layout that is read only finds no segment."""
        try:
            if any(self._segments(self._open(store))):
                return
        except TieredFSError:
            raise
        except Exception:  # noqa: BLE001 - the rules say what a plugin does wrong
            return
        raise self._nothing_to_read("no segment in ")

    def _segments(
        self, storage: RemoteStorageManager
    ) -> Iterator[Sequence[SegmentMetadata]]:
        for partition in storage.list_partitions():
            with suppress(NotFoundError):
                yield storage.list_segments(partition)

    def _nothing_to_read(self, what: str = "") -> NotFoundError:
        return NotFoundError(
            f"not found: {what}{self.reach.store(self.address.url).url}: the layout "
            f"{self.plugin!r} is read only: give the URL of some segments in it"
        )

    def redacted(self, text: str) -> str:
        """Return a text without the secrets of the options and the URL.

        What quotes an error of the plugin, or of its client, may have them.
        """
        secrets = url_secrets(self.address.url)
        for options in (self.address.plugin_options, self.address.storage_options):
            secrets |= secret_values(options or {})
        return redact_text(text, secrets)

    def _below(self, name: str) -> ObjectStore:
        first, colons, rest = self.address.url.partition("::")
        if colons and "://" not in first:  # such as simplecache::
            return self.reach.store(f"{self.address.url.rstrip('/')}/{name}")
        return self.reach.store(f"{first.rstrip('/')}/{name}{colons}{rest}")

    def _sample(self) -> dict[str, bytes]:
        """Read what is at the URL, for a layout that cannot be copied to."""
        source = self.reach.store(self.address.url)
        found = [e for e in source.list() if not e.key.startswith(_PREFIX)]
        if not found:
            raise self._nothing_to_read()
        size = sum(entry.size or 0 for entry in found)
        if size > _MAX_SAMPLE_BYTES:
            raise InvalidArgumentError(
                f"{source.url}: {size} bytes are too many to copy for each rule: give "
                f"the URL of a few segments, at most {_MAX_SAMPLE_BYTES} bytes"
            )
        return {entry.key: bytes(source.get(entry.key)) for entry in found}

    def _recipe(self, *, is_writable: bool) -> Recipe:
        """Return the code that makes the same; options have names, and no values."""
        options = _named(self.address.plugin_options)
        opened = f"    return open_storage(store, {to_json(self.plugin)}{options})\n"
        given = _named(self.address.storage_options)
        url = self.reach.store(self.address.url).url
        head = "def make_storage(store):\n"
        # In another folder each time: what a test leaves is in the way of the next.
        begins, ends = self._below(_PREFIX).url.split(_PREFIX)
        empty = f"{to_json(begins + _PREFIX)} + uuid4().hex"
        empty += f" + {to_json(ends)}" if ends else ""
        store = f"ObjectStore({empty}{given})"
        if is_writable:
            return Recipe(("open_storage",), head + opened, store, _STORE_IMPORTS)
        lines = (
            f"sample = ObjectStore({to_json(url)}{given})\n\n\n{head}"
            "    if not next(store.list(), None):\n"
            "        for entry in sample.list():\n"
            "            content = sample.get(entry.key)\n"
            "            store.put(entry.key, content, overwrite=True)\n"
            f"{opened}"
        )
        imports = ("ObjectStore", "open_storage")
        return Recipe(imports, lines, store, _STORE_IMPORTS)


def _call_within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return what a call of the plugin returns.

    Raises:
        TieredFSError: It did not end in time.
    """
    try:
        return call_within(seconds, call)
    except StuckCallError as error:
        raise TieredFSError(f"the plugin cannot be tested: {error}") from None


def _named(options: Mapping[str, object] | None) -> str:
    """Return options as an argument in which the values are to be filled in."""
    names = ", ".join(f"{to_json(name)}: ..." for name in options or {})
    return f", {{{names}}}" if names else ""
