"""Floor 6: ``format("tieredfs")``, a Spark data source over any tier.

The options of Spark's ``format("kafka")`` mean the same here, and rows are the same.
Needs pyspark: ``pip install 'tieredfs[spark]'``.
"""

from tieredfs.spark.source import TieredFSDataSource, register

__all__ = ["TieredFSDataSource", "register"]
