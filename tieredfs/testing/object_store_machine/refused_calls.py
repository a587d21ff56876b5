"""Calls that an object store has to refuse, by what is wrong with them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tieredfs.objects import ObjectStore
from tieredfs.objects.content import BufferContent

__all__ = ["WRITES", "WRONG"]

_INVALID: Final = ("", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\0b")
_RESERVED: Final = (
    ".tieredfs-probe-0123456789abcdef",
    "a/.0123456789abcdef.tieredfs-tmp",
)

_VERBS: Final[Mapping[str, Callable[[str, ObjectStore], object]]] = {
    "get": lambda key, store: store.get(key),
    "get_range": lambda key, store: store.get_range(key, 0, 0),
    "get_ranges": lambda key, store: store.get_ranges(key, []),
    "head": lambda key, store: store.head(key),
    "put": lambda key, store: store.put(key, b"wrong", overwrite=True),
    "create": lambda key, store: store.put(key, b"wrong", overwrite=False),
    "put_file": lambda key, store: store.put_file(
        key, BufferContent(b"wrong"), overwrite=True
    ),
    "copy from": lambda key, store: store.copy(key, "wrong"),
    "copy to": lambda key, store: store.copy("wrong", key),
    "delete": lambda key, store: store.delete(["a", key]),
}

_TARGETS: Final = ("put", "create", "put_file", "copy to")
"""Verbs that write under the key."""

WRONG: Final[Mapping[str, Callable[[ObjectStore], object]]] = {
    **{
        f"{verb} of the invalid key {key!r}": partial(call, key)
        for key in _INVALID
        for verb, call in _VERBS.items()
    },
    **{
        f"{verb} the reserved key {key!r}": partial(_VERBS[verb], key)
        for key in _RESERVED
        for verb in _TARGETS
    },
    "a range that begins below 0": lambda store: store.get_range("a", -1, 1),
    "a range that ends before it begins": lambda store: store.get_range("a", 2, 1),
    "a put of text": lambda store: store.put("wrong", "wrong", overwrite=True),  # type: ignore[arg-type] # which is what is wrong
    "a delete of one key instead of several": lambda store: store.delete("a"),
    "a listing of an invalid prefix": lambda store: store.list("/a"),
    "a listing with another delimiter": lambda store: store.list(delimiter="."),
}
"""Calls whose arguments are wrong, whatever the store holds and can do."""

WRITES: Final[Mapping[str, Callable[[ObjectStore, str], object]]] = {
    "put": lambda store, key: store.put(key, b"refused", overwrite=True),
    "put_new": lambda store, key: store.put_new(key, b"refused"),
    "put_file": lambda store, key: store.put_file(
        key, BufferContent(b"refused"), overwrite=True
    ),
    "copy": lambda store, key: store.copy(key, f"{key}-2"),
    "delete": lambda store, key: store.delete([key]),
}
"""Calls that a store refuses if it is read only."""
