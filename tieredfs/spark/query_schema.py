"""The schema of a query: the source's own, or some of its columns."""

from collections.abc import Mapping

from pyspark.sql.types import ArrayType, DataType, StructType

from tieredfs.errors import InvalidArgumentError

__all__ = ["check_schema", "to_ddl"]


def to_ddl(types: Mapping[str, str]) -> str:
    """Return columns as text that has the same meaning under all settings of Spark.

    Args:
        types: Spark's types by the names of the columns.
    """
    # One of Spark's settings reads "timestamp" as a type without a time zone.
    plain = {"timestamp": "timestamp_ltz"}
    return ", ".join(
        f"`{name}` {plain.get(kind, kind)}" for name, kind in types.items()
    )


def check_schema(schema: StructType, types: Mapping[str, str]) -> None:
    """Check that a query's schema has some of the source's columns, each once.

    Args:
        schema: The schema, which may be a user's.
        types: Spark's types by the names of the source's columns.

    Raises:
        InvalidArgumentError: It has no column, another one, or one that may not be
            null: a batch of the source would not fit it.
    """
    names = schema.fieldNames()
    wrong = None if names else "no column"
    for column in schema.fields:
        shown = f"{column.name} {column.dataType.simpleString()}"
        if types.get(column.name) != column.dataType.simpleString():
            wrong = shown
        elif not (column.nullable and _may_be_null(column.dataType)):
            wrong = f"{shown} that may not be null"
        elif names.count(column.name) > 1:
            wrong = f"{column.name} more than once"
    if wrong is not None:
        listed = ", ".join(f"{name} {kind}" for name, kind in types.items())
        msg = f"the schema has {wrong}; the source has {listed}"
        raise InvalidArgumentError(msg)


def _may_be_null(kind: DataType) -> bool:
    """Return whether all that is nested in a type may be null."""
    if isinstance(kind, ArrayType):
        return kind.containsNull and _may_be_null(kind.elementType)
    if isinstance(kind, StructType):
        return all(one.nullable and _may_be_null(one.dataType) for one in kind.fields)
    return True
