"""Downloads of logs, ahead of their reader."""

from tieredfs.fetch.fetcher import FetchedLog, RemoteLogFetcher
from tieredfs.fetch.window import FetchLimits, LogRange

__all__ = ["FetchLimits", "FetchedLog", "LogRange", "RemoteLogFetcher"]
