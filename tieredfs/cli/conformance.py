"""``tieredfs conformance``: whether a plugin keeps the contract, rule by rule."""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from tempfile import TemporaryDirectory

import click

from tieredfs.cli.exit_codes import OTHER
from tieredfs.cli.options import JsonObject, StoreOptions, json_option, store_options
from tieredfs.cli.output.escapes import escape, to_json
from tieredfs.cli.output.progress import counting
from tieredfs.cli.output.tables import show_json, show_line, show_table, show_text
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.objects import ObjectStore
from tieredfs.storage import (
    Capability,
    RemoteStorageManager,
    StorageAddress,
    open_storage,
)
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.rules import CHECKS
from tieredfs.testing.verdict import (
    PRODUCERS,
    Outcome,
    Profile,
    Recipe,
    Subject,
    Verdict,
)

__all__ = ["conformance"]

_PREFIX = "tieredfs-conformance-"
_MAX_SAMPLE_BYTES = 64 * 1024 * 1024
_COLUMNS = {"name": "RULE", "verdict": "VERDICT", "why": "WHY"}


@click.command
@click.argument("plugin")
@click.option("--url", required=True, help="Where to test it, in a folder of its own.")
@click.option(
    "--plugin-options", type=JsonObject(), metavar="JSON", help="The layout's own."
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default=Profile.QUICK.value,
    show_default=True,
    help="How thoroughly to test: about a minute, some minutes, or an hour.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="What the sequences of calls are drawn from.",
)
@json_option
@store_options
def conformance(  # noqa: PLR0913 - one parameter for each option
    options: StoreOptions,
    plugin: str,
    url: str,
    plugin_options: Mapping[str, object] | None,
    profile: str,
    seed: int,
    *,
    as_json: bool,
) -> None:
    """Test PLUGIN against every rule of the contract, and report those it breaks.

    PLUGIN is the name of a layout, or module:Class. It is tested in a new folder below
    the URL, which is removed at the end. A layout that is read only is tested on copies
    of what the URL holds. The exit code is 1 when a rule is broken or
    undecided.
    """
    address = StorageAddress.of(
        url,
        storage_options=options.storage_options,
        plugin=plugin,
        plugin_options=plugin_options,
    )
    reach = replace(options, storage_options=address.storage_options)
    trial = _Trial(reach, address, plugin, seed)
    with (
        _without_traces(),
        trial.subject(Profile(profile)) as subject,
        counting(f"test {plugin}", len(CHECKS) + len(Promise)) as done,
    ):
        verdicts: list[Verdict] = []
        for produce in PRODUCERS:
            for verdict in produce(subject):
                verdicts.append(verdict)
                done(0)
    if as_json:
        _show_json(plugin, reach.store(address.url).url, profile, verdicts)
    else:
        _show(verdicts)
    if _count(verdicts, Outcome.BROKEN) or _count(verdicts, Outcome.UNDECIDED):
        click.get_current_context().exit(OTHER)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A plugin, and the URL below which it is tested.

    Attributes:
        reach: How to reach the store.
        address: Its URL and the plugin's options.
        plugin: The plugin's name.
        seed: Of what is drawn at random.
    """

    reach: StoreOptions
    address: StorageAddress
    plugin: str
    seed: int
    name: str = field(default_factory=lambda: f"{_PREFIX}{uuid.uuid4().hex}")

    @contextmanager
    def subject(self, profile: Profile) -> Iterator[Subject]:
        """Yield what is to be tested; its objects are deleted at the end.

        Raises:
            NotFoundError: The plugin is read only, and the URL holds nothing to read.
            InvalidArgumentError: It is read only, and the URL holds too much to copy.
        """
        folder = self._below(self.name)
        is_writable = Capability.WRITE in self._open(folder).capabilities
        sample = {} if is_writable else self._sample()
        numbers = count()

        def fill(store: ObjectStore) -> None:
            for key, content in sample.items():
                store.put(key, content, overwrite=True)

        def make_store() -> ObjectStore:
            store = self._below(f"{self.name}/{next(numbers)}")
            fill(store)
            return store

        # What cannot be written is an error of the store, and no verdict on a plugin.
        folder.put("probe", b"", overwrite=True)
        try:
            if not is_writable:
                self._require_segments(make_store())
            recipe = self._recipe(is_writable=is_writable)
            yield Subject(self._open, make_store, fill, recipe, profile, self.seed)
        finally:
            folder.delete([entry.key for entry in folder.list()])
            path = folder.local_path
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)  # what is left are folders

    def _open(self, store: ObjectStore) -> RemoteStorageManager:
        return open_storage(store, self.plugin, self.address.plugin_options)

    def _require_segments(self, store: ObjectStore) -> None:
        """Raise NotFoundError where a layout that is read only finds no segment."""
        storage = self._open(store)
        for partition in storage.list_partitions():
            with suppress(NotFoundError):
                if storage.list_segments(partition):
                    return
        raise NotFoundError(
            f"not found: no segment in {self.address.url}: the layout {self.plugin!r} "
            "is read only: give the URL of some segments in it"
        )

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
            raise NotFoundError(
                f"not found: {source.url}: the layout {self.plugin!r} is read only: "
                "give the URL of some segments in it"
            )
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
        empty = self._below("conformance").url
        store = f"ObjectStore({to_json(empty)}{given})"
        if is_writable:
            return Recipe(("open_storage",), head + opened, store)
        lines = (
            f"sample = ObjectStore({to_json(url)}{given})\n\n\n{head}"
            "    if not next(store.list(), None):\n"
            "        for entry in sample.list():\n"
            "            content = sample.get(entry.key)\n"
            "            store.put(entry.key, content, overwrite=True)\n"
            f"{opened}"
        )
        return Recipe(("ObjectStore", "open_storage"), lines, store)


@contextmanager
def _without_traces() -> Iterator[None]:
    """Let hypothesis keep its notes elsewhere than in the current directory."""
    name = "HYPOTHESIS_STORAGE_DIRECTORY"
    if name in os.environ:
        yield
        return
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]


def _named(options: Mapping[str, object] | None) -> str:
    """Return options as an argument in which the values are to be filled in."""
    names = ", ".join(f"{to_json(name)}: ..." for name in options or {})
    return f", {{{names}}}" if names else ""


def _show(verdicts: list[Verdict]) -> None:
    broken = [one for one in verdicts if one.outcome is Outcome.BROKEN]
    rows = [
        {
            "name": one.name,
            "verdict": one.outcome.replace("_", " "),
            "why": "see below" if one in broken else one.reason or None,
        }
        for one in verdicts
    ]
    show_table(rows, _COLUMNS)
    for one in broken:
        show_text()
        show_line(f"{one.name}: {one.rule} {one.reason}")
        show_text()
        for line in one.code.splitlines():
            show_text(f"    {escape(line)}".rstrip())
    show_text()
    counts = (f"{_count(verdicts, o)} {o.replace('_', ' ')}" for o in Outcome)
    show_line(", ".join(counts))


def _show_json(plugin: str, url: str, profile: str, verdicts: list[Verdict]) -> None:
    rules = [
        {
            "name": one.name,
            "rule": one.rule,
            "outcome": one.outcome,
            "reason": one.reason or None,
            "code": one.code or None,
        }
        for one in verdicts
    ]
    counts = {outcome.value: _count(verdicts, outcome) for outcome in Outcome}
    asked = {"plugin": plugin, "url": url, "profile": profile}
    show_json({**asked, **counts, "rules": rules})


def _count(verdicts: list[Verdict], outcome: Outcome) -> int:
    return sum(one.outcome is outcome for one in verdicts)
