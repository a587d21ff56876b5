"""How a cluster's brokers are reached, and the clients that reach them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.redact import redact_text, secret_values

__all__ = ["Brokers"]

_T = TypeVar("_T")

_log: Final = logging.getLogger("tieredfs.follow")
_log.addHandler(logging.NullHandler())  # else the client's lines go to standard error

_COMMON: Final = {"client.id": "tieredfs"}
_CONSUMER: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
}
_OWN: Final = frozenset(
    {"bootstrap.servers", "isolation.level", "error_cb", "logger", *_CONSUMER}
)
"""What follow sets itself: another value would lose records, or give them twice."""

_GROUP: Final = "tieredfs-follow"
"""The client demands the name of a group; none is joined, and nothing is committed."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """How to reach a cluster.

    Attributes:
        bootstrap: Some of its brokers, ``HOST:PORT`` with commas between them.
        deadline: Seconds after which a cluster that does not answer is unavailable.
        config: Settings of the client, named as librdkafka names them.
    """

    bootstrap: str
    deadline: float
    config: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse an empty address, and settings that follow makes itself.

        Raises:
            InvalidArgumentError: The address is empty, or ``config`` has a setting that
                a follower makes itself.
        """
        if not self.bootstrap.strip():
            msg = "bootstrap is empty: give HOST:PORT of a broker"
            raise InvalidArgumentError(msg)
        own = sorted(_OWN.intersection(self.config))
        if own:
            msg = f"the setting {own[0]} is not for a config: follow sets it itself"
            raise InvalidArgumentError(msg)

    def consumer(
        self, isolation: str, on_error: Callable[[KafkaError], object]
    ) -> Consumer:
        """Return a consumer of no partitions; it connects by itself.

        Args:
            isolation: Kafka's ``isolation.level``.
            on_error: Is called with the errors of connections.

        Raises:
            InvalidArgumentError: A setting is unknown, or its value invalid.
        """
        group = {"group.id": _GROUP}
        own = {**_CONSUMER, "isolation.level": isolation}
        return self._made(Consumer, group | self._settings(on_error) | own)

    def admin(self, on_error: Callable[[KafkaError], object]) -> AdminClient:
        """Return a client for questions; it connects by itself.

        Args:
            on_error: Is called with the errors of connections.

        Raises:
            InvalidArgumentError: A setting is unknown, or its value invalid.
        """
        return self._made(AdminClient, self._settings(on_error))

    def redacted(self, text: str) -> str:
        """Return a text without the secrets of the settings."""
        return redact_text(text, secret_values(self.config))

    def _settings(self, on_error: Callable[[KafkaError], object]) -> dict[str, object]:
        return {
            **_COMMON,
            **self.config,
            "bootstrap.servers": self.bootstrap,
            "error_cb": on_error,
            "logger": _log,
        }

    def _made(
        self, kind: Callable[[dict[str, Any]], _T], settings: Mapping[str, object]
    ) -> _T:
        try:
            return kind(dict(settings))
        except (KafkaException, TypeError, ValueError) as error:
            said = error.args[0] if error.args else error
            text = said.str() if isinstance(said, KafkaError) else str(said)
            # Without the cause, which may show a secret.
            raise InvalidArgumentError(self.redacted(text)) from None
