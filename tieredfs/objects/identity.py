"""What tells one store from another: the URL, and where it leads.

The same URL with another endpoint or account is another store, and what was kept of the
one must never be taken for the other's. No secret is part of it.
"""

import os
from collections.abc import Iterator, Mapping

from fsspec.config import conf
from fsspec.utils import get_protocol

from tieredfs.objects.secrets import redact_url

__all__ = ["identity_of", "is_local"]

_PLACES = frozenset(
    {
        "account_host",
        "account_name",
        "endpoint",
        "endpoint_url",
        "fo",
        "host",
        "port",
        "profile",
        "target_protocol",
    }
)
_CONNECTION = "connection_string"
_FIELDS = ("AccountName", "BlobEndpoint", "EndpointSuffix", "DefaultEndpointsProtocol")
_AZURE = "AZURE_STORAGE_CONNECTION_STRING"
_ENVIRONMENT = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "STORAGE_EMULATOR_HOST",
)


def is_local(url: str) -> bool:
    """Tell whether a URL leads to this machine's disks or this process's memory."""
    return "::" not in url and get_protocol(url) in {"file", "local", "memory"}


def identity_of(
    url: str,
    options: Mapping[str, object],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return a text that two stores share only if they are the same place.

    Args:
        url: fsspec's.
        options: The storage options, nested ones included.
        environment: Where clients look when the options say nothing.
    """
    # What fsspec's configuration says counts where the options say nothing.
    told = sorted([*_places("", options), *_places("fsspec.", conf)])
    told += [
        f"{name}={environment[name]}" for name in _ENVIRONMENT if name in environment
    ]
    if _AZURE in environment:  # it has a key: only where it leads is told
        told += _places("", {_CONNECTION: environment[_AZURE]})
    return "\n".join([redact_url(url), *map(redact_url, told)])


def _places(path: str, options: Mapping[str, object]) -> Iterator[str]:
    for name, value in options.items():
        where = f"{path}{name}"
        if isinstance(value, Mapping):
            yield from _places(f"{where}.", value)
        elif name == _CONNECTION and isinstance(value, str):
            fields = dict(part.partition("=")[::2] for part in value.split(";"))
            for field in _FIELDS:
                if field in fields:
                    yield f"{where}.{field}={fields[field]}"
        elif name in _PLACES:
            yield f"{where}={value}"
