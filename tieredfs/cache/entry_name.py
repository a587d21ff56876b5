"""What an entry is called: by one process in memory, by all of them on disk."""

from hashlib import sha256
from typing import NamedTuple

from tieredfs.model import SegmentMetadata

__all__ = ["EntryKey", "EntryName", "key_of", "name_of"]

EntryKey = tuple[str, str, int, str, int, str, str]


class EntryName(NamedTuple):
    """How an entry is told from all others, of any store.

    Attributes:
        name: Its file's, 32 hexadecimal digits.
        identity: What the file says that it is, 32 bytes.
    """

    name: str
    identity: bytes


def key_of(metadata: SegmentMetadata) -> EntryKey:
    """Return the key of a segment within its store.

    Plain values, for the hash of a dataclass takes as long as a whole lookup. What the
    plugin says counts too: two objects may have one id and other ends.
    """
    partition = metadata.partition
    return (
        partition.topic,
        partition.topic_id,
        partition.partition,
        metadata.id,
        metadata.start_offset,
        metadata.version,
        metadata.custom_metadata.decode("latin-1"),
    )


def name_of(place: str, metadata: SegmentMetadata) -> EntryName:
    """Return the name of a segment's entry.

    Args:
        place: What tells its storage from others: ``RemoteStorageManager.identity``.
        metadata: The segment's.
    """
    told = "\0".join((place, *map(str, key_of(metadata))))
    # What a listing tells may be no text: a version with half a character, say.
    digest = sha256(told.encode(errors="surrogatepass")).digest()
    return EntryName(digest[:16].hex(), digest)
