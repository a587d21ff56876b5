"""The Python blocks of the README run, one after the other, in a fresh folder."""

import shutil
from pathlib import Path

import pytest
from Crypto.PublicKey import RSA
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

from support.samples import DATA, KEYS

README = Path(__file__).parent.parent / "README.md"


def test_every_python_block_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "zstd-encrypted" / "objects", tmp_path / "kafka-tier")
    key = RSA.import_key(Path(KEYS["k1"]).read_bytes())
    (tmp_path / "k1.private.pem").write_bytes(key.export_key(pkcs=8))
    monkeypatch.chdir(tmp_path)
    document = Sybil([PythonCodeBlockParser()]).parse(README)
    for example in document:
        example.evaluate()
    shown = capsys.readouterr().out
    assert f"Tier(Aiven('{tmp_path}/kafka-tier'))\n" in shown
    assert shown.endswith("needs the key 'k1'; encryption_keys has: none\n")
