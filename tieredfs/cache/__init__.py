"""Floor 4: indexes of stored segments, kept on a local disk across restarts.

``log_blocks`` holds parts of logs in memory.
"""

from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.directory import DEFAULT_BYTES, CacheDirectory, Usage
from tieredfs.cache.entry import CachedIndexes
from tieredfs.cache.inspection import EntryReport, inspect_entries
from tieredfs.cache.stats import CacheStats
from tieredfs.cache.storage import IndexCachedStorage, with_index_cache
from tieredfs.cache.user_directory import CACHE_SETTING, default_directory

__all__ = [
    "CACHE_SETTING",
    "DEFAULT_BYTES",
    "CacheDirectory",
    "CacheStats",
    "CachedIndexes",
    "EntryReport",
    "IndexCachedStorage",
    "RemoteIndexCache",
    "Usage",
    "default_directory",
    "inspect_entries",
    "with_index_cache",
]
