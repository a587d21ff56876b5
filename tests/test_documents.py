"""Every Python block of the README and the documentation runs.

A document is one test: its blocks run in order, in one namespace and a fresh folder. A
document that uses `spark` finds a session of that name.
"""

import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parent.parent
TAKES_LONG = "docs/how-to/prove-a-plugin.md"  # it proves a plugin
DOCUMENTS = Sybil([PythonCodeBlockParser(), SkipParser()])


def _uses_spark(path: Path) -> bool:
    return re.search(r"(?<![\w.])spark\.", path.read_text()) is not None


def _documents() -> Iterator[object]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        marks = [pytest.mark.xdist_group("spark")] if _uses_spark(path) else []
        name = str(path.relative_to(ROOT))
        if name == TAKES_LONG:
            marks.append(pytest.mark.timeout(400))
        yield pytest.param(path, id=name, marks=marks)


@pytest.mark.parametrize("path", list(_documents()))
def test_every_python_block_of_a_document_runs(
    path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = DOCUMENTS.parse(path)
    if _uses_spark(path):
        document.namespace["spark"] = request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    # The command that is installed beside this interpreter is the one that is tested.
    scripts = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    for example in document:
        try:
            example.evaluate()
        except SkipTest:
            continue
