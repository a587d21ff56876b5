"""Whatever else fsspec has a filesystem for.

Traps closed here, seen with fsspec 2026.9: many connect when they are made, without a
limit of time, so that is done where it can be left behind; what a call that hangs holds
on to (a lock, a connection) stays held, and an instance that lost its connection stays
dead, so after such a failure the next try makes a new one. Where there is no Hadoop or
no Java, pyarrow's HDFS raises an OSError of a hundred lines, and for each later try
another one, as if the next could go better.
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
_SPOILS = frozenset({"sftp", "ssh"})
"""Filesystems that hand on every option they do not know, to a client that refuses."""


class OtherBackend(Backend):
    """A filesystem nobody has looked at closely, or the first link of a chain."""

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Make the filesystems of all links, new ones."""
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
        """Trust nothing after a failure that nobody answered."""
        if isinstance(error, TieredFSError | AbandonedCallsError | EarlierWriteError):
            return False  # nothing was asked, or something answered
        # A client whose connection was closed may call that a ValueError.
        return failure_class(error) in {None, StorageUnavailableError}


def _defaults(protocol: str) -> Mapping[str, object]:
    return {} if protocol in _SPOILS else Backend.options
