"""Every counter of a cache is shown."""

from dataclasses import fields

from tieredfs.cache.stats import CacheStats, Counts


def test_the_counters_are_shown_as_they_are_and_the_bytes_beside_them() -> None:
    names = [field.name for field in fields(Counts)]
    assert [field.name for field in fields(CacheStats)] == [*names, "size"]
    counts = Counts(1, 2, 3, 4.0, 5, 6)
    stats = counts.stats(7)
    counts.hits += 1
    assert stats == CacheStats(1, 2, 3, 4.0, 5, 6, 7)
