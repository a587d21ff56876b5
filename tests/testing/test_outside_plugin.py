"""The plugin of the documentation as its author has it: a wheel, and its own tests."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tieredfs
from tieredfs import Capability, testing
from tieredfs.testing import CHECKS
from tieredfs.testing.rule import why_not_applicable

TEMPLATE = Path(__file__).parents[2] / "docs" / "how-to" / "plugin-template"

_FEW = """
from hypothesis import settings

settings.register_profile("few", max_examples=10)
settings.load_profile("few")
"""
_CAN = {Capability.WRITE, Capability.ATOMIC_COPY, Capability.PLAN_FROM_LISTING}
_EXCLUDED = {check for check in CHECKS if why_not_applicable(check, _CAN)} | {
    testing.check_append_has_one_winner,
    testing.check_append_survives_a_cleaner,
    testing.check_append_that_died_blocks_no_other,
    testing.check_append_that_leaves_a_gap_is_refused,
    testing.check_empty_transaction_index_has_no_abort,
    testing.check_key_that_contradicts_the_log_is_found,
    testing.check_layout_changes_nothing,
    testing.check_moved_object_is_noticed,
    testing.check_producers_before_are_older,
    testing.check_stored_sizes_are_what_is_stored,
}
"""Rules that say nothing about the plugin: it has no such capability, or method."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the plugin's wheel was installed to, and nothing else."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(TEMPLATE, source)  # a build leaves its files there
    wheels, folder = (tmp_path_factory.mktemp(name) for name in ("wheels", "site"))
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(wheels), str(source))
    (wheel,) = wheels.glob("tieredfs_zipped-*.whl")
    _pip("install", "--target", str(folder), str(wheel))
    return folder


def _pip(*arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "pip", "-q", *arguments, "--no-deps", "--no-index"],
        check=True,
    )


def _run(site: Path, folder: Path, *arguments: str) -> str:
    """Run a module in a folder, as a process that finds the wheel."""
    found = [str(site), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, found)),
            "PYTHONSAFEPATH": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_ask_every_rule_and_run_the_machine(
    site: Path, tmp_path: Path
) -> None:
    shutil.copy(TEMPLATE / "test_zipped.py", tmp_path)
    (tmp_path / "conftest.py").write_text(_FEW)
    said = _run(site, tmp_path, "pytest", "-v", "-p", "no:xdist", "-p", "no:randomly")
    outcomes = dict(re.findall(r"^test_zipped\.py::(\S+) (\w+)", said, re.MULTILINE))
    assert outcomes == {
        "TestZipFilesMachine::runTest": "PASSED",
        **{
            f"TestZipFiles::test_{check.__name__.removeprefix('check_')}[{store}]": (
                "SKIPPED" if check in _EXCLUDED else "PASSED"
            )
            for check in CHECKS
            for store in ("memory", "local")
        },
    }


def test_the_command_proves_it_by_the_name_of_its_entry_point(
    site: Path, tmp_path: Path
) -> None:
    listed = json.loads(_run(site, tmp_path, "tieredfs", "plugins", "--json"))
    (zipped,) = (one for one in listed["plugins"] if one["name"] == "zipped")
    assert zipped["distribution"] == "tieredfs-zipped"
    wanted = {
        check.__name__: "not_applicable" if check in _EXCLUDED else "held"
        for check in CHECKS
    }
    named = [argument for rule in wanted for argument in ("--rule", rule)]
    asked = ("conformance", "zipped", "--url", str(tmp_path / "scratch"), "--json")
    verdict = json.loads(_run(site, tmp_path, "tieredfs", *asked, *named))
    assert (verdict["broken"], verdict["undecided"]) == (0, 0)
    assert {rule["name"]: rule["outcome"] for rule in verdict["rules"]} == wanted


def test_it_is_written_with_public_names_alone() -> None:
    public = {"tieredfs": tieredfs.__all__, "tieredfs.testing": testing.__all__}
    text = "\n".join(file.read_text() for file in TEMPLATE.glob("*.py"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert "tieredfs" not in {
                name.name.partition(".")[0] for name in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            if module.partition(".")[0] == "tieredfs":
                assert {name.name for name in node.names} <= set(public[module])
