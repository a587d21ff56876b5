"""A test that breaks a rule or a promise again, as code to paste."""

from collections.abc import Collection, Iterable
from itertools import groupby

from tieredfs.testing.verdict.subject import Recipe

__all__ = ["pasted_test"]


def pasted_test(
    name: str,
    imports: Collection[tuple[str, str]],
    recipe: Recipe,
    lines: Iterable[str],
) -> str:
    """Return a file with one test.

    Args:
        name: What it tests.
        imports: Modules, and the names in them that its lines need.
        recipe: Defines ``make_storage``.
        lines: What the test does.
    """
    needed = {*imports, *(("tieredfs", one) for one in recipe.imports)}
    imported = [
        f"from {module} import {', '.join(name for _, name in names)}"
        for module, names in groupby(sorted(needed), lambda one: one[0])
    ]
    ours = [line for line in imported if line.startswith("from tieredfs")]
    others = [line for line in imported if line not in ours]
    head = "\n\n".join("\n".join(block) for block in (others, ours) if block)
    test = "\n    ".join((f"def test_{name}():", *lines))
    return f"{head}\n\n\n{recipe.lines}\n\n{test}"
