"""The contract of a plugin, in three surfaces.

================  =====================  ===============================================
module            class                  says
================  =====================  ===============================================
``author``        StorageLayout          what an author implements, to read and to write
``user``          RemoteStorageManager   what a user calls; every plugin subclasses it
``verification``  StorageVerification    what verification asks about stored segments
================  =====================  ===============================================

An author reads the first and stops. RemoteStorageManager inherits from the other two,
and has a right default for all that an author need not implement.
"""

from tieredfs.storage.contract.capability import Capability
from tieredfs.storage.contract.leftover import Leftover
from tieredfs.storage.contract.planned_fetch import PlannedFetch
from tieredfs.storage.contract.user import RemoteStorageManager

__all__ = ["Capability", "Leftover", "PlannedFetch", "RemoteStorageManager"]
