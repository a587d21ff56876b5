"""Floor 3: what a plugin promises, where plugins are found, and the built-in ones."""

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
from tieredfs.storage.segment_log.facts import LogFacts
from tieredfs.storage.segment_log.inspection import (
    Inspection,
    inspect_copy,
    inspect_log_segment,
)
from tieredfs.storage.segment_log.source import LogContent, LogSource
from tieredfs.storage.segment_table import UNKNOWN_SIZE, SegmentTable
from tieredfs.storage.time_claim import check_max_timestamp
from tieredfs.storage.wrapper import StorageWrapper

__all__ = [
    "NATIVE_LAYOUT",
    "UNKNOWN_SIZE",
    "Capability",
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
    "StorageAddress",
    "StorageWrapper",
    "check_layout",
    "check_max_timestamp",
    "check_plugin",
    "check_target",
    "compressed",
    "copy_objects",
    "detect_layout",
    "inspect_copy",
    "inspect_log_segment",
    "installed_plugins",
    "open_storage",
    "split_plugin_url",
]
