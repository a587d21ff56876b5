"""The two places of a migration, which have to be apart."""

from tieredfs.errors import InvalidArgumentError, UnsupportedOperationError
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["check_places"]


def check_places(source: RemoteStorageManager, target: RemoteStorageManager) -> None:
    """Check that a target can be written, and is another place than the source.

    The layouts do not matter: the keys of two of them may collide, and a place with two
    layouts cannot be opened without naming one.

    Raises:
        UnsupportedOperationError: The target is read only.
        InvalidArgumentError: They are the same place, or one is inside the other.
    """
    if Capability.WRITE not in target.capabilities:
        raise UnsupportedOperationError(
            f"{target!r} is read only: nothing can be migrated to it"
        )
    here, there = source.store, target.store
    if here.is_inside(there) or there.is_inside(here):
        where = "the same place as" if here.url == there.url else "not apart from"
        raise InvalidArgumentError(
            f"{there.url} is {where} {here.url}: migrate to a place outside of it"
        )
