"""Read and write the layout of Aiven's tiered-storage plugin for Apache Kafka."""

from tieredfs_aiven.storage import Aiven

__all__ = ["Aiven"]
