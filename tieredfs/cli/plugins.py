"""``tieredfs plugins``: the layouts that are installed, and what else is in use."""

from dataclasses import asdict

import click

from tieredfs.cli.options import json_option
from tieredfs.cli.output.tables import (
    show_json,
    show_table,
    show_warning,
    without_prints,
)
from tieredfs.errors import PluginError
from tieredfs.format.compression.registry import PACKAGES_IN_USE
from tieredfs.format.kernel.select import chosen_kernel
from tieredfs.storage import (
    Capability,
    PluginInfo,
    check_plugin,
    installed_plugins,
)

__all__ = ["plugins"]

_COLUMNS = {
    "name": "NAME",
    "state": "STATE",
    "distribution": "FROM",
    "version": "VERSION",
    "value": "CLASS",
}


@click.command
@json_option
def plugins(*, as_json: bool) -> None:
    """List the installed plugins: what they are, and whether they work.

    With --json also what decodes records, and what decompresses each codec.
    """
    rows = [{**asdict(info), **_state(info)} for info in installed_plugins()]
    if as_json:
        codecs = {c.name.lower(): name for c, name in PACKAGES_IN_USE.items()}
        show_json({"plugins": rows, "kernel": chosen_kernel(), "codecs": codecs})
        return
    show_table(rows, _COLUMNS)
    for row in rows:
        if row["error"]:
            show_warning(f"{row['name']}: {row['error']}")


def _state(info: PluginInfo) -> dict[str, object]:
    """Import one plugin; a broken one is shown, and does not affect the others."""
    try:
        with without_prints():
            can = sorted(check_plugin(info))
    except PluginError as error:
        return {"state": "broken", "capabilities": [], "error": str(error)}
    state = "read, write" if Capability.WRITE in can else "read"
    return {"state": state, "capabilities": can, "error": None}
