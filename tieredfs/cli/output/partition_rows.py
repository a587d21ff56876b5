"""What a command that changes partitions shows of each, and how it ends."""

from collections.abc import Mapping, Sequence

import click

from tieredfs.cli.exit_codes import worst_code
from tieredfs.cli.output.tables import show_error, show_json, show_table
from tieredfs.errors import TieredFSError

__all__ = ["show_partitions"]


def show_partitions(
    rows: Sequence[Mapping[str, object]],
    columns: Mapping[str, str],
    errors: Sequence[TieredFSError],
    url: str,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show the rows of partitions, and end with the exit code of the errors, if any.

    Args:
        rows: A row for each partition, by the names of the columns.
        columns: The titles of the columns of a table; JSON has all members.
        errors: What failed.
        url: What was changed.
        dry_run: Whether nothing was.
        as_json: Whether to show JSON.
    """
    if as_json:
        show_json(
            {
                "url": url,
                "dry_run": dry_run,
                "partitions": rows,
                "errors": [str(error) for error in errors],
            }
        )
    else:
        show_table(rows, columns)
    for error in errors:
        show_error(error)
    if errors:
        click.get_current_context().exit(worst_code(errors))
