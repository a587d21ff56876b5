"""What importing tieredfs brings with it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path

import pytest

_HEAVY = {
    "adlfs",
    "boto3",
    "botocore",
    "aiobotocore",
    "click",
    "confluent_kafka",
    "duckdb",
    "gcsfs",
    "hypothesis",
    "pandas",
    "polars",
    "pyspark",
    "pytest",
    "rich",
    "s3fs",
}


def _imported_by(module: str) -> set[str]:
    """Return the names of all packages that importing a module imports."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_tieredfs_imports_no_client_no_spark_and_no_test_tools() -> None:
    assert not _imported_by("tieredfs") & _HEAVY


def test_importing_the_conformance_kit_imports_no_test_tools() -> None:
    assert not _imported_by("tieredfs.testing") & _HEAVY


def test_what_pytest_finds_of_tieredfs_imports_nothing_but_itself() -> None:
    brought = _imported_by("pytest, pytest_tieredfs") - _imported_by("pytest")
    assert brought == {"pytest_tieredfs"}
    (found,) = (e for e in entry_points(group="pytest11") if e.name == "tieredfs")
    assert found.value == "pytest_tieredfs"


def test_a_start_of_pytest_that_does_not_use_the_kit_imports_no_tieredfs(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    assert config.pluginmanager.has_plugin('tieredfs')\n"
        "    print('imported', *sys.modules)\n"
    )
    # pytest-randomly imports numpy.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:randomly"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (s for s in done.stdout.splitlines() if s.startswith("imported "))
    found = {name.partition(".")[0] for name in line.split()}
    assert "pytest_tieredfs" in found
    assert not found & {"tieredfs", "pyarrow", "fsspec", "numpy"}


def test_importing_tieredfs_warns_of_nothing() -> None:
    code = "import tieredfs"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


_ROOT = Path(__file__).parents[1]
_DISTRIBUTIONS = {
    "azure.core": "azure-core",
    "azure.storage.blob": "azure-storage-blob",
    "Crypto": "pycryptodome",
    "google.auth": "google-auth",
}
"""Those that are not named as what they bring is imported."""


@pytest.mark.parametrize(
    ("project", "package"),
    [
        (_ROOT, "tieredfs"),
        (_ROOT / "plugins" / "tieredfs-aiven", "tieredfs_aiven"),
        (_ROOT / "plugins" / "tieredfs-kafscale", "tieredfs_kafscale"),
    ],
)
def test_whatever_is_imported_is_declared(project: Path, package: str) -> None:
    said = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    extras = said.get("optional-dependencies", {}).values()
    declared = {
        re.split(r"[^\w.-]", each, maxsplit=1)[0]
        for each in chain(said["dependencies"], *extras)
    }
    missing = {
        f"{distribution} in {path.relative_to(project)}"
        for path in (project / package).rglob("*.py")
        for distribution in map(_distribution, _imports(ast.parse(path.read_text())))
        if distribution not in declared | {None, package}
    }
    assert missing == set()


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported when this is run, with what comes of them."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{each.name}" for each in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case _:
                yield from _imports(child)


def _distribution(module: str) -> str | None:
    """Name what brings a module; None if it is Python itself."""
    for prefix, name in _DISTRIBUTIONS.items():
        if module == prefix or module.startswith(f"{prefix}."):
            return name
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    return top if top.startswith("tieredfs_") else top.replace("_", "-")
