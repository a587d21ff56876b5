"""The errors of a Kafka client as ours."""

from typing import Final

from confluent_kafka import KafkaError

from tieredfs.errors import (
    CorruptBatchError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    TieredFSError,
)

__all__ = ["error_of", "is_refusal", "is_transient"]

_KINDS: Final[dict[str, type[TieredFSError]]] = {
    "TOPIC_AUTHORIZATION_FAILED": PermissionDeniedError,
    "GROUP_AUTHORIZATION_FAILED": PermissionDeniedError,
    "CLUSTER_AUTHORIZATION_FAILED": PermissionDeniedError,
    "SASL_AUTHENTICATION_FAILED": PermissionDeniedError,
    "_AUTHENTICATION": PermissionDeniedError,
    "UNKNOWN_TOPIC_OR_PART": NotFoundError,
    "UNKNOWN_TOPIC_ID": NotFoundError,
    "_UNKNOWN_TOPIC": NotFoundError,
    "_UNKNOWN_PARTITION": NotFoundError,
    "_BAD_MSG": CorruptBatchError,
    "_BAD_COMPRESSION": CorruptBatchError,
    "INVALID_MSG": CorruptBatchError,
    "_INVALID_ARG": InvalidArgumentError,
    "INVALID_TOPIC_EXCEPTION": InvalidArgumentError,
}
"""The class of each error, by its name in librdkafka; any other may pass by itself."""


def error_of(error: KafkaError, where: str) -> TieredFSError:
    """Return an error of the client as ours.

    Args:
        error: The client's error.
        where: What was asked: brokers and topic.
    """
    kind = _KINDS.get(error.name(), StorageUnavailableError)
    return kind(f"{where}: {error.str()}")


def is_refusal(error: KafkaError) -> bool:
    """Return whether an error says that the credentials are not good enough."""
    return _KINDS.get(error.name()) is PermissionDeniedError


def is_transient(error: KafkaError) -> bool:
    """Return whether an error may pass by itself."""
    return error.name() not in _KINDS
