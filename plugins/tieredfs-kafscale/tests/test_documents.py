"""The Python blocks of the README run, one after the other, in a fresh folder."""

import shutil
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

from support.samples import DATA

README = Path(__file__).parent.parent / "README.md"


def test_every_python_block_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "store", tmp_path / "bucket")
    monkeypatch.chdir(tmp_path)
    document = Sybil([PythonCodeBlockParser()]).parse(README)
    for example in document:
        example.evaluate()
    shown = capsys.readouterr().out
    assert shown == f"Tier(KafScale('{tmp_path}/bucket'))\n"
