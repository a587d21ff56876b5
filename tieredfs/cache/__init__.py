"""Floor 4: indexes of stored segments, kept on a local disk across restarts."""

from tieredfs.cache.entry import CachedIndexes
from tieredfs.cache.index_cache import DEFAULT_BYTES, RemoteIndexCache
from tieredfs.cache.stats import CacheStats

__all__ = ["DEFAULT_BYTES", "CacheStats", "CachedIndexes", "RemoteIndexCache"]
