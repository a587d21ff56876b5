"""The indexes of a segment: parse, look up, build, and check against the log.

A new type of index begins as a member of ``IndexType`` in ``tieredfs.model``, and its
format is a module here. mypy then names ``parse``, ``check`` and
``layouts/kafka_files``; the other places are in the table of
``docs/explanation/where-things-are.md``.
"""
