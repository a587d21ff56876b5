"""A table of prices: what requests cost by it, and what is no such table."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from tieredfs import InvalidArgumentError, PriceTable, RequestCounts
from tieredfs.objects.prices import StorePrices

STORE = """
[[stores]]
name = "a store"
date = 2026-01-31
source = "https://example.org/prices"
list_per_1000 = 5
read_per_1000 = 0.5
region_per_gib = 0.25
internet_per_gib = 1.0
"""


def parse(text: str) -> PriceTable:
    return PriceTable.parse(text, name="mine.toml")


def test_listings_reads_and_bytes_have_prices_of_their_own() -> None:
    (prices,) = parse(STORE).stores
    counts = RequestCounts.of(
        {"list": 10, "get": 3, "get_range": 1, "head": 1}, 2 << 30
    )
    cost = prices.cost(counts)
    assert cost.requests == pytest.approx(0.05 + 0.0025)
    assert (cost.region, cost.internet) == (0.5, 2.0)


def test_nothing_costs_nothing() -> None:
    (prices,) = parse(STORE).stores
    cost = prices.cost(RequestCounts())
    assert (cost.requests, cost.region, cost.internet) == (0, 0, 0)


def test_the_table_of_the_package_has_a_date_and_a_source_for_each_cloud() -> None:
    stores = PriceTable.default().stores
    assert [one.name.split()[0] for one in stores] == ["S3", "GCS", "Azure"]
    for one in stores:
        assert one.source.startswith("https://")
        assert date(2025, 1, 1) <= one.date
        assert 0 < one.read_per_1000 < one.list_per_1000 < one.internet_per_gib


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(STORE)
    assert PriceTable.load(tmp_path / "mine.toml") == parse(STORE)


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_is_named_by_text_or_path_and_may_begin_with_a_mark(
    tmp_path: Path, kind: type[str | Path], mark: bytes
) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(mark + STORE.encode())
    assert PriceTable.load(kind(path)) == parse(STORE)


def test_a_field_with_a_default_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Later(StorePrices):
        """What a later version may have."""

        write_per_1000: float = 0.25

    monkeypatch.setattr("tieredfs.objects.prices.StorePrices", Later)
    (prices,) = parse(STORE).stores
    assert isinstance(prices, Later)
    assert prices.write_per_1000 == 0.25
    (prices,) = parse(STORE + "write_per_1000 = 2").stores
    assert isinstance(prices, Later)
    assert prices.write_per_1000 == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.toml: stores is missing"),
        ("stores = 1", "mine.toml: stores is 1: give one or more"),
        ("stores = []", r"mine.toml: stores is \[\]: give one or more"),
        ("stores = [1]", r"mine.toml: stores\[0\] is 1: give a table"),
        ("more = 1" + STORE, "mine.toml: more is not a field"),
        ("\n\nprice: 1", r"mine.toml: not TOML: .*line 3"),
        (STORE + STORE + "x = 1", r"mine.toml: stores\[1\]: x is not a field"),
        (
            STORE.replace("list_per_1000 = 5", ""),
            r"mine.toml: stores\[0\]: list_per_1000 is missing",
        ),
        (
            STORE + STORE.replace("= 0.25", "= -1"),
            r"mine.toml: stores\[1\].region_per_gib is -1: give a number of US dollars",
        ),
        (STORE.replace("0.25", "nan"), r"stores\[0\].region_per_gib is nan"),
        (STORE.replace("0.25", "inf"), r"stores\[0\].region_per_gib is inf"),
        (STORE.replace("0.25", "true"), r"stores\[0\].region_per_gib is True"),
        (STORE.replace("0.25", '"1"'), r"stores\[0\].region_per_gib is '1'"),
        (STORE.replace('"a store"', "7"), r"stores\[0\].name is 7: give a text"),
        (
            STORE.replace("2026-01-31", '"2026-01-31"'),
            r"stores\[0\].date is '2026-01-31': give a date .* without quotes",
        ),
        (STORE.replace("2026-01-31", "2026-01-31T00:00:00"), r"stores\[0\].date"),
        ("a = " + "[" * 100_000, "mine.toml: not TOML"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line_or_field(text: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        parse(text)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"mine\.toml: cannot be read"):
        PriceTable.load(path)
