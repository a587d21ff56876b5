"""Floor 4: logs, fetched before they are read.

A scan, which reads everything once, has a ``RemoteLogFetcher`` of its own. Readers that
come and go share the fetches of ``purgatory`` and, by ``block_reader``, what they have
brought.
"""

from tieredfs.fetch.attempts import Attempts
from tieredfs.fetch.fetcher import FetchedLog, RemoteLogFetcher
from tieredfs.fetch.window import FetchLimits, LogRange

__all__ = [
    "Attempts",
    "FetchLimits",
    "FetchedLog",
    "LogRange",
    "RemoteLogFetcher",
]
