"""The filesystem behind a store: made when it is first used, once in each process."""

import os
import threading
from collections.abc import Mapping

from fsspec.core import url_to_fs
from fsspec.utils import get_protocol

from tieredfs.errors import InvalidArgumentError, PluginNotInstalledError
from tieredfs.objects.quirks import BACKENDS, Backend
from tieredfs.objects.secrets import (
    redact_text,
    redact_url,
    secret_values,
    url_secrets,
)

__all__ = ["Connection"]

_EXTRAS = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure"}
"""Our extra that brings a package, by the name that fsspec's error tells."""

_REFUSALS = (ValueError, TypeError, LookupError, AttributeError)
"""How filesystems refuse a URL or an option; nothing of ours runs meanwhile."""


class Connection:
    """A URL with its options, and the backend that this process has of it."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        """Describe it; nothing is asked yet."""
        self.url = url
        self.options = dict(options)
        self._lock = threading.Lock()
        self._made: tuple[int, Backend] | None = None

    def backend(self) -> Backend:
        """Return this process's backend; a fork makes a new one.

        Raises:
            InvalidArgumentError: The URL or an option is refused.
            PluginNotInstalledError: A package is missing.
            Exception: Whatever a client raises that connects at once.
        """
        made = self._made
        if made is not None and made[0] == os.getpid():
            return made[1]
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make())
            return self._made[1]

    def redacted(self, text: str) -> str:
        """Return ``text`` without any secret of the URL or the options."""
        secrets = secret_values(self.options) | url_secrets(self.url)
        return redact_text(text, secrets)

    def _make(self) -> Backend:
        kind = Backend
        if "::" not in self.url:
            kind = BACKENDS.get(get_protocol(self.url), Backend)
        options = {**kind.options, **self.options}
        try:
            found = url_to_fs(self.url, **options, skip_instance_cache=True)
            return kind(*found)
        except ImportError as error:
            said = str(error)
            extras = (extra for name, extra in _EXTRAS.items() if name in said)
            extra = next(extras, None)
            hint = f"pip install 'tieredfs[{extra}]'" if extra else said
            msg = f"{redact_url(self.url)}: a package is missing: {hint}"
            raise PluginNotInstalledError(msg) from error
        except _REFUSALS as error:
            msg = f"{redact_url(self.url)}: {self.redacted(str(error))}"
            raise InvalidArgumentError(msg) from error
