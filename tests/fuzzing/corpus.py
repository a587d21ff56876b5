"""What is mutated: real bytes of brokers, the small ones of each kind."""

from contextlib import suppress
from functools import cache
from pathlib import Path

from fuzzing import log_model
from fuzzing.decompression import decompressed
from support.kafka_data import KAFKA

__all__ = ["batches", "files", "logs"]

_LARGEST = 1500  # bytes of a batch: small ones are decoded fast, and edits hit more
_LONGEST = 4096  # bytes of a log


@cache
def files(pattern: str, largest: int = 4096) -> tuple[bytes, ...]:
    """Read the brokers' files of a pattern, each content once, the small ones."""
    found = {
        path.read_bytes()
        for path in sorted(KAFKA.rglob(pattern))
        if "expected" not in path.parts and path.stat().st_size <= largest
    }
    return tuple(sorted(found))


@cache
def batches(magics: frozenset[int]) -> tuple[bytes, ...]:
    """Cut small batches of some versions out of all logs, a few of each log."""
    found: set[bytes] = set()
    for path in sorted(KAFKA.rglob("*.log")):
        if "expected" not in path.parts:
            found.update(_some(path, magics))
    return tuple(sorted(found))


@cache
def logs() -> tuple[bytes, ...]:
    """Return short logs, and the beginnings of longer ones, of all versions."""
    found = set()
    for path in sorted(KAFKA.rglob("*.log")):
        if "expected" not in path.parts:
            whole = [(b, body) for b, body in _read(path) if len(body) < _LARGEST]
            log = b"".join(body for _, body in whole[:5])
            if whole and len(log) <= _LONGEST:
                found.add(log)
    return tuple(sorted(found))


def _some(path: Path, magics: frozenset[int]) -> list[bytes]:
    kept: dict[tuple[int, int], list[bytes]] = {}
    for batch, body in _read(path):
        if batch.magic in magics and len(body) <= _LARGEST:
            kept.setdefault((batch.magic, batch.attributes), []).append(body)
    # The first, the last and the longest of each kind.
    return [
        body
        for bodies in kept.values()
        for body in {bodies[0], bodies[-1], max(bodies, key=len)}
    ]


@cache
def _read(path: Path) -> tuple[tuple[log_model.Batch, bytes], ...]:
    data = path.read_bytes()
    found: list[log_model.Batch] = []
    # The sample data has damaged logs of its own.
    with suppress(log_model.Refused):
        found.extend(log_model.scan(data, decompressed))
    return tuple((batch, log_model.body(data, batch)) for batch in found)
