"""The default backend, for all other fsspec filesystems and for chains.

Traps closed here, seen with fsspec 2026.9: many filesystems connect when they are
created, without a timeout, so that is done on a thread that can be abandoned; a call
that hangs keeps its locks and connections, and an instance whose connection was lost
remains unusable, so the next attempt after such a failure creates a new instance.
Without Hadoop or Java, pyarrow's HDFS raises an OSError of a hundred lines, and a
different one at each later attempt, as if a retry could help.
"""

from collections.abc import Mapping
from typing import Self

from fsspec.core import url_to_fs

from tieredfs.errors import StorageUnavailableError, TieredFSError
from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.chain import own_links
from tieredfs.objects.concurrency.call_with_timeout import (
    AbandonedCallsError,
    EarlierWriteError,
    calls_to,
)
from tieredfs.objects.errors_map import failure_class
from tieredfs.objects.identity import identity_of

__all__ = ["OtherBackend"]

_OF_HADOOP = ("libhdfs", "libjvm")
_NO_HADOOP = (
    "Hadoop's client cannot be loaded: install Hadoop and Java, and set HADOOP_HOME, "
    "JAVA_HOME and CLASSPATH; webhdfs:// needs neither"
)
_STRICT = frozenset({"sftp", "ssh"})
"""Protocols whose filesystems pass unknown options to a client that refuses them."""


class OtherBackend(Backend):
    """A filesystem without a backend of its own, or the first link of a chain."""

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Create new filesystem instances for all links."""
        own = own_links(url, {**cls.options, **options}, _defaults)
        try:
            return calls_to(identity_of(url, options)).run(
                lambda: cls(*url_to_fs(url, **own, skip_instance_cache=True)), timeout
            )
        except OSError as error:
            if not any(library in str(error) for library in _OF_HADOOP):
                raise
            raise ImportError(_NO_HADOOP) from None

    def is_broken_by(self, error: Exception) -> bool:
        """Return whether a request failed without an answer of the server."""
        if isinstance(error, TieredFSError | AbandonedCallsError | EarlierWriteError):
            return False  # no request was made, or it was answered
        # A client may raise a ValueError when its connection was closed.
        return failure_class(error) in {None, StorageUnavailableError}


def _defaults(protocol: str) -> Mapping[str, object]:
    return {} if protocol in _STRICT else Backend.options
