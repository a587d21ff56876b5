"""The conformance kit: checks of the plugin contract, and tests made of them.

Each check takes a function that creates the plugin's storage over a store, and raises
AssertionError with a sentence when its rule is broken; it needs no test runner. The
public names of the modules of rules are those of this package, too, so a rule is added
in its module alone. ``RemoteStorageTests`` has a test for each, to be run by pytest,
and ``state_machine_test`` tries any calls in any order.
"""

from tieredfs.testing.machine_tests import (
    cache_machine_test,
    state_machine_test,
    store_machine_test,
)
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.rule import Check, MakeStorage
from tieredfs.testing.rules import (
    CHECKS,
    appending,
    copying,
    damage,
    deleting,
    foreign,
    freshness,
    indexes,
    listing,
    logs,
    names,
    outages,
    reading,
    sharing,
    signatures,
    verifying,
)
from tieredfs.testing.rules.appending import *
from tieredfs.testing.rules.copying import *
from tieredfs.testing.rules.damage import *
from tieredfs.testing.rules.deleting import *
from tieredfs.testing.rules.foreign import *
from tieredfs.testing.rules.freshness import *
from tieredfs.testing.rules.indexes import *
from tieredfs.testing.rules.listing import *
from tieredfs.testing.rules.logs import *
from tieredfs.testing.rules.names import *
from tieredfs.testing.rules.outages import *
from tieredfs.testing.rules.reading import *
from tieredfs.testing.rules.sharing import *
from tieredfs.testing.rules.signatures import *
from tieredfs.testing.rules.verifying import *
from tieredfs.testing.suite import RemoteStorageTests, replaces_rule

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
__all__ += foreign.__all__
__all__ += freshness.__all__
__all__ += logs.__all__
__all__ += names.__all__
__all__ += reading.__all__
__all__ += outages.__all__
__all__ += damage.__all__
__all__ += indexes.__all__
__all__ += copying.__all__
__all__ += appending.__all__
__all__ += deleting.__all__
__all__ += sharing.__all__
__all__ += signatures.__all__
__all__ += verifying.__all__
