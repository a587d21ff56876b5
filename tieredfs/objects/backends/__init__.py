"""One module or package per backend: the traps it sets, and how they are closed."""

from tieredfs.objects.backends.archive import ArchiveBackend
from tieredfs.objects.backends.azure.backend import AzureBackend
from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.chain import first_protocol
from tieredfs.objects.backends.gcs.backend import GCSBackend
from tieredfs.objects.backends.http import HttpBackend
from tieredfs.objects.backends.listing import Listing, ObjectInfo, Page
from tieredfs.objects.backends.local.backend import LocalBackend
from tieredfs.objects.backends.memory import MemoryBackend
from tieredfs.objects.backends.multipart import (
    DisturbedUploadError,
    MultipartConfig,
    Part,
    UnfinishedUpload,
)
from tieredfs.objects.backends.other import OtherBackend
from tieredfs.objects.backends.s3 import S3Backend
from tieredfs.objects.backends.sftp import SftpBackend
from tieredfs.objects.backends.webhdfs import WebHdfsBackend

__all__ = [
    "BACKENDS",
    "Backend",
    "DisturbedUploadError",
    "Listing",
    "MultipartConfig",
    "ObjectInfo",
    "Page",
    "Part",
    "UnfinishedUpload",
    "backend_of",
]

_FIRST_OF_MANY = frozenset({"tar", "zip"})
"""Protocols of a first link that have a backend of their own in a chain."""

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
"""The backend of each fsspec protocol that does not use the default."""


def backend_of(url: str) -> type[Backend]:
    """Return the backend class for the first link of a URL."""
    protocol = first_protocol(url)
    if "::" in url and protocol not in _FIRST_OF_MANY:
        return OtherBackend
    return BACKENDS.get(protocol, OtherBackend)
