"""An S3 server that is far away, and the requests that reach it."""

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    create_backend_app,
)
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

__all__ = ["DistantS3"]


class DistantS3:
    """A server in a thread; a context manager that ends it.

    Attributes:
        latency: Seconds before a request is looked at.
        requests: Methods and paths of those that came.
    """

    def __init__(self) -> None:
        self.latency = 0.0
        self.requests: list[str] = []
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def options(self) -> dict[str, Any]:
        """What fsspec needs to know of it."""
        return {
            "key": "test",
            "secret": "test",
            "endpoint_url": f"http://127.0.0.1:{self._server.server_port}",
            "client_kwargs": {"region_name": "eu-west-1"},
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(
        self, environ: "WSGIEnvironment", respond: "StartResponse"
    ) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        time.sleep(self.latency)
        answer: Iterable[bytes] = self._moto(environ, respond)
        return answer
