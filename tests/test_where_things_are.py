"""What newcomers read names files that exist, and the picture is that of the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.draw_floors import PICTURE, contracts, draw
from tieredfs.model import IndexType

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "where-things-are.md"
GUIDE = ROOT / "CONTRIBUTING.md"
READ_ONLY = {
    "tieredfs/objects/backends/base.py",
    "tieredfs/format/segment/key_scheme.py",
    "tieredfs/storage/contract/author.py",
    "tieredfs/testing/cache_machine/state.py",
    "tieredfs/testing/object_store_machine/state.py",
    "tieredfs/testing/plugin_machine/state.py",
    "tieredfs/testing/rule.py",
}
"""What is opened first to read, and not changed."""

CHANGES = (
    "codec",
    "Arrow column",
    "index type",
    "size of output batches",
    "multipart threshold",
    "metric",
    "rule for plugins",
    "names segments",
)
"""Changes that the page has to have."""

NAMED_WHEREVER_ONE_IS_ADDED = {
    "Arrow column": ['"timestampType"|timestamp_types\\b'],
    "index type": [rf"IndexType\.{kind.name}\b" for kind in IndexType],
    "metric": [r"\bcorruptions\b"],
}
"""What a file contains that a change takes: one column, all types, one metric."""

UNCHANGED = {
    "tieredfs/cli/cat.py",  # accepts the other spelling of one column
    "tieredfs/storage/layouts/kafka_local.py",  # names those that are always stored
    "tieredfs/testing/cache_machine/counted.py",  # counts what all steps change
    "tieredfs/testing/cache_machine/damaging.py",  # …
    "tieredfs/testing/cache_machine/samples.py",  # a segment may lack new types
    "tieredfs/testing/rules/indexes.py",  # damages every type in the same way
}
"""Files that contain it, but know no other column or type."""


def paths(text: str) -> list[str]:
    return re.findall(
        r"`((?:tieredfs|tests|docs|plugins)/[^`]+|pyproject\.toml)`", text
    )


def rows() -> Iterator[list[str]]:
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and "---" not in line:
            yield [cell.strip() for cell in line.strip("|").split("|")]


NAMED = {path for page in (PAGE, GUIDE) for path in paths(page.read_text())}


@pytest.mark.parametrize("path", sorted(NAMED))
def test_a_file_that_a_page_names_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_commands_of_the_guide_are_those_of_tox() -> None:
    named = re.findall(r"tox run -q -e ([\w,-]+)", GUIDE.read_text())
    sections = re.findall(r"\n\[testenv:([\w{}, -]+)", (ROOT / "tox.ini").read_text())
    known = set()
    for section in sections:
        begins, _, kinds = section.rstrip("}").partition("{")
        known |= {f"{begins}{kind.strip()}" for kind in kinds.split(",")}
    assert "quick" in named
    assert set(",".join(named).split(",")) <= known


def test_the_fast_tests_exist() -> None:
    listed = (ROOT / "tests" / "quick.txt").read_text().splitlines()
    assert listed
    assert all((ROOT / path).exists() for path in listed)


def test_every_change_names_its_first_file_its_tests_and_their_number() -> None:
    head, *changes = rows()
    assert head == ["to change or add", "open first", "then", "files", "tests"]
    for change, first, then, count, tests in changes:
        assert len(paths(first)) == 1, change
        assert paths(tests), change
        own = {path for path in paths(first + then) if path.startswith("tieredfs/")}
        assert len(own - READ_ONLY) == int(count), change


@pytest.mark.parametrize("change", NAMED_WHEREVER_ONE_IS_ADDED)
def test_no_file_that_a_change_takes_is_missing_from_the_page(change: str) -> None:
    needed = NAMED_WHEREVER_ONE_IS_ADDED[change]
    sources = [p for p in (ROOT / "tieredfs").rglob("*.p[yx]*") if p.suffix != ".pyc"]
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if all(re.search(words, path.read_text()) for words in needed)
    }
    (row,) = (row for row in rows() if change in row[0])
    assert found
    assert found - UNCHANGED <= set(paths(row[1] + row[2]))


@pytest.mark.parametrize("change", CHANGES)
def test_the_page_has_the_changes_that_newcomers_make(change: str) -> None:
    assert sum(change in row[0] for row in rows()) >= 1


def test_the_picture_is_that_of_the_contracts() -> None:
    shown = PICTURE.read_text() == draw()
    assert shown, "draw it again: python tests/release/draw_floors.py"


def test_the_picture_has_every_package_and_layer() -> None:
    picture = PICTURE.read_text()
    for layers in contracts().values():
        for layer in layers:
            names = [name for name in layer if not name.startswith("_")]
            assert not names or f">{' · '.join(names)}<" in picture
