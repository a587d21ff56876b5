"""``tieredfs conformance``: whether a plugin keeps the contract, rule by rule."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final, TypeVar

import click

from tieredfs.cli.exit_codes import OTHER
from tieredfs.cli.options import JsonObject, StoreOptions, json_option, store_options
from tieredfs.cli.output.escapes import escape, to_json
from tieredfs.cli.output.progress import counting
from tieredfs.cli.output.streams import OutputError
from tieredfs.cli.output.tables import (
    answer_stream,
    show_json,
    show_line,
    show_table,
    show_text,
)
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
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.rules import CHECKS
from tieredfs.testing.stuck import StuckCallError, call_within
from tieredfs.testing.verdict import (
    PRODUCERS,
    Outcome,
    Profile,
    Recipe,
    Subject,
    Verdict,
)
from tieredfs.testing.verdict.subject import CALL_SECONDS

__all__ = ["conformance"]

_T = TypeVar("_T")

_PREFIX = "tieredfs-conformance-"
_GATE_SECONDS: Final = 5.0
"""How long requests of a test that was interrupted may take to end."""

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
    of what the URL holds. The exit code is 1 when a rule is broken or undecided.
    """
    address = StorageAddress.of(
        url,
        storage_options=options.storage_options,
        plugin=plugin,
        plugin_options=plugin_options,
    )
    reach = replace(options, storage_options=address.storage_options)
    trial = _Trial(reach, address, plugin, seed)
    verdicts: list[Verdict] = []

    def show() -> None:
        if as_json:
            _show_json(plugin, reach.store(address.url).url, profile, verdicts)
        else:
            _show(verdicts)

    try:
        with (
            trial.subject(Profile(profile)) as subject,
            counting(f"test {plugin}", len(CHECKS) + len(Promise)) as done,
        ):
            for produce in PRODUCERS:
                for verdict in produce(subject):
                    reason, code = map(trial.redacted, (verdict.reason, verdict.code))
                    verdicts.append(replace(verdict, reason=reason, code=code))
                    done(0)
    except KeyboardInterrupt:
        if verdicts:
            show()
            with suppress(OutputError):
                answer_stream().flush()  # the process ends immediately
        raise
    except TieredFSError as error:
        said = trial.redacted(str(error))
        if said == str(error):
            raise
        error.args = (said, *error.args[1:])
        raise error from None
    show()
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
            TieredFSError: The plugin hangs before anything can be asked of it.
        """
        folder, gate = self._below(self.name), Gate()
        within = partial(_call_within, CALL_SECONDS[profile])
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
            yield Subject(self._open, make_store, fill, recipe, profile, self.seed)
        finally:
            gate.shut(_GATE_SECONDS)  # threads that were given up go on
            folder.delete([entry.key for entry in folder.list()])
            path = folder.local_path
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)  # what is left are folders

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
