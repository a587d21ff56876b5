"""The indexes of a segment: parse, look up, build, and check against the log.

A new type of index begins as a member of ``IndexType`` in ``tieredfs.model``, and its
format is a module here. mypy then names each place that has to know it, the first of
them in ``parse`` and ``check``.
"""
