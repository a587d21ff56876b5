"""The conformance kit: checks of the plugin contract, and tests made of them.

Each check takes a function that creates the plugin's storage over a store, and raises
AssertionError with a sentence when its rule is broken; it needs no test runner. The
public names of the modules of rules are those of this package, too, so a rule is added
in its module alone. ``RemoteStorageTests`` has a test for each, to be run by pytest,
and ``state_machine_test`` tries any calls in any order.
"""

from tieredfs.testing import (
    appending,
    copying,
    deleting,
    freshness,
    indexes,
    listing,
    logs,
    names,
    reading,
    sharing,
    verifying,
)
from tieredfs.testing.appending import *
from tieredfs.testing.checks import CHECKS
from tieredfs.testing.copying import *
from tieredfs.testing.deleting import *
from tieredfs.testing.freshness import *
from tieredfs.testing.indexes import *
from tieredfs.testing.listing import *
from tieredfs.testing.logs import *
from tieredfs.testing.machine_tests import (
    cache_machine_test,
    state_machine_test,
    store_machine_test,
)
from tieredfs.testing.names import *
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.reading import *
from tieredfs.testing.rule import Check, MakeStorage
from tieredfs.testing.sharing import *
from tieredfs.testing.suite import RemoteStorageTests, replaces_rule
from tieredfs.testing.verifying import *

__all__ = [
    "CHECKS",
    "Check",
    "MakeStorage",
    "RawAccess",
    "RemoteStorageTests",
    "cache_machine_test",
    "replaces_rule",
    "state_machine_test",
    "store_machine_test",
]
__all__ += listing.__all__
__all__ += freshness.__all__
__all__ += logs.__all__
__all__ += names.__all__
__all__ += reading.__all__
__all__ += indexes.__all__
__all__ += copying.__all__
__all__ += appending.__all__
__all__ += deleting.__all__
__all__ += sharing.__all__
__all__ += verifying.__all__
