"""Floor 4: logs, fetched before they are read.

A scan, which reads everything once, has a ``RemoteLogFetcher`` of its own. Readers that
come and go share a ``FetchPurgatory`` and, by a ``BlockReader``, what it has fetched.
"""

from tieredfs.fetch.block_reader import BlockReader
from tieredfs.fetch.fetcher import Attempts, FetchedLog, RemoteLogFetcher
from tieredfs.fetch.purgatory import FetchPurgatory, PurgatoryLimits
from tieredfs.fetch.window import FetchLimits, LogRange

__all__ = [
    "Attempts",
    "BlockReader",
    "FetchLimits",
    "FetchPurgatory",
    "FetchedLog",
    "LogRange",
    "PurgatoryLimits",
    "RemoteLogFetcher",
]
