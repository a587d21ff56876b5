"""Each way in which the objects of a segment were damaged for the plugin to read."""

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["damaged"]

_Manifest = dict[str, Any]
_LOG, _INDEXES, _MANIFEST = "log", "indexes", "rsm-manifest"


def damaged(case: str, objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the objects of a segment, by suffix, after one kind of damage.

    Raises:
        LookupError: The kind is not known.
    """
    whole = dict(objects)
    if case in _OBJECTS:
        _OBJECTS[case](whole)
        return whole
    text = whole[_MANIFEST]
    if case in _TEXTS:
        return {**whole, _MANIFEST: _TEXTS[case](text)}
    fields = json.loads(text)
    changed = _FIELDS[case](fields) or fields
    return {**whole, _MANIFEST: json.dumps(changed, separators=(",", ":")).encode()}


def _cut(suffix: str, size: Callable[[int], int]) -> Callable[[dict[str, bytes]], None]:
    def change(objects: dict[str, bytes]) -> None:
        data = objects[suffix]
        objects[suffix] = data[: size(len(data))]

    return change


def _flip(suffix: str, at: int) -> Callable[[dict[str, bytes]], None]:
    def change(objects: dict[str, bytes]) -> None:
        data = bytearray(objects[suffix])
        data[at] ^= 1
        objects[suffix] = bytes(data)

    return change


def _exchange(objects: dict[str, bytes]) -> None:
    size = json.loads(objects[_MANIFEST])["chunkIndex"]["transformedChunkSize"]
    log = objects[_LOG]
    objects[_LOG] = log[size : 2 * size] + log[:size] + log[2 * size :]


def _with(*path: str, value: object) -> Callable[[_Manifest], None]:
    def change(fields: _Manifest) -> None:
        place = fields
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


def _without(*path: str) -> Callable[[_Manifest], None]:
    def change(fields: _Manifest) -> None:
        place = fields
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]

    return change


def _data_key(change: Callable[[str, str], str]) -> Callable[[_Manifest], None]:
    def apply(fields: _Manifest) -> None:
        key_id, _, wrapped = fields["encryption"]["dataKey"].partition(":")
        fields["encryption"]["dataKey"] = change(key_id, wrapped)

    return apply


def _other(text: str) -> str:
    """Change base64 so that it is still some."""
    return text[:40] + ("A" if text[40] != "A" else "B") + text[41:]


def _aad(fields: _Manifest) -> None:
    fields["encryption"]["aad"] = _other(fields["encryption"]["aad"])


def _last(fields: _Manifest) -> _Manifest:
    return {key: fields[key] for key in [*(k for k in fields if k != "version")]} | {
        "version": fields["version"]
    }


_OBJECTS: dict[str, Callable[[dict[str, bytes]], object]] = {
    "nothing damaged": lambda _: None,
    "no .log object": lambda objects: objects.pop(_LOG),
    "no .indexes object": lambda objects: objects.pop(_INDEXES),
    "no .rsm-manifest object": lambda objects: objects.pop(_MANIFEST),
    ".log truncated to half": _cut(_LOG, lambda size: size // 2),
    ".log cut by 100 bytes": _cut(_LOG, lambda size: size - 100),
    ".log with 100 bytes more": lambda objects: objects.update(
        {_LOG: objects[_LOG] + bytes(100)}
    ),
    ".log empty": _cut(_LOG, lambda _: 0),
    ".log one byte flipped in the first chunk": _flip(_LOG, 2),
    ".indexes truncated to half": _cut(_INDEXES, lambda size: size // 2),
    ".indexes one byte flipped at 20": _flip(_INDEXES, 20),
    "manifest empty": _cut(_MANIFEST, lambda _: 0),
    "manifest cut": _cut(_MANIFEST, lambda size: size // 2),
    "encrypted chunks 0 and 1 exchanged": _exchange,
}

_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "manifest: with white space": lambda text: (
        b"\n " + json.dumps(json.loads(text), indent=2).encode()
    ),
    "manifest: trailing garbage": lambda text: text + b" } garbage",
}

_FIELDS: dict[str, Callable[[_Manifest], _Manifest | None]] = {
    "manifest: extra top-level field": _with("more", value=1),
    "manifest: extra field inside remoteLogSegmentMetadata": _with(
        "remoteLogSegmentMetadata", "more", value=1
    ),
    "manifest: extra field inside segmentIndexes": _with(
        "segmentIndexes", "more", value=1
    ),
    "manifest: extra field inside chunkIndex": _with("chunkIndex", "more", value=1),
    "manifest: no transaction key": _without("segmentIndexes", "transaction"),
    "manifest: transaction null": _with("segmentIndexes", "transaction", value=None),
    "manifest: no remoteLogSegmentMetadata": _without("remoteLogSegmentMetadata"),
    "manifest: no compression key": _without("compression"),
    "manifest: version 2": _with("version", value="2"),
    "manifest: version as a number 1": _with("version", value=1),
    "manifest: no version": _without("version"),
    "manifest: version last": _last,
    "manifest: other field order": lambda fields: dict(reversed(fields.items())),
    "manifest: chunkIndex type unknown": _with("chunkIndex", "type", value="other"),
    "manifest: encryption null": _with("encryption", value=None),
    "manifest: unknown key id": _data_key(lambda _, wrapped: f"k9:{wrapped}"),
    "manifest: data key damaged": _data_key(lambda key, text: f"{key}:{_other(text)}"),
    "manifest: dataKey without key id": _data_key(lambda _, wrapped: wrapped),
    "manifest: aad damaged": _aad,
}
