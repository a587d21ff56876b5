"""Checks of the plugin contract, one for each rule, without a test runner.

Each check takes a function that creates the plugin's storage over a store, and raises
AssertionError with a sentence when its rule is broken. The public names of the modules
of rules are those of this package, too, so a rule is added in its module alone.
"""

from typing import Final

from tieredfs.testing import copying, deleting, indexes, listing, reading, sharing
from tieredfs.testing.copying import *
from tieredfs.testing.deleting import *
from tieredfs.testing.indexes import *
from tieredfs.testing.listing import *
from tieredfs.testing.reading import *
from tieredfs.testing.rule import Check, MakeStorage, checks_in
from tieredfs.testing.sharing import *

__all__ = ["CHECKS", "Check", "MakeStorage"]
__all__ += listing.__all__
__all__ += reading.__all__
__all__ += indexes.__all__
__all__ += copying.__all__
__all__ += deleting.__all__
__all__ += sharing.__all__

CHECKS: Final[tuple[Check, ...]] = (
    *checks_in(listing),
    *checks_in(reading),
    *checks_in(indexes),
    *checks_in(copying),
    *checks_in(deleting),
    *checks_in(sharing),
)
"""Every check, by subject."""
