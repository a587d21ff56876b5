"""Schemas of the source, made without a session."""

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["headers_of", "parse_schema"]


def headers_of(key: DataType) -> ArrayType:
    """Make the type of headers whose keys have a type."""
    fields = [StructField("key", key), StructField("value", BinaryType())]
    return ArrayType(StructType(fields))


_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp_ltz": TimestampType(),
    "timestamp": TimestampType(),
    "array<struct<key:string,value:binary>>": headers_of(StringType()),
    "array<struct<key:binary,value:binary>>": headers_of(BinaryType()),
}


def parse_schema(text: str) -> StructType:
    """Make a schema of its text; Spark's own way needs a session."""
    columns = re.findall(r"`?(\w+)`? (\w+(?:<[^ ]+>)?)", text)
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns])
