"""Check wheels that were built: with the kernel, without it, and without a compiler.

Usage: python check_wheels.py FOLDER, which has a folder for each.
"""

import sys
from pathlib import Path
from zipfile import ZipFile

_MAX_BYTES = 1 << 20
_KERNEL = "tieredfs/format/kernel/_kernel."
_BUILT = {".so", ".pyd"}


def main(folder: Path) -> None:
    """Print what the wheels are, and fail where one is not what it should be."""
    compiled, python, without = (
        _wheel(folder / name) for name in ("compiled", "python", "no-compiler")
    )
    assert "-cp311-abi3-" in compiled.name, compiled.name
    ((name, size),) = _kernels(compiled).items()
    assert size < _MAX_BYTES, f"{name}: {size} bytes"
    assert python.name.endswith("-py3-none-any.whl"), python.name
    assert not _kernels(python)
    assert not _kernels(without)
    print(f"{compiled.name}: a kernel of {size} bytes; {python.name}: none")


def _wheel(folder: Path) -> Path:
    (found,) = folder.glob("*.whl")
    return found


def _kernels(wheel: Path) -> dict[str, int]:
    """Return what of the kernel is in a wheel: its types always, its source never."""
    with ZipFile(wheel) as archive:
        files = {
            file.filename: file.file_size
            for file in archive.infolist()
            if file.filename.startswith(_KERNEL) or file.filename.endswith(".h")
        }
    assert files.pop(f"{_KERNEL}pyi")
    assert all(Path(name).suffix in _BUILT for name in files), files
    return files


main(Path(sys.argv[1]))
