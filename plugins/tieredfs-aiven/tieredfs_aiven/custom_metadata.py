"""The custom metadata that the broker stores with a segment: Kafka's tagged fields.

Numbers are unsigned varints: the count of fields, then for each field its tag, its size
and its bytes. Tag 0 is the number of uploaded bytes, 1 the key prefix, 2 the rest of
the key without its suffix; text is preceded by its length plus one.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple

from tieredfs import InvalidArgumentError, UnsupportedOperationError

__all__ = [
    "CustomField",
    "CustomMetadata",
    "format_custom_metadata",
    "parse_custom_metadata",
    "parse_fields",
]

_MAX_BYTES: Final = 128
"""Most custom metadata that a broker accepts, unless it is told otherwise."""

_SIZE: Final = 0
_PREFIX: Final = 1
_MAIN_PATH: Final = 2
_MORE: Final = 0x80


class CustomField(StrEnum):
    """A field, as the plugin's ``custom.metadata.fields.include`` names it."""

    REMOTE_SIZE = "REMOTE_SIZE"
    OBJECT_PREFIX = "OBJECT_PREFIX"
    OBJECT_KEY = "OBJECT_KEY"


class CustomMetadata(NamedTuple):
    """The keys to which a segment's objects were uploaded; None if not stated."""

    prefix: str | None = None
    main_path: str | None = None


def parse_custom_metadata(data: bytes) -> CustomMetadata:
    """Parse custom metadata, which may be empty.

    Unknown tags are skipped.

    Raises:
        InvalidArgumentError: They are not the plugin's.
    """
    found: dict[int, bytes] = {}
    try:
        count, at = _varint(data, 0) if data else (0, 0)
        for _ in range(count):
            tag, at = _varint(data, at)
            size, at = _varint(data, at)
            found[tag] = data[at : at + size]
            at += size
        if at != len(data):
            raise ValueError  # noqa: TRY301 - translated below
        return CustomMetadata(
            _text(found.get(_PREFIX)), _text(found.get(_MAIN_PATH)) or None
        )
    except (IndexError, ValueError) as error:
        msg = "these custom metadata are not those of Aiven's plugin"
        raise InvalidArgumentError(msg) from error


def parse_fields(given: object) -> frozenset[CustomField]:
    """Return the given fields of custom metadata.

    Raises:
        InvalidArgumentError: They are not a list of their names.
    """
    names = list(given) if isinstance(given, Collection) else [given]
    known = {str(field): field for field in CustomField}
    found = [known.get(name) for name in names if isinstance(name, str)]
    fields = frozenset(field for field in found if field is not None)
    if isinstance(given, str) or len(fields) < len(names):
        raise InvalidArgumentError(
            f"custom_metadata must be a list of any of {', '.join(CustomField)}, not "
            f"{given!r}"
        )
    return fields


def format_custom_metadata(
    included: Collection[CustomField], remote_size: int, prefix: str, main_path: str
) -> bytes:
    """Return the custom metadata of a segment; empty if no field is included.

    Args:
        included: The fields.
        remote_size: Bytes of the segment's objects.
        prefix: Key prefix of these objects.
        main_path: The rest of their keys, without the suffix.

    Raises:
        UnsupportedOperationError: They are more than 128 bytes.
    """
    if not included:
        return b""
    values = {
        CustomField.REMOTE_SIZE: (_SIZE, _packed(remote_size << 1)),  # zigzag
        CustomField.OBJECT_PREFIX: (_PREFIX, _compact(prefix)),
        CustomField.OBJECT_KEY: (_MAIN_PATH, _compact(main_path)),
    }
    parts = [_packed(len(included))]
    for field, (tag, value) in values.items():
        if field in included:
            parts += [_packed(tag), _packed(len(value)), value]
    data = b"".join(parts)
    if len(data) > _MAX_BYTES:
        raise UnsupportedOperationError(
            f"{prefix}{main_path}: its custom metadata would be {len(data)} bytes, and "
            f"the limit is {_MAX_BYTES}: leave out OBJECT_PREFIX or OBJECT_KEY"
        )
    return data


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return _packed(len(encoded) + 1) + encoded


def _packed(number: int) -> bytes:
    """Return an unsigned varint."""
    data = bytearray()
    while number >= _MORE:
        data.append(number & ~_MORE & 0xFF | _MORE)
        number >>= 7
    data.append(number)
    return bytes(data)


def _text(field: bytes | None) -> str | None:
    if field is None:
        return None
    length, at = _varint(field, 0)
    if len(field) - at != length - 1:
        raise ValueError
    return field[at:].decode()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & ~_MORE) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return number, at
