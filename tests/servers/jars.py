"""What Maven fetches: the jars that a ``pom.xml`` names, kept for the next time."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from servers.process import executable

__all__ = ["APT", "fetched_jars", "run_tool"]

APT = "on Debian: apt-get install"
"""How to get a program that is missing."""

_CACHE = Path.home() / ".cache" / "kafka-broker"
_FETCH_SECONDS = 280


def fetched_jars(pom: Path, name: str) -> Path:
    """Return the folder of the jars that ``pom`` names, fetched if need be.

    Args:
        pom: Names them, with their versions.
        name: Of the folder in ``~/.cache/kafka-broker``.
    """
    folder = _CACHE / name
    kept = folder / "pom.xml"
    if kept.exists() and kept.read_bytes() == pom.read_bytes():
        return folder
    _CACHE.mkdir(parents=True, exist_ok=True)
    # Beside it, and then renamed: a folder that is there is whole.
    with TemporaryDirectory(dir=_CACHE) as made:
        fetched = Path(made) / name
        maven = [executable("mvn", f"{APT} maven"), "-B", "-q", "-f", str(pom)]
        maven += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        run_tool([*maven, f"-DoutputDirectory={fetched}"], _FETCH_SECONDS)
        (fetched / "pom.xml").write_bytes(pom.read_bytes())
        if folder.exists():
            folder.rename(Path(made) / "old")
        fetched.rename(folder)
    return folder


def run_tool(argv: list[str], seconds: float) -> None:
    """Run a program to its end.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run(  # noqa: S603 - the command is ours
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        tail = done.stdout[-3000:].decode(errors="replace")
        raise RuntimeError(f"{' '.join(argv)}: exited {done.returncode}:\n{tail}")
