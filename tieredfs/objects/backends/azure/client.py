"""The client of an Azure container: made of adlfs's credentials, and closed in time.

Traps closed here, seen with adlfs 2026.8 and azure-core 1.41: neither has an option
against aiohttp's repeating a request whose connection was reset; a body of a MiB or
more is written in one go, while the loop stands still; the environment's proxies and a
``.netrc`` are looked for at each request, in a thread; adlfs's finalizers keep every
filesystem till the process ends, and then wait for a loop that a forked child has not;
redirects are followed, with the credentials, and the page they end at is an object.
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

__all__ = ["close_with", "endpoint_of", "make_container"]

_FIRST_REFUSAL = 300
_SIGN = "x-ms-request-id"
"""A header that each answer of the service has."""

_SECONDS = {"connection_timeout": 20, "read_timeout": 60}
"""How long a socket may be silent: the client's defaults, which a transport lacks."""


def make_container(filesystem: AbstractFileSystem, name: str, largest: int) -> Any:  # noqa: ANN401 - the client has no types here
    """Make a client that sends each request once, with a filesystem's credentials.

    Args:
        filesystem: Of adlfs; it opens no connections itself.
        name: The container's.
        largest: Bytes up to which an object is put in one request.

    Raises:
        ValueError: The name or the account is none.
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
        max_single_put_size=largest,
        retry_total=0,
        permit_redirects=False,
        proxies=_proxies(account.primary_hostname),
        transport=_transport(filesystem),
    )


def endpoint_of(url: str, options: Mapping[str, object]) -> str:
    """Return the URL of the account that adlfs is led to, without a signature."""
    # A key that opens nothing: without any, it looks for credentials.
    nobody = {"credential": None, "account_key": "bm9uZQ=="}
    filesystem, _ = url_to_fs(url, **{**options, **nobody}, skip_instance_cache=True)
    _take_finalizers(filesystem)
    account = filesystem.service_client
    return f"{account.scheme}://{account.primary_hostname}"


def _transport(filesystem: AbstractFileSystem) -> object:
    """Make a transport that sends a request once."""
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
                said = f"{answer.status_code}: not an answer of Azure's"
                raise OSError(f"{said}; check the endpoint")
            return answer

        def _get_request_data(self, request: Any) -> Any:  # noqa: ANN401 - Azure's
            data = super()._get_request_data(request)
            # aiohttp writes plain bytes in one go, and warns that nothing else runs.
            return io.BytesIO(data) if data and isinstance(data, bytes) else data

    chosen = {**_SECONDS, **filesystem._timeout_kwargs}  # noqa: SLF001 - the user's
    chosen.pop("timeout", None)  # the server's own, for one operation
    return OneTryTransport(use_env_settings=False, **chosen)


def _proxies(host: str) -> Mapping[str, str]:
    """Return the proxies on the way to a host, as the environment has them now.

    To look for them at each request halves how many are made in a second.
    """
    return {} if proxy_bypass(urlsplit(f"//{host}").hostname or "") else getproxies()


def close_with(owner: object, filesystem: AbstractFileSystem, container: Any) -> None:  # noqa: ANN401 - as above
    """See to it that what is open is closed when its owner goes, instead of adlfs."""
    _take_finalizers(filesystem)
    ours = [container]
    if filesystem.sync_credential is not None:  # adlfs made both, and not the user
        ours.append(filesystem.credential)
    weakref.finalize(owner, _close, os.getpid(), filesystem.loop, ours)


def _take_finalizers(filesystem: AbstractFileSystem) -> None:
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined] # noqa: SLF001 - they are kept nowhere else
        alive = finalizer.peek()
        if alive is not None and alive[0] is filesystem:
            finalizer.detach()


def _close(pid: int, loop: asyncio.AbstractEventLoop, clients: Sequence[Any]) -> None:
    """Close clients on their loop, unless this is a fork, which has no such loop."""
    if os.getpid() != pid or not loop.is_running():
        return
    futures = [
        asyncio.run_coroutine_threadsafe(client.close(), loop) for client in clients
    ]
    if threading.current_thread() is threading.main_thread():
        wait(futures, timeout=1)  # the process may be about to end
