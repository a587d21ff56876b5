"""What a rule requires, and the AssertionError with a sentence where it does not hold.

A sentence says what happened, and what should have.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, replace

from tieredfs.errors import TieredFSError
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.samples import Sample

__all__ = [
    "difference",
    "expect_error",
    "in_words",
    "require",
    "require_bytes",
    "require_whole",
]


def require(condition: bool, sentence: str) -> None:  # noqa: FBT001 - reads as assert
    """Raise AssertionError with a sentence unless a condition holds."""
    if not condition:
        raise AssertionError(sentence)


def require_bytes(found: bytes | memoryview, wanted: bytes, said: str) -> None:
    """Require that a call returned exactly some bytes.

    Args:
        found: What it returned.
        wanted: What it has to return.
        said: The call, as the beginning of a sentence.
    """
    if found == wanted:
        return
    if len(found) != len(wanted):
        raise AssertionError(
            f"{said} returned {len(found)} bytes, expected {len(wanted)}."
        )
    pairs = enumerate(zip(bytes(found), wanted, strict=True))
    first = next(number for number, (one, other) in pairs if one != other)
    raise AssertionError(
        f"{said} returned bytes of the expected size, and the first difference is at "
        f"byte {first}."
    )


def require_whole(
    storage: RemoteStorageManager, listed: SegmentMetadata, one: Sample, where: str = ""
) -> None:
    """Require that a segment is, to the byte, the sample that was copied.

    Args:
        storage: What reads it.
        listed: The segment as it was listed.
        one: The sample.
        where: What happened before, as the beginning of the sentence.
    """
    after = f"{where} " if where else ""
    try:
        described = storage.describe(listed)
        log = storage.fetch_log_segment(listed)
        indexes = storage.fetch_all_indexes(listed)
    except TieredFSError as error:
        said = f"{after}{listed} is listed, and reading it raised {error!r}."
        raise AssertionError(said) from error
    found = replace(described, version="", custom_metadata=b"")
    name, wanted = one.metadata, one.data.indexes
    require(
        found == one.described,
        f"{after}describe of {name} does not return what was copied: "
        f"{difference(found, one.described)}.",
    )
    require_bytes(log, one.log, f"{after}fetch_log_segment of {name}")
    said = f"{after}fetch_all_indexes of {name}"
    missing, more = wanted.keys() - indexes.keys(), indexes.keys() - wanted.keys()
    require(not missing, f"{said} returned no {in_words(missing)}.")
    require(not more, f"{said} returned {in_words(more)}, which was not copied.")
    for kind, content in wanted.items():
        require_bytes(indexes[kind], content, f"{said}, {kind},")


def in_words(things: Iterable[object]) -> str:
    """Return things, sorted, as a sentence names them; "none" for none."""
    return ", ".join(sorted(map(str, things))) or "none"


def difference(found: SegmentMetadata, wanted: SegmentMetadata) -> str:
    """Return which fields differ, and how; empty if none does."""
    names = [field.name for field in fields(wanted)]
    pairs = [(name, getattr(found, name), getattr(wanted, name)) for name in names]
    return "; ".join(
        f"{name} {one!r}, expected {other!r}"
        for name, one, other in pairs
        if one != other
    )


def expect_error(
    call: Callable[[], object], error: type[Exception], sentence: str
) -> None:
    """Make a call that must raise an error of ours.

    Args:
        call: What is called.
        error: The class that must be raised.
        sentence: What was called, as the beginning of a sentence.
    """
    try:
        answer = call()
    except error:
        return
    except Exception as other:
        said = f"{sentence} raised {other!r}, not {error.__name__}"
        raise AssertionError(said) from other
    raise AssertionError(f"{sentence} returned {answer!r}, not {error.__name__}")
