"""Print how much of each package was run: `python print_coverage.py coverage.json`."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def package_of(file: str) -> str:
    """Return the package of a file, `tieredfs` itself for the modules beside them."""
    inside = Path(file).parts
    inside = inside[len(inside) - 1 - inside[::-1].index("tieredfs") :]
    return "/".join(inside[:2]) if len(inside) > 2 else inside[0]


def line(name: str, counts: Counter[str]) -> str:
    """Show the counts of a package, or of all, as a line of the table."""
    lines, branches = counts["num_statements"], counts["num_branches"]
    run = counts["covered_lines"] / lines if lines else 1
    taken = counts["covered_branches"] / branches if branches else 1
    return f"{name:18}{lines:8}{run:9.1%}{branches:10}{taken:9.1%}"


def main(report: str) -> None:
    """Print a table: lines and branches by package, and of all."""
    files: dict[str, Any] = json.loads(Path(report).read_text())["files"]
    packages: dict[str, Counter[str]] = {}
    for file, found in files.items():
        counts = {k: v for k, v in found["summary"].items() if isinstance(v, int)}
        packages.setdefault(package_of(file), Counter()).update(counts)
    print(f"{'package':18}{'lines':>8}{'run':>9}{'branches':>10}{'taken':>9}")
    for name in sorted(packages):
        print(line(name, packages[name]))
    print(line("all", sum(packages.values(), Counter[str]())))


main(*sys.argv[1:])
