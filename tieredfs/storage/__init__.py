"""Floor 3: what a plugin promises, where plugins are found, and the built-in ones.

The author of a layout that can be written to finds here what the built-in ones use:
logs that are given (``LogSource``, ``open_log``, ``open_spool``), what they contain
(``inspect_copy``, ``read_log``), and a copy of several objects (``copy_objects``).
"""

from tieredfs.format.checksum import crc32c
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.storage.contract import (
    Capability,
    Leftover,
    PlannedFetch,
    RemoteStorageManager,
)
from tieredfs.storage.object_copy import CopiedObject, copy_objects
from tieredfs.storage.plugins.address import StorageAddress
from tieredfs.storage.plugins.installed import PluginInfo, installed_plugins
from tieredfs.storage.plugins.registry import (
    NATIVE_LAYOUT,
    check_layout,
    check_plugin,
    check_target,
    compressed,
    detect_layout,
    open_storage,
    split_plugin_url,
)
from tieredfs.storage.segment_log.content_id import ContentId
from tieredfs.storage.segment_log.facts import LogFacts, timestamp_range
from tieredfs.storage.segment_log.inspection import (
    Inspection,
    inspect_copy,
    inspect_log_segment,
)
from tieredfs.storage.segment_log.source import (
    LogContent,
    LogSource,
    log_in_memory,
    open_log,
)
from tieredfs.storage.segment_log.spool import Spool, is_put_in_place, open_spool
from tieredfs.storage.segment_log.stream import read_log
from tieredfs.storage.segment_table import UNKNOWN_SIZE, SegmentTable
from tieredfs.storage.time_claim import check_max_timestamp
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "UNKNOWN_SIZE",
    "Capability",
    "ContentId",
    "CopiedObject",
    "Inspection",
    "Leftover",
    "LogContent",
    "LogFacts",
    "LogSource",
    "PlannedFetch",
    "PluginInfo",
    "RemoteStorageManager",
    "SegmentTable",
    "Spool",
    "StorageAddress",
    "StorageWrapper",
    "check_layout",
    "check_max_timestamp",
    "check_plugin",
    "check_target",
    "compressed",
    "copy_objects",
    "crc32c",
    "detect_layout",
    "inspect_copy",
    "inspect_log_segment",
    "installed_plugins",
    "is_put_in_place",
    "log_in_memory",
    "open_log",
    "open_spool",
    "open_storage",
    "read_log",
    "run_all",
    "split_plugin_url",
    "timestamp_range",
]
