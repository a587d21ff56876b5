"""Run a few lines of Python about the cache in a process of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from support.child_process import child_environment

__all__ = ["run_apart", "start_apart"]

_SECONDS: Final = 60

_LEAD: Final = """
import sys, warnings
from pathlib import Path
from cache.made import bytes_of, content_of, files_in, made_segment, open_cache
from tieredfs.errors import TieredFSWarning

tmp_path = Path(sys.argv[1])
directory = tmp_path / "cache"

def check(cache, number, warns=False):
    with warnings.catch_warnings(record=True) as caught:
        # Not what other threads do meanwhile, such as to fork.
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TieredFSWarning)
        found = bytes_of(cache.get(made_segment(number)).indexes)
    assert found == content_of(made_segment(number))
    assert bool(caught) == warns, caught

"""


def start_apart(program: str, tmp_path: Path) -> subprocess.Popen[str]:
    """Start a program; its input and both outputs are pipes.

    Args:
        program: Lines of Python; ``open_cache(tmp_path)`` opens the cache of the test,
            ``check(cache, number)`` gets a segment and compares every byte.
        tmp_path: Of the test.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _LEAD + program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )


def run_apart(program: str, tmp_path: Path) -> str:
    """Run a program to its end, which is a good one, and return what it wrote."""
    with start_apart(program, tmp_path) as process:
        out, err = process.communicate(timeout=_SECONDS)
    assert (process.returncode, err) == (0, "")
    return out
