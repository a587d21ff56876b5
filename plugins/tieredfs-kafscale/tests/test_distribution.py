"""The plugin as users get it: a wheel, found by its entry point."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tieredfs
import tieredfs.storage
import tieredfs_kafscale
from support.samples import DATA

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tieredfs_kafscale.__file__).parent
STORE = str(DATA / "store")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the folder of the distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel was installed to, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    _pip("install", "--target", str(folder), str(wheel))
    return folder


def _pip(*arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "pip", "-q", *arguments, "--no-deps", "--no-index"],
        check=True,
    )


def _run(site: Path, code: str, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_the_package_its_types_and_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = {f"tieredfs_kafscale/{path.name}" for path in PACKAGE.glob("*.py")}
    assert modules | {"tieredfs_kafscale/py.typed"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if "tests" in name]


def test_the_wheel_is_found_by_its_entry_point_and_not_imported(site: Path) -> None:
    out = _run(
        site,
        "import sys, tieredfs\n"
        "info, = [i for i in tieredfs.installed_plugins() if i.name == 'kafscale']\n"
        "print(info.value, info.distribution, 'tieredfs_kafscale' in sys.modules)",
    )
    assert out.split() == ["tieredfs_kafscale:KafScale", "tieredfs-kafscale", "False"]


@pytest.mark.parametrize("name", ["", "kafscale+"])
def test_the_wheel_reads_a_tier_that_is_named_or_found_out(
    site: Path, name: str
) -> None:
    code = (
        "import sys, tieredfs\n"
        "tier = tieredfs.open_tier(sys.argv[1])\n"
        "import tieredfs_kafscale\n"
        "print(tieredfs_kafscale.__file__)\n"
        "print(tier.topic('codec-mixed').scan().to_table().num_rows)"
    )
    file, rows = _run(site, code, f"{name}{STORE}").split()
    assert Path(file).is_relative_to(site)
    assert int(rows) == 654


def test_the_command_line_reads_a_tier(site: Path) -> None:
    code = "import sys; from tieredfs.cli import main; main()"
    topics = _run(site, code, "ls", STORE)
    assert "nulls-and-headers" in topics
    lines = _run(site, code, "cat", STORE, "nulls-and-headers", "--format", "jsonl")
    assert len(lines.splitlines()) == 206


def test_only_public_names_of_tieredfs_are_used() -> None:
    doors = {"tieredfs": tieredfs, "tieredfs.storage": tieredfs.storage}
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not any(name.name.startswith("tieredfs") for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = str(node.module)
                if module.partition(".")[0] == "tieredfs":
                    public = set(doors[module].__all__)
                    assert {name.name for name in node.names} <= public
