"""What requests cost, by a table of list prices."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date, datetime
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Final, Self

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.observer import RequestCounts

__all__ = ["Cost", "PriceTable", "StorePrices"]

_GIB: Final = 1 << 30
_PER: Final = 1000
_MAX_USD: Final = 1_000_000
_LISTING: Final = "list"
_STORES: Final = "stores"


@dataclass(frozen=True, slots=True)
class Cost:
    """What some requests cost, in US dollars.

    Attributes:
        requests: The requests.
        region: Their bytes, if they stay in the region.
        internet: Their bytes, if they leave for the internet.
    """

    requests: float
    region: float
    internet: float


@dataclass(frozen=True, slots=True)
class StorePrices:
    """List prices of one object store, in US dollars.

    Attributes:
        name: The store, its class and its region.
        date: When these were its prices.
        source: Where they are published.
        list_per_1000: Price of 1,000 listing requests.
        read_per_1000: Price of 1,000 other requests that read.
        region_per_gib: Price of 1 GiB that stays in the region.
        internet_per_gib: Price of 1 GiB that leaves for the internet.
    """

    name: str
    date: date
    source: str
    list_per_1000: float
    read_per_1000: float
    region_per_gib: float
    internet_per_gib: float

    def cost(self, counts: RequestCounts) -> Cost:
        """Return what requests that read cost."""
        listings = counts.by_verb.get(_LISTING, 0)
        others = counts.requests - listings
        asked = listings * self.list_per_1000 + others * self.read_per_1000
        size = counts.size / _GIB
        return Cost(
            asked / _PER, size * self.region_per_gib, size * self.internet_per_gib
        )


@dataclass(frozen=True, slots=True)
class PriceTable:
    """List prices of several stores.

    Attributes:
        stores: The prices of each store.
    """

    stores: tuple[StorePrices, ...]

    @classmethod
    def default(cls) -> Self:
        """Return the package's own table, which may be out of date: see its dates."""
        text = files("tieredfs.objects").joinpath("prices.toml").read_text("utf-8")
        return cls.parse(text, name="prices.toml")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a table from a file.

        Args:
            path: A TOML file with the fields of the package's own, in UTF-8.

        Raises:
            InvalidArgumentError: It cannot be read, or is not such a table.
        """
        try:
            text = Path(path).read_text("utf-8-sig")  # some editors write a mark
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"{path}: cannot be read: {error}") from error
        return cls.parse(text, name=fspath(path))

    @classmethod
    def parse(cls, text: str, *, name: str) -> Self:
        """Parse a table.

        Args:
            text: The TOML: ``[[stores]]``, each with the fields of ``StorePrices``.
            name: Name of the table used in error messages.

        Raises:
            InvalidArgumentError: It is not such a table; the message names the line, or
                the field.
        """
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InvalidArgumentError(f"{name}: not TOML: {error}") from error
        _check_names(table, {_STORES}, {_STORES}, name)
        stores = table[_STORES]
        if not isinstance(stores, list) or not stores:
            msg = f"{name}: {_STORES} is {stores!r}: give one or more [[{_STORES}]]"
            raise InvalidArgumentError(msg)
        return cls(
            tuple(
                _prices(given, f"{name}: {_STORES}[{number}]")
                for number, given in enumerate(stores)
            )
        )


def _prices(given: object, name: str) -> StorePrices:
    """Check the prices of one store."""
    if not isinstance(given, dict):
        msg = f"{name} is {given!r}: give a table, [[{_STORES}]]"
        raise InvalidArgumentError(msg)
    known = fields(StorePrices)
    needed = {field.name for field in known if field.default is MISSING}
    _check_names(given, needed, {field.name for field in known} - needed, name)
    for key, value in given.items():
        if key in {"name", "source"}:
            is_valid, expected = isinstance(value, str), "a text in quotes"
        elif key == "date":
            is_valid = isinstance(value, date) and not isinstance(value, datetime)
            expected = "a date such as 2025-06-01, without quotes"
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_valid = is_number and 0 <= value <= _MAX_USD
            expected = f"a number of US dollars, 0 to {_MAX_USD:,}"
        if not is_valid:
            found = value if isinstance(value, date) else repr(value)
            msg = f"{name}.{key} is {found}: give {expected}"
            raise InvalidArgumentError(msg)
    return StorePrices(**given)


def _check_names(
    given: Mapping[str, object], needed: set[str], optional: set[str], name: str
) -> None:
    """Check that a table has each field that it needs, and none that is not known."""
    names = needed | optional
    for what, wrong in (
        ("is missing", needed - given.keys()),
        ("is not a field of a table of prices", given.keys() - names),
    ):
        if wrong:
            msg = f"{name}: {min(wrong)} {what}; its fields: {', '.join(sorted(names))}"
            raise InvalidArgumentError(msg)
