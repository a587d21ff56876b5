"""Names of cache entries: keys in a process's memory, and file names on disk."""

from hashlib import sha256
from typing import NamedTuple

from tieredfs.model import SegmentMetadata

__all__ = ["EntryKey", "EntryName", "key_of", "name_of"]

EntryKey = tuple[str, str, int, str, int, str, str]


class EntryName(NamedTuple):
    """The unique name of an entry among the entries of all stores.

    Attributes:
        name: Name of its file, 32 hexadecimal digits.
        identity: The identity in the file's header, 32 bytes.
    """

    name: str
    identity: bytes


def key_of(metadata: SegmentMetadata) -> EntryKey:
    """Return the key of a segment within its store.

    The key is a tuple of plain values, because hashing a dataclass takes as long as a
    whole lookup. It includes the plugin's custom metadata: two objects may have one id
    and different ends.
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
        place: Identity of the storage: ``RemoteStorageManager.identity``.
        metadata: Metadata of the segment.
    """
    text = "\0".join((place, *map(str, key_of(metadata))))
    # A listing may contain invalid text, such as a version with a lone surrogate.
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return EntryName(digest[:16].hex(), digest)
