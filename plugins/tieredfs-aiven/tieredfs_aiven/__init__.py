"""Read what Aiven's tiered-storage plugin for Apache Kafka writes."""

from tieredfs_aiven.storage import Aiven

__all__ = ["Aiven"]
