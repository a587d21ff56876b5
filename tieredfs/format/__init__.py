"""Floor 1: Kafka's bytes. Any buffer in, values out; no I/O, no clock.

One noun of the format a module: ``batch`` (record batches), ``records`` (their records
as Arrow), ``codecs``, ``control``, ``offset_index``, ``time_index``, ``txn_index``,
``producer_snapshot``, ``leader_epoch_checkpoint``. A parser trusts no length, bounds
what it allocates, and raises a CorruptDataError that names the object and the place.
"""
