"""The client of an Azure container, created with adlfs's credentials.

Traps closed here, seen with adlfs 2026.8 and azure-core 1.41: neither has an option
that stops aiohttp from retrying a request whose connection was reset; a body of a MiB
or more is written in one go, which blocks the loop; the environment's proxies and a
``.netrc`` are looked up at each request, in a thread; adlfs's finalizers keep every
filesystem until the process ends, and then wait for a loop that a forked child does not
have; redirects are followed, with the credentials, and the page they end at is taken
for an object.
"""

import asyncio
import io
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from tieredfs.objects.concurrency.finalizers import take_finalizers

__all__ = ["close_with", "endpoint_of", "make_container"]

_FIRST_REFUSAL = 300
_SIGN = "x-ms-request-id"
"""A header that is in each answer of the service."""

_SECONDS = {"connection_timeout": 20, "read_timeout": 60}
"""Socket timeouts: the client's defaults, which a transport of its own lacks."""


def make_container(
    filesystem: AbstractFileSystem, name: str, max_single_put: int
) -> Any:  # noqa: ANN401 - the client has no types here
    """Return a client that sends each request once, with a filesystem's credentials.

    Args:
        filesystem: An adlfs filesystem; it opens no connections itself.
        name: Name of the container.
        max_single_put: Maximum bytes of an object that is put in one request.

    Raises:
        ValueError: The name or the account is invalid.
    """
    # Not at the top: tieredfs is imported without any cloud's client.
    from azure.storage.blob.aio import ContainerClient  # noqa: PLC0415

    account = filesystem.service_client
    return ContainerClient(
        account.primary_endpoint,
        name,
        credential=account.credential,
        secondary_hostname=account.secondary_hostname,
        _location_mode=account.location_mode,
        max_single_put_size=max_single_put,
        retry_total=0,
        permit_redirects=False,
        proxies=_proxies(account.primary_hostname),
        transport=_transport(filesystem),
    )


def endpoint_of(url: str, options: Mapping[str, object]) -> str:
    """Return the URL of the account that adlfs uses, without a signature."""
    # An invalid key: without any key, adlfs searches for credentials.
    no_access = {"credential": None, "account_key": "bm9uZQ=="}
    filesystem, _ = url_to_fs(url, **{**options, **no_access}, skip_instance_cache=True)
    take_finalizers(filesystem)
    account = filesystem.service_client
    return f"{account.scheme}://{account.primary_hostname}"


def _transport(filesystem: AbstractFileSystem) -> object:
    """Return a transport that sends each request once."""
    # Not at the top: tieredfs is imported without any cloud's client.
    from azure.core.pipeline.transport import AioHttpTransport  # noqa: PLC0415

    class OneTryTransport(AioHttpTransport):  # type: ignore[misc] # it has no types
        async def open(self) -> None:
            await super().open()
            self.session._retry_connection = False  # noqa: SLF001 - no other way

        async def send(self, request: Any, **options: Any) -> Any:  # noqa: ANN401 - Azure's
            answer = await super().send(request, **options)
            if answer.status_code < _FIRST_REFUSAL and _SIGN not in answer.headers:
                answer.internal_response.close()
                status = answer.status_code
                msg = f"{status}: not an answer of Azure's; check the endpoint"
                raise OSError(msg)
            return answer

        def _get_request_data(self, request: Any) -> Any:  # noqa: ANN401 - Azure's
            data = super()._get_request_data(request)
            # aiohttp writes plain bytes in one go, and warns that it blocks the loop.
            return io.BytesIO(data) if data and isinstance(data, bytes) else data

    chosen = {**_SECONDS, **filesystem._timeout_kwargs}  # noqa: SLF001 - the user's
    chosen.pop("timeout", None)  # the server's own, for one operation
    return OneTryTransport(use_env_settings=False, **chosen)


def _proxies(host: str) -> Mapping[str, str]:
    """Return the proxies for a host, as the environment defines them now.

    Looking them up at each request would halve the requests per second.
    """
    return {} if proxy_bypass(urlsplit(f"//{host}").hostname or "") else getproxies()


def close_with(owner: object, filesystem: AbstractFileSystem, container: Any) -> None:  # noqa: ANN401 - as above
    """Close the clients when their owner is collected, in place of adlfs."""
    take_finalizers(filesystem)
    ours = [container]
    if filesystem.sync_credential is not None:  # adlfs created both, not the user
        ours.append(filesystem.credential)
    weakref.finalize(owner, _close, os.getpid(), filesystem.loop, ours)


def _close(pid: int, loop: asyncio.AbstractEventLoop, clients: Sequence[Any]) -> None:
    """Close clients on their loop, except in a forked child, which lacks the loop."""
    if os.getpid() != pid or not loop.is_running():
        return
    futures = [
        asyncio.run_coroutine_threadsafe(client.close(), loop) for client in clients
    ]
    if threading.current_thread() is threading.main_thread():
        wait(futures, timeout=1)  # the process may be about to end
