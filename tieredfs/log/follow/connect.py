"""Connect to the brokers of a topic, with a package that is needed only for that."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec

from tieredfs.errors import PluginNotInstalledError
from tieredfs.log.follow.live_log import LiveLog, LiveTopic

__all__ = ["connector"]


def connector(
    topic: LiveTopic,
    *,
    bootstrap: str,
    config: Mapping[str, object],
    deadline: float,
) -> Callable[[], LiveLog]:
    """Return a function that connects to the brokers of a topic.

    Args:
        topic: What is wanted of it.
        bootstrap: Some brokers, ``HOST:PORT`` with commas between them.
        config: Settings of the client, named as librdkafka names them.
        deadline: Seconds after which brokers that do not answer are unavailable.

    Raises:
        InvalidArgumentError: The address is empty, or a setting is not for a caller.
        PluginNotInstalledError: confluent-kafka is not installed.
    """
    if find_spec("confluent_kafka") is None:
        msg = "follow needs confluent-kafka: pip install 'tieredfs[live]'"
        raise PluginNotInstalledError(msg)
    from tieredfs.log.follow.broker_log import BrokerLog  # noqa: PLC0415
    from tieredfs.log.follow.brokers import Brokers  # noqa: PLC0415

    brokers = Brokers(bootstrap, deadline, config)
    return partial(BrokerLog.connect, brokers, topic)
