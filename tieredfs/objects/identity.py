"""The identity of a store: its URL and the endpoint the URL resolves to.

The same URL with another endpoint or account is another store, and data cached from one
must never be served for the other. So every option is part of the identity unless it is
known to be irrelevant; one that is included in vain only costs a fetch. Secrets are not
part of the identity.

The client itself reports which endpoint configuration files and the environment lead
to: each client has its own sources, in an order of its own.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from fsspec.config import conf
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol

from tieredfs.objects.redact import redact_url, without_passwords

__all__ = ["identity_of", "is_in_memory", "is_local", "local_path", "server_of"]

_CREDENTIAL = re.compile(
    r"(?i)secret|passw|passphrase|credential|access_key|account_key|private_key"
    r"|session_token|^(?:key|token|sas_token|auth|anon|client_id|tenant_id)$"
)
"""Options that identify the user: all who may read a store read the same bytes."""

_CLIENT_OPTIONS = frozenset(
    {
        "asynchronous",
        "batch_size",
        "config_kwargs",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "loop",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
        "use_ssl",
        "verify",
    }
)
"""Options that control how requests are made, not where the store is."""

_SERVER = re.compile(r"(?i)(?:[^=]*\.)?(?:host|hostname|instance|path|server|url)=")
"""Options that a client requires, and that name its server."""

_CONNECTION = "connection_string"
_PRIVATE_FIELDS = frozenset({"AccountKey", "SharedAccessSignature"})


def is_local(url: str) -> bool:
    """Return whether a URL is on this machine's disks or in this process's memory."""
    return "::" not in url and get_protocol(url) in {"file", "local", "memory"}


def is_in_memory(url: str) -> bool:
    """Return whether no other process can see what is at a URL."""
    return url.rpartition("::")[2].startswith("memory:")


def local_path(url: str) -> Path | None:
    """Return the absolute path of a URL on this machine's disks; None for others."""
    if "::" in url or get_protocol(url) not in {"file", "local"}:
        return None
    return Path(LocalFileSystem._strip_protocol(url)).resolve()  # noqa: SLF001 - what reads it


def identity_of(
    url: str, options: Mapping[str, object], destinations: Sequence[str] = ()
) -> str:
    """Return a text that two stores share only if they are the same store.

    Args:
        url: An fsspec URL.
        options: The storage options, including nested ones.
        destinations: The endpoints that the clients report.
    """
    # fsspec's configuration applies where an option is not given.
    known = sorted([*_identifying("", options), *_identifying("fsspec.", conf)])
    known += [without_passwords(each) for each in destinations]
    text = "\0".join([without_passwords(url), *known])
    digest = sha256(text.encode(errors="replace"))
    return f"{redact_url(url)}\n{digest.hexdigest()}"


def server_of(kind: str, options: Mapping[str, object]) -> str:
    """Return a text that is the same for all clients that may reach one server.

    Clients of other servers may share it too. For two clients of one class only the
    servers named in their options are compared: any other option may just repeat the
    default of the class, or make no difference.

    Args:
        kind: The client's class or protocol.
        options: The options the client was created with, including nested ones.
    """
    servers = filter(_SERVER.match, _identifying("", options))
    return "\n".join([kind, *sorted(each.lower() for each in servers)])


def _identifying(path: str, options: Mapping[str, object]) -> Iterator[str]:
    """Yield the options that may lead to another store, as texts without secrets."""
    for name, value in options.items():
        where = f"{path}{name}"
        if name in _CLIENT_OPTIONS or _CREDENTIAL.search(str(name)):
            continue
        if isinstance(value, Mapping):
            yield from _identifying(f"{where}.", value)
        elif name == _CONNECTION and isinstance(value, str):
            fields = dict(part.partition("=")[::2] for part in value.split(";"))
            for field in sorted(fields.keys() - _PRIVATE_FIELDS):
                yield f"{where}.{field}={fields[field]}"
        elif isinstance(value, str | os.PathLike):
            yield f"{where}={without_passwords(os.fspath(value))}"
        elif isinstance(value, Sequence):
            numbered = {str(at): item for at, item in enumerate(value)}
            yield from _identifying(f"{where}.", numbered)
        else:
            yield f"{where}={value!r}"
