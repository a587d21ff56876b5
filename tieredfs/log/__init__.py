"""Floor 5: partitions as one log, whatever segments they lie in.

In ``planning``, ``catalog`` lists the segments, and ``tiles`` (pure) decides which of
them serve which offsets. In ``read``, ``reader`` plans the reads of a partition,
``pipeline`` makes records of what is planned, and ``times`` finds the offset of a time;
``scan`` and ``fetch`` are the two ways to read that the public API has, and
``partition_view`` is for those that pass batches on as they are. In ``follow``,
``handover`` (pure) decides whether the tier or the broker has the next record. In
``manager``, a ``leader`` copies what is closed and deletes what has expired, each in
its time.
"""

from tieredfs.log.follow.follow import Follow
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.status import Lag, PartitionStatus, Role
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.explanation import Explanation, ScanStats
from tieredfs.log.read.fetch import Fetched
from tieredfs.log.read.reader import Bounds, TieredReader
from tieredfs.log.read.scan import Scan
from tieredfs.log.retention.expire import ExpiredPartition
from tieredfs.log.retention.plan import Retention

__all__ = [
    "Bounds",
    "ExpiredPartition",
    "Explanation",
    "Fetched",
    "Follow",
    "Lag",
    "ManagerSettings",
    "PartitionStatus",
    "RemoteLogManager",
    "Retention",
    "Role",
    "Scan",
    "ScanPlan",
    "ScanStats",
    "SegmentCatalog",
    "SegmentSlice",
    "TieredReader",
]
