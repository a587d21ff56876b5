"""``tieredfs conformance``: whether a plugin keeps the contract, rule by rule."""

import difflib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from tieredfs.cli.exit_codes import OTHER
from tieredfs.cli.numbers import Integer
from tieredfs.cli.options import JsonObject, StoreOptions, json_option, store_options
from tieredfs.cli.output.escapes import escape
from tieredfs.cli.output.progress import counting
from tieredfs.cli.output.streams import OutputError
from tieredfs.cli.output.tables import (
    answer_stream,
    show_json,
    show_line,
    show_table,
    show_text,
)
from tieredfs.cli.trial import Trial
from tieredfs.errors import InvalidArgumentError, TieredFSError
from tieredfs.storage import StorageAddress
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.rules import CHECKS
from tieredfs.testing.verdict import EXTENTS, PRODUCERS, Outcome, Profile, Verdict

__all__ = ["COLUMNS", "conformance"]

COLUMNS: Final = {"name": "RULE", "verdict": "VERDICT", "why": "WHY"}
"""The fields of a rule, and what the table calls them."""


_NAMES: Final = (
    *(check.__name__ for check in CHECKS),
    *(promise.rule for promise in Promise),
)


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
    type=Integer(min=0),
    default=0,
    show_default=True,
    help="What the sequences of calls are drawn from.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME",
    help="Test this rule only; may be repeated.",
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
    rules: tuple[str, ...],
    as_json: bool,
) -> None:
    """Test PLUGIN against every rule of the contract, and report those it breaks.

    PLUGIN is the name of a layout, or module:Class. It is tested in a new folder below
    the URL, which is removed at the end. A layout that is read only is tested on copies
    of what the URL holds. The exit code is 1 when a rule is broken or undecided.
    """
    only = _named(rules)
    address = StorageAddress.of(
        _absolute(url),
        storage_options=options.storage_options,
        plugin=plugin,
        plugin_options=plugin_options,
    )
    reach = replace(options, storage_options=address.storage_options)
    trial = Trial(reach, address, plugin, seed, only)
    verdicts: list[Verdict] = []

    def show() -> None:
        if as_json:
            _show_json(plugin, reach.store(address.url).url, profile, verdicts)
        else:
            _show(verdicts)

    try:
        with (
            trial.subject(EXTENTS[Profile(profile)]) as subject,
            counting(f"test {plugin}", len(only or _NAMES)) as done,
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


def _named(rules: Collection[str]) -> frozenset[str]:
    """Return the names of rules, if there are such rules.

    Raises:
        InvalidArgumentError: There is no rule of a name.
    """
    for name in rules:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise InvalidArgumentError(f"there is no rule {name!r}{hint}")
    return frozenset(rules)


def _absolute(url: str) -> str:
    """Return a local path as an absolute one, as a plugin may change the folder."""
    is_path = "://" not in url and "::" not in url
    return str(Path(url).expanduser().absolute()) if is_path else url


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
    show_table(rows, COLUMNS)
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
