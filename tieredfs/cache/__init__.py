"""Floor 4: indexes of stored segments on a local disk, and blocks of logs in memory."""

from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.directory import DEFAULT_BYTES, CacheDirectory, Usage
from tieredfs.cache.entry import CachedIndexes
from tieredfs.cache.inspection import EntryReport, inspect_entries
from tieredfs.cache.log_blocks import BlockKey, LogBlocks
from tieredfs.cache.stats import CacheStats
from tieredfs.cache.storage import IndexCachedStorage, with_index_cache
from tieredfs.cache.user_directory import CACHE_SETTING, default_directory

__all__ = [
    "CACHE_SETTING",
    "DEFAULT_BYTES",
    "BlockKey",
    "CacheDirectory",
    "CacheStats",
    "CachedIndexes",
    "EntryReport",
    "IndexCachedStorage",
    "LogBlocks",
    "RemoteIndexCache",
    "Usage",
    "default_directory",
    "inspect_entries",
    "with_index_cache",
]
