"""``tieredfs cache``: the directory of cached indexes."""

import os
from pathlib import Path

import click

from tieredfs.cache import (
    CACHE_SETTING,
    CacheDirectory,
    default_directory,
    inspect_entries,
)
from tieredfs.cache.user_directory import given_directory
from tieredfs.cli.exit_codes import CORRUPT
from tieredfs.cli.options import json_option
from tieredfs.cli.output.tables import show_json, show_line, show_table
from tieredfs.log.push.push_record import PushRecord

__all__ = ["cache"]

_COLUMNS = {
    "directory": "DIRECTORY",
    "entries": "SEGMENTS",
    "bytes": "BYTES",
    "bound": "AT MOST",
}


class _Directory(click.Path):
    """A directory; an empty path would be the current directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Reject an empty path and a URL."""
        if not os.fspath(value):
            self.fail("it is empty: give a directory, or omit it", param, ctx)
        return super().convert(given_directory(value), param, ctx)


_directory_option = click.option(
    "--cache-dir",
    type=_Directory(file_okay=False, path_type=Path),
    help=f"The directory; by default {CACHE_SETTING}, else the user's own.",
)


@click.group(no_args_is_help=False)
def cache() -> None:
    """Show, verify or clear the indexes that are cached on this machine."""


@cache.command
@_directory_option
@json_option
def show(cache_dir: Path | None, *, as_json: bool) -> None:
    """Show the directory, the number of segments, and the size and its limit."""
    place = cache_dir or default_directory()
    found = None if place is None else CacheDirectory.existing(place)
    usage = None if found is None else found.usage()
    row = {
        "directory": None if place is None else str(place),
        "entries": usage.entries if usage else 0,
        "bytes": usage.size if usage else 0,
        "bound": usage.max_bytes if usage else None,
    }
    if as_json:
        show_json(row)
    else:
        show_table([row], _COLUMNS)


@cache.command
@_directory_option
@json_option
def verify(cache_dir: Path | None, *, as_json: bool) -> None:
    """Check every cached byte.

    The exit code is 4 when something is wrong. Nothing is changed: a wrong entry is
    fetched again when it is next needed.
    """
    found = _existing(cache_dir)
    reports = [] if found is None else list(inspect_entries(found))
    bad = [report for report in reports if report.problem is not None]
    if as_json:
        problems = [{"entry": r.name, "detail": r.problem} for r in bad]
        show_json({"entries": len(reports), "problems": problems})
    else:
        show_line(f"{len(reports)} segments, {len(bad)} of them not as written")
        for report in bad:
            show_line(f"{report.name}: {report.problem}")
    if bad:
        click.get_current_context().exit(CORRUPT)


@cache.command
@_directory_option
@json_option
def clear(cache_dir: Path | None, *, as_json: bool) -> None:
    """Remove all cached indexes, of every store.

    It also removes the push records of this user: the next push reads every log.
    """
    found = _existing(cache_dir)
    entries, size = (0, 0) if found is None else found.usage()[:2]
    if found is not None:
        found.clear()
    place = cache_dir or default_directory()
    pushed = 0 if place is None else PushRecord.in_cache(place).clear()
    if as_json:
        show_json({"entries": entries, "bytes": size, "pushed": pushed})
    else:
        show_line(
            f"removed {entries} segments, {size} bytes, and the push records of "
            f"{pushed} partitions"
        )


def _existing(cache_dir: Path | None) -> CacheDirectory | None:
    """Return the directory, if it has been used as a cache."""
    place = cache_dir or default_directory()
    return None if place is None else CacheDirectory.existing(place)
