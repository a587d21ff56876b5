"""Floor 5: partitions as one log, whatever segments they lie in.

``catalog`` lists the segments, ``plan`` (pure) decides which of them serve which
offsets, ``reader`` fetches and decodes them and returns ``fetched``, ``times`` finds
the offset of a time, and ``scan`` is the plan that the public API returns.
"""

from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.tiles import ScanPlan, SegmentSlice
from tieredfs.log.read.fetched import Fetched
from tieredfs.log.read.reader import Bounds, TieredReader
from tieredfs.log.read.scan import Scan

__all__ = [
    "Bounds",
    "Fetched",
    "Scan",
    "ScanPlan",
    "SegmentCatalog",
    "SegmentSlice",
    "TieredReader",
]
