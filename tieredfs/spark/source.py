"""The data source: planned on the driver, read in the executors."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from tieredfs.errors import (
    InvalidArgumentError,
    PluginNotInstalledError,
    UnsupportedOperationError,
)
from tieredfs.format.records.schema import COLUMNS
from tieredfs.objects.identity import is_in_memory
from tieredfs.spark.options import (
    SourceOptions,
    parse_options,
    parse_stream_options,
)
from tieredfs.spark.redaction import hide_credentials
from tieredfs.spark.rows import HEADERS, TYPES
from tieredfs.spark.view_columns import VIEWS
from tieredfs.storage.plugins.registry import split_plugin_url

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
    )

    from tieredfs.spark.query_schema import check_schema, to_ddl
    from tieredfs.spark.record_reader import record_reader
    from tieredfs.spark.stream_reader import TieredFSStreamReader
    from tieredfs.spark.view_reader import ViewReader
except ImportError as error:
    msg = "tieredfs.spark needs pyspark: pip install 'tieredfs[spark]'"
    raise PluginNotInstalledError(msg) from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["TieredFSDataSource", "register"]

_log: Final = logging.getLogger("tieredfs.spark")
_READ_ONLY = "format('tieredfs') does not write yet: Topic.append in Python does"


def register(spark: "SparkSession") -> None:
    """Make ``format("tieredfs")`` known to a session.

    Credentials among its options are kept out of the texts that Spark shows of queries,
    unless ``spark.sql.redaction.string.regex`` is set already.
    """
    spark.dataSource.register(TieredFSDataSource)
    hide_credentials(spark)


class TieredFSDataSource(DataSource):
    """Records of topics, as Spark's own Kafka source gives them."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "tieredfs"

    def schema(self) -> str:
        """Return the columns that are asked for, by default those of Kafka's source.

        Raises:
            InvalidArgumentError: An option is wrong, in batch and in streaming queries:
                Spark does not say which of them it is for.
        """
        try:
            options = parse_options(self.options)
        except InvalidArgumentError:
            if not _is_for_streams(self.options):
                raise
            options = parse_stream_options(self.options)
        _check_path(options)
        if options.view is not None:
            return to_ddl(VIEWS[options.view])
        names = options.columns or [
            name for name in COLUMNS if name != HEADERS or options.include_headers
        ]
        return to_ddl({name: TYPES[name] for name in names})

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return a reader of the columns that the query's schema has.

        Raises:
            InvalidArgumentError: An option is wrong, or the schema is not of columns of
                the source.
        """
        options = parse_options(self.options)
        _check_path(options)
        names = _columns_of(schema, options)
        _warn_of_misspelt(options)
        if options.view is not None:
            return ViewReader(options.view, options, names)
        return record_reader(options, names)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream, of the columns that the query's schema has.

        Raises:
            InvalidArgumentError: As from ``reader``.
        """
        options = parse_stream_options(self.options)
        _check_path(options)
        _warn_of_misspelt(options)
        return TieredFSStreamReader(options, _columns_of(schema, options))

    def writer(self, schema: "StructType", overwrite: bool) -> NoReturn:  # noqa: FBT001 - Spark's
        """Refuse to write.

        Raises:
            UnsupportedOperationError: Always, for now.
        """
        del schema, overwrite
        raise UnsupportedOperationError(_READ_ONLY)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> NoReturn:  # noqa: FBT001, N802 - Spark's
        """Refuse to write.

        Raises:
            UnsupportedOperationError: Always, for now.
        """
        del schema, overwrite
        raise UnsupportedOperationError(_READ_ONLY)


def _is_for_streams(given: Mapping[str, str]) -> bool:
    try:
        parse_stream_options(given)
    except InvalidArgumentError:
        return False
    return True


def _check_path(options: SourceOptions) -> None:
    """Raise InvalidArgumentError for a tier in the memory of a process."""
    _, url = split_plugin_url(options.path)
    if is_in_memory(url):
        raise InvalidArgumentError(
            f"option 'path': {url} is in the memory of the process that wrote it; "
            "Spark plans and reads in others, which need a URL that they can open"
        )


def _warn_of_misspelt(options: SourceOptions) -> None:
    for name, other in options.misspelt.items():
        _log.warning("Option '%s' is ignored. Did you mean '%s'?", name, other)


def _columns_of(schema: "StructType", options: SourceOptions) -> tuple[str, ...]:
    """Return the names of a schema's columns, which the source has.

    Raises:
        InvalidArgumentError: It does not, or another option asks for others.
    """
    check_schema(schema, TYPES if options.view is None else VIEWS[options.view])
    names = tuple(schema.fieldNames())
    if options.columns not in {None, names}:
        msg = f"option 'columns': the query's schema has {', '.join(names)}"
        raise InvalidArgumentError(msg)
    return names
