"""When an object was written, as clients report it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tieredfs.objects.backends.listing import to_modified

AT = 1_764_180_000_250


@pytest.mark.parametrize(
    "given",
    [
        AT / 1000,
        datetime(2025, 11, 26, 18, 0, 0, 250_000, tzinfo=UTC),
        datetime(2025, 11, 26, 19, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=1))),
        "2025-11-26T18:00:00.250Z",
        "2025-11-26T19:00:00.250+01:00",
    ],
)
def test_a_time_with_a_zone_is_known_in_milliseconds(given: object) -> None:
    assert to_modified(given) == AT


@pytest.mark.parametrize(
    "given",
    [None, "", "yesterday", "2025-11-26T18:00:00", datetime(2025, 1, 1), []],  # noqa: DTZ001 - on purpose
)
def test_any_other_time_is_not_known(given: object) -> None:
    assert to_modified(given) is None
