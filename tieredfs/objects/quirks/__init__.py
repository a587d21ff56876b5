"""One file per backend: which trap it sets, and how it is closed."""

from tieredfs.objects.quirks.azure import AzureBackend
from tieredfs.objects.quirks.default import Backend
from tieredfs.objects.quirks.gcs import GCSBackend
from tieredfs.objects.quirks.listing import Listing, ObjectInfo, Page
from tieredfs.objects.quirks.local import LocalBackend
from tieredfs.objects.quirks.memory import MemoryBackend
from tieredfs.objects.quirks.parts import Part, PartLimits, UnfinishedUpload
from tieredfs.objects.quirks.s3 import S3Backend

__all__ = [
    "BACKENDS",
    "Backend",
    "Listing",
    "ObjectInfo",
    "Page",
    "Part",
    "PartLimits",
    "UnfinishedUpload",
]

BACKENDS: dict[str, type[Backend]] = {
    "abfs": AzureBackend,
    "abfss": AzureBackend,
    "az": AzureBackend,
    "file": LocalBackend,
    "local": LocalBackend,
    "gcs": GCSBackend,
    "gs": GCSBackend,
    "memory": MemoryBackend,
    "s3": S3Backend,
    "s3a": S3Backend,
}
"""The backend of each fsspec protocol that has quirks of its own."""
