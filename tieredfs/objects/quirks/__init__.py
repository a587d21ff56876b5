"""One file per backend: which trap it sets, and how it is closed."""

from tieredfs.objects.quirks.archive import ArchiveBackend
from tieredfs.objects.quirks.azure import AzureBackend
from tieredfs.objects.quirks.chain import first_protocol
from tieredfs.objects.quirks.default import Backend
from tieredfs.objects.quirks.gcs import GCSBackend
from tieredfs.objects.quirks.http import HttpBackend
from tieredfs.objects.quirks.listing import Listing, ObjectInfo, Page
from tieredfs.objects.quirks.local import LocalBackend
from tieredfs.objects.quirks.memory import MemoryBackend
from tieredfs.objects.quirks.other import OtherBackend
from tieredfs.objects.quirks.parts import (
    DisturbedUploadError,
    Part,
    PartLimits,
    UnfinishedUpload,
)
from tieredfs.objects.quirks.s3 import S3Backend
from tieredfs.objects.quirks.sftp import SftpBackend
from tieredfs.objects.quirks.webhdfs import WebHdfsBackend

__all__ = [
    "BACKENDS",
    "Backend",
    "DisturbedUploadError",
    "Listing",
    "ObjectInfo",
    "Page",
    "Part",
    "PartLimits",
    "UnfinishedUpload",
    "backend_of",
]

_FIRST_OF_MANY = frozenset({"tar", "zip"})
"""What is known to stand on another filesystem."""

BACKENDS: dict[str, type[Backend]] = {
    "abfs": AzureBackend,
    "abfss": AzureBackend,
    "az": AzureBackend,
    "file": LocalBackend,
    "http": HttpBackend,
    "https": HttpBackend,
    "local": LocalBackend,
    "gcs": GCSBackend,
    "gs": GCSBackend,
    "memory": MemoryBackend,
    "s3": S3Backend,
    "s3a": S3Backend,
    "sftp": SftpBackend,
    "ssh": SftpBackend,
    "tar": ArchiveBackend,
    "webhdfs": WebHdfsBackend,
    "zip": ArchiveBackend,
}
"""The backend of each fsspec protocol that has quirks of its own."""


def backend_of(url: str) -> type[Backend]:
    """Return the class for what the first link of a URL names."""
    protocol = first_protocol(url)
    if "::" in url and protocol not in _FIRST_OF_MANY:
        return OtherBackend
    return BACKENDS.get(protocol, OtherBackend)
