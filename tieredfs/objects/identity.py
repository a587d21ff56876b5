"""What tells one store from another: the URL, and where it leads.

The same URL with another endpoint or account is another store, and what was kept of the
one must never be taken for the other's. So everything counts that is not known to be of
no account: what counts in vain costs a fetch. No secret is part of it.

Where configuration files and the environment lead a client is the client's to say: each
has its own sources, in an order of its own.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from fsspec.config import conf
from fsspec.utils import get_protocol

from tieredfs.objects.redact import redact_url, without_passwords

__all__ = ["identity_of", "is_local", "place_of"]

_CREDENTIAL = re.compile(
    r"(?i)secret|passw|passphrase|credential|access_key|account_key|private_key"
    r"|session_token|^(?:key|token|sas_token|auth|anon|client_id|tenant_id)$"
)
"""Options that say who asks: whoever may read a store reads the same bytes there."""

_MANNER = frozenset(
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
"""Options that say how a store is asked, and not where it is."""

_MACHINE = re.compile(r"(?i)(?:[^=]*\.)?(?:host|hostname|instance|path|server|url)=")
"""Options without which a client is not made, and that name where it leads."""

_CONNECTION = "connection_string"
_PRIVATE_FIELDS = frozenset({"AccountKey", "SharedAccessSignature"})


def is_local(url: str) -> bool:
    """Tell whether a URL leads to this machine's disks or this process's memory."""
    return "::" not in url and get_protocol(url) in {"file", "local", "memory"}


def identity_of(
    url: str, options: Mapping[str, object], destinations: Sequence[str] = ()
) -> str:
    """Return a text that two stores share only if they are the same place.

    Args:
        url: fsspec's.
        options: The storage options, nested ones included.
        destinations: Where its clients are led, as they say themselves.
    """
    # What fsspec's configuration says counts where the options say nothing.
    told = sorted([*_places("", options), *_places("fsspec.", conf)])
    told += [without_passwords(place) for place in destinations]
    digest = sha256("\0".join([without_passwords(url), *told]).encode(errors="replace"))
    return f"{redact_url(url)}\n{digest.hexdigest()}"


def place_of(kind: str, options: Mapping[str, object]) -> str:
    """Return a text that all clients share which may lead to one place.

    Others may share it as well: of two clients of one class only the machines count
    that their options name. An option may be given that the class takes anyway, or
    make no difference there.

    Args:
        kind: The client's class or protocol.
        options: What the client was made with; nested ones included.
    """
    machines = filter(_MACHINE.match, _places("", options))
    return "\n".join([kind, *sorted(each.lower() for each in machines)])


def _places(path: str, options: Mapping[str, object]) -> Iterator[str]:
    for name, value in options.items():
        where = f"{path}{name}"
        if name in _MANNER or _CREDENTIAL.search(str(name)):
            continue
        if isinstance(value, Mapping):
            yield from _places(f"{where}.", value)
        elif name == _CONNECTION and isinstance(value, str):
            fields = dict(part.partition("=")[::2] for part in value.split(";"))
            for field in sorted(fields.keys() - _PRIVATE_FIELDS):
                yield f"{where}.{field}={fields[field]}"
        elif isinstance(value, str | os.PathLike):
            yield f"{where}={without_passwords(os.fspath(value))}"
        elif isinstance(value, Sequence):
            numbered = {str(at): item for at, item in enumerate(value)}
            yield from _places(f"{where}.", numbered)
        else:
            yield f"{where}={value!r}"
