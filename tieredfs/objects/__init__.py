"""Floor 2: any fsspec URL as a small, strict object store.

``ObjectStore`` has the same verbs and the same behaviour on every backend. ``backends``
has one module or package per backend, which documents how the backend deviates and how
that is corrected.
"""

from tieredfs.objects.backends import ObjectInfo
from tieredfs.objects.backends.local.version import last_changed
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content
from tieredfs.objects.dry_run import DryRunStore
from tieredfs.objects.listed_page import MAX_PAGE_KEYS, ListedPage
from tieredfs.objects.observer import (
    RequestCounter,
    RequestCounts,
    RequestEvent,
    RequestObserver,
)
from tieredfs.objects.policy import RequestPolicy
from tieredfs.objects.prices import Cost, PriceTable, StorePrices
from tieredfs.objects.rate_limit import RateLimit
from tieredfs.objects.store import ObjectStore

__all__ = [
    "MAX_PAGE_KEYS",
    "Content",
    "Cost",
    "DryRunStore",
    "ListedPage",
    "ObjectInfo",
    "ObjectStore",
    "PriceTable",
    "RateLimit",
    "RequestCounter",
    "RequestCounts",
    "RequestEvent",
    "RequestObserver",
    "RequestPolicy",
    "StoreCapability",
    "StorePrices",
    "last_changed",
]
