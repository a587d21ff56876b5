"""Every sentence of the page on integrity is shown by tests, which it names.

The table is in ``integrity_page.txt``. A sentence that is added to the page or changed
has to be put there with its tests; a test that is renamed or removed is missed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tieredfs.testing import RemoteStorageTests

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = ROOT / "docs" / "explanation" / "integrity.md"
LEADS_TO_OTHERS = "= "


def page_lines() -> list[str]:
    """Return the lines of the page that say something: one sentence or more each."""
    lines = PAGE.read_text().splitlines()
    heads = {lines[at - 1] for at, line in enumerate(lines) if line.startswith("|---")}
    return [
        line
        for line in lines
        if line and not line.startswith(("#", "|---")) and line not in heads
    ]


def table() -> Iterator[tuple[str, list[str]]]:
    """Yield each line of the page with the ids of its tests."""
    sentence, tests = "", list[str]()
    for line in (TESTS / "integrity_page.txt").read_text().splitlines():
        if line.startswith("    "):
            tests.append(line.strip())
            continue
        if sentence:
            yield sentence, tests
        sentence, tests = "" if line.startswith("#") else line, []
    yield sentence, tests


TABLE = list(table())
NODES = sorted({test for _, tests in TABLE for test in tests})


def functions(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's tests, those of classes behind the class.

    A class that takes the tests of the kit has each of them.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            if RemoteStorageTests.__name__ in bases:
                yield from (f"{node.name}::{name}" for name in dir(RemoteStorageTests))
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}::{inner.name}"


def test_the_table_has_every_sentence_word_for_word() -> None:
    assert [line.removeprefix(LEADS_TO_OTHERS) for line, _ in TABLE] == page_lines()


def test_every_sentence_names_the_tests_that_show_it() -> None:
    assert [
        line for line, tests in TABLE if line.startswith(LEADS_TO_OTHERS) == bool(tests)
    ] == []


@pytest.mark.parametrize("node", NODES)
def test_each_test_that_is_named_is_there(node: str) -> None:
    path, _, name = node.partition("::")
    if path.startswith("plugins/") and not (ROOT / path).parent.is_dir():
        pytest.skip("the tests of the plugin are not in a source distribution")
    assert name.rpartition("::")[2].startswith("test_")
    assert name in set(functions(ast.parse((ROOT / path).read_text())))
