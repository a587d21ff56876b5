"""What other copies have stored at an offset, and who may remove it.

A store deletes by key, and not on condition. So what a copy has left could be deleted
together with what a living process has put in its place meanwhile. This is prevented
by a claim, an object that KafScale ignores: who removes puts one, and looks again.
Only if nothing has changed, and there is no other claim, it removes what it has seen.
A copy that completes what is there looks for claims after its last put, and is not
acknowledged while there is one. So one of the two sees the other.

The claim of a process that has died is removed after the deadline of a request.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tieredfs import NotFoundError, ObjectStore
from tieredfs_kafscale.object_names import (
    Suffix,
    object_key,
    object_prefix,
    parse_name,
    sidecar_key,
)
from tieredfs_kafscale.restore import StoredObjects, by_offset

__all__ = ["PriorObjects", "delete_objects"]

_LOOKS: Final = 20
"""How often it is looked whether something changes within a request's deadline."""


@dataclass(frozen=True, slots=True)
class PriorObjects:
    """The objects of one base offset, before a copy to it and during it.

    Attributes:
        store: Where they are.
        folder: The partition's folder.
        base_offset: The offset.
        clock: Returns a time in seconds that only grows.
        sleep: Waits some seconds.
    """

    store: ObjectStore
    folder: str
    base_offset: int
    clock: Callable[[], float]
    sleep: Callable[[float], object]

    def look(self) -> StoredObjects:
        """Return what is there: one listing."""
        prefix = object_prefix(self.folder, self.base_offset)
        named = (
            (parse_name(entry.key[len(self.folder) :]), entry)
            for entry in self.store.list(prefix)
        )
        found = by_offset({name: entry for name, entry in named if name is not None})
        return found.get(self.base_offset, StoredObjects(self.base_offset))

    def get(self, key: str) -> bytes | None:
        """Return an object; None if it does not exist."""
        try:
            return bytes(self.store.get(key))
        except NotFoundError:
            return None

    def stays(self, there: StoredObjects) -> bool:
        """Return whether nothing changes for as long as a request may take.

        Then no copy is in progress that has put it: each of its requests would have
        ended.
        """
        deadline = self.store.policy.deadline
        begun, seen = self.clock(), _marks(there)
        while self.clock() - begun < deadline:
            self.sleep(deadline / _LOOKS)
            if _marks(self.look()) != seen:
                return False
        return True

    def remove_claims(self, there: StoredObjects) -> None:
        """Remove claims, of processes that have died."""
        self.store.delete([entry.key for entry in there.claims.values()])

    def remove(self, there: StoredObjects) -> None:
        """Remove what was seen, unless another process changes it or removes it."""
        number = secrets.randbits(32)
        claim = sidecar_key(self.folder, self.base_offset, number, Suffix.CLAIM)
        try:
            self.store.put(claim, b"claim", overwrite=True)
            if self._is_alone(number, there):
                own = dict(there.own)
                log = own.pop(Suffix.LOG, None)
                self.store.delete([] if log is None else [log.key])
                others = (*own.values(), *there.sidecars.values())
                self.store.delete([entry.key for entry in others])
        finally:
            self.store.delete([claim])

    def _is_alone(self, number: int, there: StoredObjects) -> bool:
        """Return whether nothing has changed, and no other process has a claim.

        Of two that see each other, the one with the smaller number waits for the other
        to withdraw its claim.
        """
        seen = _marks(there, with_claims=False)
        for _ in range(_LOOKS):
            now = self.look()
            claims = now.claims.keys()
            if _marks(now, with_claims=False) != seen or number != min(
                claims, default=None
            ):
                return False
            if len(claims) == 1:
                return True
            self.sleep(self.store.policy.deadline / _LOOKS)
        return False


def _marks(there: StoredObjects, *, with_claims: bool = True) -> list[object]:
    """Return what differs if one of the objects is put again, if the store shows it."""
    claims = there.claims.values() if with_claims else ()
    return [
        (entry.key, entry.size, entry.version, entry.modified)
        for entry in (*there.own.values(), *claims)
    ]


def delete_objects(store: ObjectStore, folder: str, base_offset: int) -> None:
    """Delete all objects of a base offset, the log first: then it is not listed."""
    store.delete([object_key(folder, base_offset, Suffix.LOG)])
    others = (entry.key for entry in store.list(object_prefix(folder, base_offset)))
    store.delete([key for key in others if parse_name(key[len(folder) :])])
