"""Several that create one key at the same moment."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from tieredfs import AlreadyExistsError, ObjectStore

__all__ = ["WRITERS", "race"]

WRITERS = 16


def race(store: ObjectStore, key: str, *, size: int) -> list[bytes]:
    """Let sixteen threads create one key; return what those put that succeeded."""
    ready = threading.Barrier(WRITERS)

    def create(number: int) -> bytes | None:
        content = number.to_bytes(1, "big") + os.urandom(size - 1)
        ready.wait()
        try:
            store.put(key, content, overwrite=False)
        except AlreadyExistsError:
            return None
        return content

    with ThreadPoolExecutor(WRITERS) as pool:
        return [won for won in pool.map(create, range(WRITERS)) if won is not None]
