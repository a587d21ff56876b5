"""The page of the documentation that states which place keeps which guarantee."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from objects.guarantees import GUARANTEES, Outcome
from support.stores import PLACES

__all__ = ["HINT", "PAGE", "Cells", "read_cells", "rendered", "rewrite", "rewrites"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "stores.md"

HINT = (
    "docs/reference/stores.md states otherwise; if the page is wrong, rewrite it:"
    " TIEREDFS_WRITE_MATRIX=1 python -m pytest -n 0 tests/objects/test_guarantees.py"
)

_BEGIN, _END = "<!-- the tests write from here -->\n", "<!-- to here -->\n"
_COLUMNS = {
    "local": "local disk",
    "memory": "memory",
    "s3": "S3: SeaweedFS",
    "gcs": "GCS",
    "azure": "Azure",
    "s3-moto": "S3: moto",
    "s3-rclone": "S3: rclone",
    "sftp": "SFTP",
    "webhdfs": "WebHDFS",
    "chained": "chained",
    "http": "HTTP",
    "zip": "ZIP",
}

Cells = Mapping[tuple[str, str], str]
"""The cells of the page, by the title of a guarantee and a kind of place."""


def rewrites() -> bool:
    """Return whether the page is to be rewritten rather than compared."""
    return bool(os.environ.get("TIEREDFS_WRITE_MATRIX"))


def read_cells() -> Cells:
    """Read the table of the page."""
    _, _, rest = PAGE.read_text().partition(_BEGIN)
    rows = re.findall(r"^\| (.+) \|$", rest, re.MULTILINE)
    cells: dict[tuple[str, str], str] = {}
    for row in rows[1:]:
        title, *found = row.split(" | ")
        cells |= {(title, k): o for k, o in zip(_COLUMNS, found, strict=False)}
    return cells


def rendered(cells: Cells) -> str:
    """Return the page with these cells, and with the guarantees as they are now."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    lines = ["|  | " + " | ".join(_COLUMNS.values()) + " |"]
    lines.append("|---|" + "---|" * len(_COLUMNS))
    for each in GUARANTEES:
        row = (cells.get((each.title, kind), "?") for kind in _COLUMNS)
        lines.append(f"| {each.title} | " + " | ".join(row) + " |")
    lines.append("")
    for each in GUARANTEES:
        lines += [each.title, f": {each.words}", ""]
    return before + _BEGIN + "\n".join(lines) + _END + after


def rewrite(title: str, kind: str, outcome: Outcome) -> None:
    """Put one answer into the page."""
    with FileLock(f"{PAGE}.lock"):
        fresh = PAGE.with_suffix(".new")
        fresh.write_text(rendered({**read_cells(), (title, kind): outcome.value}))
        fresh.replace(PAGE)  # atomically, for other readers of it


assert set(_COLUMNS) == set(PLACES)
