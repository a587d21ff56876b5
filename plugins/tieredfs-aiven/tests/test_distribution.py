"""The plugin as users get it: a wheel, found by its entry point."""

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import s3fs

import tieredfs
import tieredfs.storage
import tieredfs_aiven
from support.samples import KEYS, fill, sample
from tieredfs import ObjectStore, open_tier

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tieredfs_aiven.__file__).parent
KEY = str(KEYS["k1"])


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
    modules = {f"tieredfs_aiven/{path.name}" for path in PACKAGE.glob("*.py")}
    assert modules | {"tieredfs_aiven/py.typed"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if "tests" in name]


def test_the_wheel_is_found_by_its_entry_point_and_not_imported(site: Path) -> None:
    out = _run(
        site,
        "import sys, tieredfs\n"
        "info, = [i for i in tieredfs.installed_plugins() if i.name == 'aiven']\n"
        "print(info.value, info.distribution, 'tieredfs_aiven' in sys.modules)",
    )
    assert out.split() == ["tieredfs_aiven:Aiven", "tieredfs-aiven", "False"]


@pytest.mark.parametrize("name", ["", "aiven+"])
def test_the_wheel_reads_a_tier_that_is_named_or_found_out(
    site: Path, name: str
) -> None:
    one = sample("zstd-encrypted", "txn-0@0")
    code = (
        "import json, sys, tieredfs\n"
        "options = json.loads(sys.argv[2])\n"
        "tier = tieredfs.open_tier(sys.argv[1], plugin_options=options)\n"
        "import tieredfs_aiven\n"
        "print(tieredfs_aiven.__file__)\n"
        "print(tier.topic('txn').scan().to_table().num_rows)"
    )
    url = f"{name}{one.folder / 'objects'}"
    options = json.dumps({"encryption_keys": {"k1": KEY}})
    file, rows = _run(site, code, url, options).split()
    assert Path(file).is_relative_to(site)
    assert int(rows) == 1584


def test_the_command_line_reads_a_tier(site: Path) -> None:
    url = str(sample("plain", "onebatch").folder / "objects")
    code = "import sys; from tieredfs.cli import main; main()"
    topics = _run(site, code, "ls", url)
    assert "one-batch_topic" in topics
    lines = _run(site, code, "cat", url, "one-batch_topic", "--format", "jsonl")
    assert len(lines.splitlines()) == 3


@pytest.mark.parametrize("name", ["", "aiven+"])
def test_a_bucket_is_read(s3: dict[str, object], name: str) -> None:
    bucket = f"bucket{len(name)}"
    s3fs.S3FileSystem(skip_instance_cache=True, **s3).mkdir(bucket)
    one = sample("zstd-encrypted", "onebatch")
    keys = {f"{one.stem}.{suffix}": data for suffix, data in one.objects.items()}
    fill(ObjectStore(f"s3://{bucket}", s3), keys)
    tier = open_tier(
        f"{name}s3://{bucket}",
        storage_options=s3,
        plugin_options={"encryption_keys": {"k1": KEY}},
    )
    assert tier.topics() == ["one-batch_topic"]
    assert tier.topic("one-batch_topic").scan().to_table().num_rows == 3


PUBLIC = {"tieredfs": tieredfs.__all__, "tieredfs.storage": tieredfs.storage.__all__}


def test_only_public_names_of_tieredfs_are_used() -> None:
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not any(name.name.startswith("tieredfs") for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = str(node.module)
                if module.partition(".")[0] == "tieredfs":
                    names = {name.name for name in node.names}
                    assert names <= set(PUBLIC[module])
