"""Keep credentials out of the texts that Spark shows of a query.

Of a query that comes by Spark Connect, Spark keeps the text with all options: the UI,
the history server and the event log show it.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["REDACTION", "hide_credentials"]

REDACTION: Final = "spark.sql.redaction.string.regex"
"""Spark's setting: what matches is replaced in the texts that it shows."""

# All that follows the name of the option, whatever its quotes and escapes; and a
# password in a URL.
_CREDENTIALS: Final = (
    r"(?is)\b(?:storage_options|plugin_options)\b.*"
    r"|(?<=://)[^/@\s\"']*:[^/@\s\"']*(?=@)"
)


def hide_credentials(spark: "SparkSession") -> None:
    """Make Spark replace credentials in the texts that it shows of queries.

    A session that has set ``spark.sql.redaction.string.regex`` keeps its value.
    """
    if spark.conf.get(REDACTION, None) is None:
        spark.conf.set(REDACTION, _CREDENTIALS)
