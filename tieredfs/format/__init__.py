"""Floor 1: Kafka's binary formats. Any buffer in, values out; no I/O, no clock.

Each package is one part of the format: ``batch`` (record batches), ``records`` (their
records as Arrow), ``compression``, ``index`` (the indexes of a segment), ``segment``
(the native segment object) and ``kernel`` (the compiled code). A parser trusts no
length field, bounds what it allocates, and raises a CorruptDataError that names the
object and the position.
"""
