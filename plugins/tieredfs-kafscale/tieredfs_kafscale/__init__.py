"""Read and write what KafScale's brokers store."""

from tieredfs_kafscale.storage import KafScale

__all__ = ["KafScale"]
