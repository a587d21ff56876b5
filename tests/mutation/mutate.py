"""Change a module in small ways, one at a time, and see which changes no test notices.

    python mutate.py FOLDER [MODULE...]

It is done in a copy of the checkout, which is made in the folder. The table below says
which tests have to notice.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_KIT: Final = "tests/mutation/ask_kit.py"
_SINGLE_OBJECT: Final = (_KIT, "single-object", "single-object-zstd")
_KAFKA_LOCAL: Final = (_KIT, "kafka-local")

TESTS: Final = {
    "cache/entry_file.py": ("tests/cache/test_entry_file.py",),
    "cache/eviction.py": ("tests/cache/test_eviction.py",),
    "cache/ledger.py": ("tests/cache/test_ledger.py", "tests/cache/test_repair.py"),
    "log/pull/cut.py": ("tests/tier/test_cut.py", "tests/tier/test_pull.py"),
    "log/planning/end_claims.py": ("tests/tier/test_end_claims.py",),
    "log/planning/overlap.py": (
        "tests/tier/test_serving.py",
        "tests/tier/test_overlap.py",
        "tests/tier/test_lineage.py",
        "tests/tier/test_replicas.py",
    ),
    "log/read/replan.py": ("tests/tier/test_retention.py",),
    "objects/ranges.py": ("tests/objects/test_ranges.py",),
    "objects/request.py": ("tests/objects/test_request.py",),
    # By the conformance kit alone, which is to notice what it notices for others.
    "storage/layouts/kafka_files.py": _KAFKA_LOCAL,
    "storage/layouts/kafka_local.py": _KAFKA_LOCAL,
    "storage/layouts/single_object/layout.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/listed_keys.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/listing.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/object_reader.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/object_writer.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/segment_object.py": _SINGLE_OBJECT,
    "storage/layouts/single_object/stored_log.py": _SINGLE_OBJECT,
}
"""Each module that is tried, and its tests, or what asks the kit."""

_ORDER: Final = ("-p", "no:randomly")

_CONFIG: Final = """\
[cosmic-ray]
module-path = "tieredfs/{module}"
timeout = 120.0
excluded-modules = []
test-command = "{command}"

[cosmic-ray.distributor]
name = "local"

[cosmic-ray.filters.operators-filter]
# `|` stands in types only, and small numbers and texts are the same object.
exclude-operators = [
    "core/ReplaceBinaryOperator_BitOr_.*",
    "core/ReplaceComparisonOperator_.*_Is(Not)?$",
]
"""


def mutate(module: str, folder: Path) -> None:
    """Try all changes of a module; print those that were not noticed, and how many."""
    copy = folder / module.replace("/", ".")
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in ("tieredfs", "tests", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    tests = TESTS[module]
    run = () if tests[0] == _KIT else ("-m", "pytest", "-x", "-q", "-n", "0", *_ORDER)
    command = " ".join([sys.executable, *run, *tests])
    config = _CONFIG.format(module=module, command=command)
    (copy / "cosmic-ray.toml").write_text(config)
    settings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(copy), str(copy / "tests"), os.environ.get("PYTHONPATH", "")]
        ),
        # What was compiled before would be run after a change in the same second.
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "ci",
    }
    for step in (
        ("cosmic-ray", "baseline", "cosmic-ray.toml"),
        ("cosmic-ray", "init", "cosmic-ray.toml", "session.sqlite"),
        ("cr-filter-operators", "session.sqlite", "cosmic-ray.toml"),
        ("cosmic-ray", "exec", "cosmic-ray.toml", "session.sqlite"),
        ("cr-report", "--surviving-only", "--show-diff", "session.sqlite"),
    ):
        subprocess.run(step, cwd=copy, env=settings, check=True)  # noqa: S603 - our own commands


def main(folder: str, *modules: str) -> None:
    """Try some modules, or all."""
    for module in modules or TESTS:
        mutate(module, Path(folder))


main(*sys.argv[1:])
