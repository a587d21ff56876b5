"""What users can tune: which values are taken, and how others are refused."""

import copy
import pickle
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tieredfs import InvalidArgumentError, Options
from tieredfs.options import DEFAULTS, option_ranges

NAMES = list(option_ranges())


def of(name: str, value: Any) -> Options:  # noqa: ANN401 - wrong ones, too
    return Options(**{name: value})


def test_every_field_has_a_range_a_unit_and_a_line_in_the_docstring() -> None:
    assert [field.name for field in fields(Options)] == NAMES
    documented = re.findall(r"^ {8}(\w+):", Options.__doc__ or "", re.MULTILINE)
    assert documented == NAMES
    for field in fields(Options):
        allowed = option_ranges()[field.name]
        assert field.name.endswith(f"_{allowed.unit}")
        assert (
            field.default is None or allowed.minimum <= field.default <= allowed.maximum  # type: ignore[operator] # an int
        )


@pytest.mark.parametrize("name", NAMES)
def test_both_ends_of_a_range_are_taken_and_nothing_beyond_them(name: str) -> None:
    allowed = option_ranges()[name]
    for value in (allowed.minimum, allowed.maximum):
        assert getattr(of(name, value), name) == value
        assert Options.parse({name: str(value)}) == of(name, value)
    told = re.escape(f"option {name} is {allowed.minimum - 1}: give {allowed}")
    with pytest.raises(InvalidArgumentError, match=told):
        of(name, allowed.minimum - 1)
    with pytest.raises(InvalidArgumentError, match=re.escape(f"give {allowed}")):
        of(name, allowed.maximum + 1)


@pytest.mark.parametrize("value", [True, 1e7, "8388608", np.bool_(1), [1]])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_an_integer_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option {name} is .*: give "):
        of(name, value)


def test_none_stands_for_what_suits_the_store_and_for_nothing_else() -> None:
    assert of("part_bytes", None) == DEFAULTS
    with pytest.raises(InvalidArgumentError, match="option fetch_bytes is None: give"):
        of("fetch_bytes", None)


def test_an_integer_of_numpy_becomes_one_of_python() -> None:
    found = of("fetch_bytes", np.int64(1 << 20)).fetch_bytes
    assert (type(found), found) == (int, 1 << 20)


def test_options_are_values() -> None:
    options = of("fetch_bytes", 1 << 20)
    for same in (copy.copy(options), pickle.loads(pickle.dumps(options))):  # noqa: S301 - our own
        assert (same, hash(same)) == (options, hash(options))
    assert options != DEFAULTS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8388608", 8 << 20),
        (" 8M ", 8 << 20),
        ("8m", 8 << 20),
        ("8MiB", 8 << 20),
        ("8MB", 8 << 20),
        ("8192K", 8 << 20),
        ("1G", 1 << 30),
    ],
)
def test_bytes_may_have_a_suffix(text: str, value: int) -> None:
    assert Options.parse({"part_bytes": text}) == of("part_bytes", value)


@pytest.mark.parametrize(
    "text", ["", "M", "8X", "1.5M", "-8M", "0x10", "8i", "٨M", "8B"]
)
def test_a_text_that_is_not_a_number_of_bytes_is_refused(text: str) -> None:
    told = re.escape(f"option part_bytes is {text!r}: give 5242880 to 1073741824 bytes")
    with pytest.raises(InvalidArgumentError, match=told):
        Options.parse({"part_bytes": text})


def test_an_integer_is_parsed_as_it_is() -> None:
    assert Options.parse({"part_bytes": 8 << 20}) == of("part_bytes", 8 << 20)


@pytest.mark.parametrize("value", [5, True, 1e7, None, b"8M", [1]])
def test_what_is_neither_a_text_nor_an_integer_in_range_is_refused(value: Any) -> None:  # noqa: ANN401 - wrong ones
    told = re.escape(f"option fetch_bytes is {value!r}: give 65536 to 1073741824 bytes")
    with pytest.raises(InvalidArgumentError, match=told):
        Options.parse({"fetch_bytes": value})


def test_only_bytes_have_a_suffix() -> None:
    told = "max_concurrent_parts is '1K': give 1 to 64 parts"
    with pytest.raises(InvalidArgumentError, match=told):
        Options.parse({"max_concurrent_parts": "1K"})


def test_a_name_that_is_unknown_is_refused_with_those_that_are_not() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        Options.parse({"fetch_size": "8M"})
    told = str(raised.value)
    assert told.startswith(
        "no option is called 'fetch_size' (did you mean fetch_bytes?)"
    )
    for name, allowed in option_ranges().items():
        assert f"{name} ({allowed})" in told
    assert "\n" not in told


def test_a_number_that_is_too_long_to_be_one_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="option fetch_bytes is '9999"):
        Options.parse({"fetch_bytes": "9" * 5000})
