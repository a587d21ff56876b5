"""The stored bytes, reached behind a plugin's back."""

from collections.abc import Collection

from tieredfs.objects import ObjectStore

__all__ = ["RawAccess"]


class RawAccess:
    """Access to what a plugin stores that bypasses the plugin.

    Rules damage objects by it, and look for what is left behind. This one goes through
    the store that the plugin was given. A plugin that keeps its objects elsewhere, or
    an author who trusts another client more, overrides all four methods. Keys are those
    that ``scrub`` yields.
    """

    def raw_keys(self, store: ObjectStore) -> list[str]:
        """Return the keys of all objects of the plugin.

        Args:
            store: The store that the plugin was given.
        """
        return [entry.key for entry in store.list()]

    def raw_get(self, store: ObjectStore, key: str) -> bytes:
        """Return a whole object.

        Args:
            store: The store that the plugin was given.
            key: Its key.
        """
        return bytes(store.get(key))

    def raw_put(self, store: ObjectStore, key: str, data: bytes) -> None:
        """Store an object, in place of one that is there.

        Args:
            store: The store that the plugin was given.
            key: Its key.
            data: Its content.
        """
        store.put(key, data, overwrite=True)

    def raw_delete(self, store: ObjectStore, keys: Collection[str]) -> None:
        """Delete objects.

        Args:
            store: The store that the plugin was given.
            keys: Their keys.
        """
        store.delete(keys)
