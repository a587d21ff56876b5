"""Faults under a plugin: an object store whose requests fail as planned.

What a plugin sees is what a store may do by its own contract: an error instead of an
answer, a refusal, a listing that ends early, a deletion of some of its keys, a late
answer, a lost reply to a request that was executed, and a process that dies.
"""

from tieredfs.testing.faults.effect import (
    CRASHES,
    FAILURES,
    STORE_ERRORS,
    CrashError,
    Effect,
)
from tieredfs.testing.faults.plan import (
    NO_FAULTS,
    FaultPlan,
    KeyPlan,
    Plan,
    SeededPlan,
    StoreFault,
    StoreRequest,
)
from tieredfs.testing.faults.store import FaultyStore

__all__ = [
    "CRASHES",
    "FAILURES",
    "NO_FAULTS",
    "STORE_ERRORS",
    "CrashError",
    "Effect",
    "FaultPlan",
    "FaultyStore",
    "KeyPlan",
    "Plan",
    "SeededPlan",
    "StoreFault",
    "StoreRequest",
]
