"""Rules for objects that are not of the layout."""

from inspect import getattr_static
from numbers import Real
from pathlib import PurePosixPath
from typing import Final

from tieredfs.errors import TieredFSError
from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract.author import StorageLayout
from tieredfs.testing.rule import Case, NotApplicableError, require, rule

__all__ = [
    "check_foreign_objects_are_skipped",
    "check_malformed_names_are_skipped",
    "check_recogniser_knows_its_own",
]

_FOREIGN_KEYS: Final = (
    "README.md",
    "_SUCCESS",
    "some/other/part-0.parquet",
    "orders.txt",
    "kafka-tiered-storage/README",
)

_FOREIGN_NAMES: Final = ("!first", "!first.d/a", "foreign.bin", "~last", "~last.d/a")
"""They are listed before and after what is of the layout."""


@rule()
def check_foreign_objects_are_skipped(case: Case) -> None:
    """Objects that are not of the layout are skipped: no error, no segment.

    Source: the plugin contract, Foreign objects.
    """
    listed = case.segments()
    folders = {
        f"{one}/" for key in case.raw_keys() for one in PurePosixPath(key).parents
    }
    beside = [
        f"{folder}{name}"
        for folder in sorted(folders - {"./"} | {""})
        for name in _FOREIGN_NAMES
    ]
    for key in (*_FOREIGN_KEYS, *beside):
        case.raw_put(key, b"not of this layout")
    for storage in (case.storage, case.another()):
        found = case.all_listed(storage)
        require(
            found == listed,
            f"With foreign objects it listed {found}, without them {listed}.",
        )


@rule()
def check_malformed_names_are_skipped(case: Case) -> None:
    """An object is skipped if its name is malformed, however close to a segment's.

    Source: the plugin contract, Foreign objects.
    """
    listed = case.segments()
    own = case.stored_keys()
    one_of_each = {PurePosixPath(key).suffix: key for key in sorted(own)}
    for key in one_of_each.values():
        for name, said in _malformed(key, listed).items():
            case.raw_put(name, b"not of this layout")
            for storage in (case.storage, case.another()):
                try:
                    found = case.all_listed(storage)
                except TieredFSError as error:
                    sentence = (
                        f"With an object {name}, {said}, a call raised {error!r}."
                    )
                    raise AssertionError(sentence) from error
                require(
                    found == listed,
                    f"With an object {name}, {said}, it listed {found}, not {listed}.",
                )
            case.raw_delete(name)


@rule()
def check_recogniser_knows_its_own(case: Case) -> None:
    """``recognises`` answers from 0 to 1, and 0 for what is not of the layout.

    Source: the plugin contract, Recognising.
    """
    case.segments()
    own = sorted(case.raw_keys())
    known = type(case.storage).recognises(own)  # when a store is opened there is none
    said = f"For its own keys it answered {known!r}"
    require(isinstance(known, Real), f"{said}, which is not a number.")
    require(0 <= known <= 1, f"{said}.")
    as_set = type(case.storage).recognises(frozenset(own))
    require(as_set == known, f"{said}, and for a set of them {as_set!r}.")
    for keys in ([], list(_FOREIGN_KEYS)):
        score = case.storage.recognises(keys)
        require(score == 0, f"For {keys} it answered {score!r}.")
    mixed = case.storage.recognises([*own, *_FOREIGN_KEYS])
    require(0 <= mixed <= 1, f"For its own keys and others it answered {mixed!r}.")
    default, own_method = (
        getattr_static(one, "recognises") for one in (StorageLayout, type(case.storage))
    )
    if not known and own_method is default:
        raise NotApplicableError("the layout has to be named: it recognises no keys")
    require(known > 0, "For its own keys it answered 0.")
    require(mixed > 0, "For its own keys and others it answered 0.")


def _malformed(key: str, listed: list[SegmentMetadata]) -> dict[str, str]:
    """Return names that no object of a segment can have, and what is wrong with each.

    Args:
        key: Of an object of a segment.
        listed: All segments, whose parts are looked for in the key.
    """
    found = {f"{key}.tmp": "a suffix too many"}
    for segment in listed:
        partition, number = segment.partition, segment.partition.partition
        zeroed, zero = (
            f"{partition.topic}-0{number}",
            "a zero too many in its partition",
        )
        start, topic_id = f"{segment.start_offset:020d}", partition.topic_id
        for right, wrong, said in (
            # 22 characters have four bits more than an id, and these are not zero.
            (segment.id, f"{segment.id[:-1]}B", "a malformed segment id"),
            (topic_id, f"{topic_id[:-1]}B", "a malformed topic id"),
            (start, "9" * len(start), "an offset past the last"),
            (f"/{number}/", f"/0{number}/", zero),
            (f"{partition}/", f"{zeroed}/", zero),
            (f"{partition}-{topic_id}", f"{zeroed}-{topic_id}", zero),
        ):
            found[key.replace(right, wrong)] = said
    found.pop(key, None)  # it does not have all of these
    return found
