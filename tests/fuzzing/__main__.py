"""Try inputs of a target: ``python -m fuzzing TARGET NUMBER [COUNT]``."""

import sys
from pathlib import Path

from fuzzing.campaign import TARGETS, attack, run_apart


def main() -> None:
    """Try one input, or so many from it on; with a file, as a process of its own."""
    name, first, *rest = sys.argv[1:]
    target, number = TARGETS[name], int(first)
    if len(rest) == 2:
        tally = run_apart(target, number, int(rest[0]), Path(rest[1]))
    else:
        count = int(rest[0]) if rest else 1
        tally = attack(target, range(number, number + count))
    sys.stdout.write(f"{tally.tried} {tally.read}\n")


main()
