"""Kafka, as Apache's own broker speaks it, with its tiered storage on local files."""

import signal
import socket
import subprocess
from pathlib import Path

from typing_extensions import override

from servers.jars import APT, fetched_jars, run_tool
from servers.ports import HOST
from servers.process import Server, executable

_KAFKA = Path(__file__).with_name("kafka")
_FORMAT_SECONDS = 60
_CLUSTER_ID = "tieredfsTieredfsTierQQ"
_NODE = 1

# Small caches, one partition for each internal topic, and no waiting: a task that a
# broker of real size runs every few minutes is run twice a second.
_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=1048576
remote.log.storage.system.enable=true
remote.log.metadata.manager.listener.name=PLAINTEXT
remote.log.storage.manager.class.name=\
org.apache.kafka.server.log.remote.storage.LocalTieredStorage
rsm.config.dir={remote}
rlmm.config.remote.log.metadata.topic.replication.factor=1
rlmm.config.remote.log.metadata.topic.num.partitions=1
rlmm.config.remote.log.metadata.topic.min.isr=1
remote.log.manager.task.interval.ms=500
"""


class Broker(Server):
    """One broker that is its own controller, started again on the same folder.

    Needs Java 17, and Maven when it is first used: the jars are fetched as
    ``kafka/pom.xml`` names them, and kept in ``~/.cache/kafka-broker``.
    """

    name = "kafka"
    port_count = 2
    start_timeout = 120.0  # two busy cores are shared, and it yields to others
    stop_timeout = 120.0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.logs = root / "logs"
        self.remote = root / "remote"

    @property
    def address(self) -> str:
        """What a client calls ``bootstrap.servers``."""
        return f"{HOST}:{self.port}"

    @property
    def tier(self) -> Path:
        """The folder that LocalTieredStorage writes to."""
        return self.remote / "kafka-tiered-storage"

    @property
    def index_cache(self) -> Path:
        """The folder in which the broker keeps the indexes of the tier that it used."""
        return self.logs / "remote-log-index-cache"

    @override
    def argv(self) -> list[str]:
        java = [
            executable("nice"),
            "-n",
            "10",
            executable("java", f"{APT} openjdk-17-jre"),
        ]
        java += ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += [f"-Dlog4j2.configurationFile={_KAFKA / 'log4j2.properties'}"]
        java += ["-cp", f"{fetched_jars(_KAFKA / 'pom.xml', 'lib')}/*"]
        port, controller = self.ports
        properties = self.root / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                node=_NODE,
                host=HOST,
                port=port,
                controller=controller,
                logs=self.logs,
                remote=self.remote,
            )
        )
        if not (self.logs / "meta.properties").exists():
            self.logs.mkdir(exist_ok=True)
            self.remote.mkdir(exist_ok=True)
            tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID]
            run_tool([*tool, "-c", str(properties)], _FORMAT_SECONDS)
        return [*java, "kafka.Kafka", str(properties)]

    @override
    def ready(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=1):
            return True

    def stop(self) -> None:
        """Ask it to end, and return when it has: its logs are then closed.

        Raises:
            TimeoutError: It has not ended; it is killed.
        """
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(self.stop_timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            complaint = self._complaint(f"not ended in {self.stop_timeout} s")
            raise TimeoutError(complaint) from None
        self._process = None
