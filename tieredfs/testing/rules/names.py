"""Rules of names: those of topics, of partitions, and of storages."""

from tieredfs.errors import InvalidArgumentError, UnsupportedOperationError
from tieredfs.integers import MAX_INT32
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition, Uuid
from tieredfs.storage import Capability
from tieredfs.testing.rule import Case, require, require_whole, rule
from tieredfs.testing.segment_plan import build_segment
from tieredfs.testing.stores import scratch_store

__all__ = [
    "check_identity_tells_stores_apart",
    "check_name_of_a_segment_has_the_url",
    "check_names_stay_apart",
]

_TOPIC = Uuid.from_bytes(bytes(range(2, 18)))
_BEGINNINGS = ("0a", "-a", "_a", ".a")  # listed before and after other names
_NAMES = (
    "a",
    "a.b",
    "a_b",
    "A.b",
    "a-b",
    *_BEGINNINGS,
    *("x" * 248 + last for last in "yz"),
)
_LONG = 100
_ALIKE = (
    *(TopicIdPartition(name, 0, _TOPIC) for name in _NAMES),
    *(TopicIdPartition("a.b", number, _TOPIC) for number in (2, 10, 11, MAX_INT32)),
)


@rule(Capability.WRITE)
def check_names_stay_apart(case: Case) -> None:
    """Similar topic names are kept apart, and partitions sort numerically.

    Names are similar if they differ in a dot, in case, in their first character, or
    after 248 characters, or if one goes on after a dot where the other one ends.

    Source: the plugin contract, What an author implements, ``list_partitions``.
    """
    ones = []
    for number, partition in enumerate(_ALIKE, 2):
        one = build_segment(partition, SegmentId.from_bytes(bytes([number] * 16)), 0)
        try:
            case.storage.copy_log_segment(one.metadata, one.data)
        except (UnsupportedOperationError, InvalidArgumentError):
            require(len(partition.topic) > _LONG, f"It refused {one.metadata}.")
            continue  # too long a name for the layout, or for its store
        ones.append(one)
    wanted = sorted(one.metadata.partition for one in ones)
    found = case.another().list_partitions()
    require(found == wanted, f"It listed {found}, not {wanted}.")
    for topic in sorted({partition.topic for partition in wanted}):
        mine = [partition for partition in wanted if partition.topic == topic]
        for said, of_topic in (
            ("list_partitions", case.another().list_partitions(topic)),
            ("leftover_partitions", case.another().leftover_partitions(topic)),
        ):
            require(
                of_topic == mine,
                f"{said}({topic!r}) returned {of_topic}, not {mine}.",
            )
    for one in ones:
        listed = case.another().list_segments(one.metadata.partition)
        ids = [segment.id for segment in listed]
        require(
            ids == [one.metadata.id],
            f"Of {one.metadata.partition} it listed {ids}, not {[one.metadata.id]}.",
        )
        require_whole(case.another(), listed[0], one)


@rule()
def check_name_of_a_segment_has_the_url(case: Case) -> None:
    """``name_of`` returns a name that contains the store's URL.

    It does so for any metadata, also if the storage has not listed the segment.

    Source: the plugin contract, What an author implements, ``name_of``.
    """
    url = case.storage.store.url
    for listed in case.segments():
        bare = SegmentMetadata(listed.partition, listed.id, listed.start_offset)
        for storage in (case.storage, case.another()):
            for segment in (listed, bare):
                name: object = storage.name_of(segment)
                require(
                    isinstance(name, str) and url in name,
                    f"Of {segment} it returned {name!r}, without {url}.",
                )


@rule()
def check_identity_tells_stores_apart(case: Case) -> None:
    """Storages over one store have one ``identity``, and over two stores have two.

    Source: the plugin contract, What an author implements, ``identity``.
    """
    mine = case.storage.identity
    again = case.another().identity
    require(mine == again, f"Over one store it is {mine!r}, and then {again!r}.")
    with scratch_store() as store:
        other = case.another(store).identity
    require(mine != other, f"Over two stores it is {mine!r}.")
