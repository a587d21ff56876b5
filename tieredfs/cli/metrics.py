"""Serve the health and the metrics of a manager, for Prometheus."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import click

from tieredfs.errors import (
    FencedError,
    InvalidArgumentError,
    PluginNotInstalledError,
    TieredFSError,
)
from tieredfs.log.manager.status import PartitionStatus

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import Metric

__all__ = ["Address", "serving_metrics"]

_LABELS: Final = ("topic", "partition")
_MAX_PORT: Final = 65_535


class Address(click.ParamType[tuple[str, int]]):
    """A host and a port, such as ``127.0.0.1:9404``; ``:9404`` for every interface."""

    name = "address"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, int]:
        """Parse it."""
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
            self.fail(f"{value!r} is not an address such as 127.0.0.1:9404", param, ctx)
        return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as asked


@contextmanager
def serving_metrics(
    address: tuple[str, int],
    statuses: Callable[[], list[PartitionStatus]],
    now_ms: Callable[[], int],
    problem: Callable[[], TieredFSError | None] = lambda: None,
) -> Iterator[int]:
    """Serve ``/metrics`` and ``/health`` until the block is left.

    Args:
        address: Host and port to listen on; port 0 for any that is free.
        statuses: Returns the status of each partition.
        now_ms: Returns the time, in milliseconds since 1970.
        problem: Returns why there is nothing to do for any partition, if so.

    Yields:
        The port.

    Raises:
        PluginNotInstalledError: prometheus-client is not installed.
        InvalidArgumentError: It cannot listen there.
    """
    metrics = _metrics(statuses, now_ms)

    def serve(
        environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start_response)
        if path != "/health":
            return _answer(start_response, "404 Not Found", "see /metrics, /health")
        found, failing = problem(), sum(map(_is_failing, statuses()))
        if found is not None or failing:
            text = str(found) if found else f"{failing} partitions fail"
            return _answer(start_response, "503 Service Unavailable", text)
        return _answer(start_response, "200 OK", "ok")

    host, port = address
    try:
        server = make_server(host, port, serve, _Server, _QuietHandler)
    except OSError as error:
        raise InvalidArgumentError(
            f"--metrics {host}:{port}: {error.strerror or error}"
        ) from error
    thread = threading.Thread(
        target=server.serve_forever, name="tieredfs-metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _metrics(
    statuses: Callable[[], list[PartitionStatus]], now_ms: Callable[[], int]
) -> "WSGIApplication":
    """Return what answers with the metrics of the partitions as they are then."""
    try:
        from prometheus_client import (  # noqa: PLC0415 - an extra
            CollectorRegistry,
            make_wsgi_app,
        )
        from prometheus_client.core import (  # noqa: PLC0415
            CounterMetricFamily,
            GaugeMetricFamily,
        )
        from prometheus_client.registry import Collector  # noqa: PLC0415
    except ImportError as error:
        msg = "--metrics needs prometheus-client: pip install 'tieredfs[metrics]'"
        raise PluginNotInstalledError(msg) from error

    class Partitions(Collector):
        def collect(self) -> "Iterator[Metric]":
            found, now = statuses(), now_ms()
            for name, (text, value) in _GAUGES.items():
                gauge = GaugeMetricFamily(f"tieredfs_{name}", text, labels=_LABELS)
                for one in found:
                    number = value(one, now)
                    if number is not None:
                        gauge.add_metric(_labels(one), number)
                yield gauge
            for name, (text, count) in _COUNTERS.items():
                counter = CounterMetricFamily(f"tieredfs_{name}", text, labels=_LABELS)
                for one in found:
                    counter.add_metric(_labels(one), count(one))
                yield counter

    registry = CollectorRegistry()
    registry.register(Partitions())
    return make_wsgi_app(registry)


def _is_failing(status: PartitionStatus) -> bool:
    """Return whether a partition fails; not if another manager is in charge of it."""
    return status.error is not None and not isinstance(status.error, FencedError)


def _labels(status: PartitionStatus) -> tuple[str, str]:
    return status.partition.topic, str(status.partition.partition)


def _lag_seconds(status: PartitionStatus, now_ms: int) -> float | None:
    """Return for how long the first segment that is to be copied has been waiting."""
    lag = status.lag
    if not lag.segments:
        return 0.0
    return None if lag.since_ms is None else max(0, now_ms - lag.since_ms) / 1000


_GAUGES: Final[
    dict[str, tuple[str, Callable[[PartitionStatus, int], float | None]]]
] = {
    "lag_segments": (
        "Segments that are closed and not in the tier.",
        lambda one, _: one.lag.segments,
    ),
    "lag_bytes": ("Bytes of these segments.", lambda one, _: one.lag.size),
    "lag_seconds": ("Seconds since the first of them was written.", _lag_seconds),
    "earliest_offset": (
        "First offset of the tier.",
        lambda one, _: one.earliest_offset,
    ),
    "end_offset": (
        "The offset after the last one of the tier.",
        lambda one, _: one.end_offset,
    ),
    "failing": (
        "1 if the last task of the partition failed.",
        lambda one, _: _is_failing(one),
    ),
    "standby": (
        "1 if another manager is in charge of the partition.",
        lambda one, _: isinstance(one.error, FencedError),
    ),
}
_COUNTERS: Final[dict[str, tuple[str, Callable[[PartitionStatus], float]]]] = {
    "copied_segments": ("Segments that were copied.", lambda one: one.copied_segments),
    "copied_bytes": ("Bytes that were copied.", lambda one: one.copied_bytes),
    "deleted_segments": (
        "Segments that have expired and were deleted.",
        lambda one: one.deleted_segments,
    ),
    "failures": ("Tasks that failed.", lambda one: one.failures),
}


def _answer(start_response: "StartResponse", status: str, text: str) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]


class _Server(ThreadingMixIn, WSGIServer):
    """A slow client does not hold up the others, nor the end of the process."""

    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    """Log no requests, and wait for none for ever."""

    timeout = 10.0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""
