"""Patterns of topics' names mean what they mean in Java."""

import pytest

from tieredfs.errors import InvalidArgumentError
from tieredfs.spark.pattern import TopicPattern

NAMES = ["a", "A", "ab", "abc", "a.b", "a-b", "a_b", "b", "z9", "9", "orders", "Orders"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a", ["a", "ab", "abc", "a.b", "a-b", "a_b"]),
        ("^a$", ["a"]),
        (r"a\.b", ["a.b"]),
        ("a.b", ["a.b", "a-b", "a_b"]),
        ("^[a-z&&[^b]]+$", ["a", "orders"]),
        ("^[a-z&&[^a-m]&&[^z]]", ["orders"]),
        ("^[[a-c][x-z]]", ["a", "ab", "abc", "a.b", "a-b", "a_b", "b", "z9"]),
        ("^[^a-zA-Z]", ["9"]),
        ("[a&&b]", []),
        ("[.-]", ["a.b", "a-b"]),
        ("[-.]", ["a.b", "a-b"]),
        (r"[\.\-]", ["a.b", "a-b"]),
        (r"[\d]", ["z9", "9"]),
        (r"[\D&&[^a-zA-Z]]", ["a.b", "a-b", "a_b"]),
        (r"\p{Lu}|\p{Digit}", ["A", "z9", "9", "Orders"]),
        (r"[\p{Upper}]\P{Digit}+", ["Orders"]),
        (r"^\pL$", ["a", "A", "b"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        ("^ab?+b?$", ["a", "ab"]),
        ("(?i)^ORDERS$", ["orders", "Orders"]),
        (r"^(?<first>a)(?!\k<first>).$", ["ab"]),
        (r"^b\z", ["b"]),
        (r"\x61\u0062c", ["abc"]),
        (r"^[\x61-\x62]$", ["a", "b"]),
        ("[]b]c", ["abc"]),
        ("[&]|^9", ["9"]),
        ("^[&&[ab]]$", ["a", "b"]),
        ("^[^&&[a-z]]+$", ["A", "9"]),
        ("(?i)^[^o]+$", NAMES[:-2]),
        ("(?i)^[^A]", ["b", "z9", "9", "orders", "Orders"]),
        (r"(?i)^\P{Lower}+$", ["9"]),
        ("(?i)^[A-C&&[a-c]]+$", ["a", "A", "ab", "abc", "b"]),
        ("(?i:^[^o])|^O", [*NAMES[:-2], "Orders"]),
        ("(?i)(?-i:^[^o])rders", ["Orders"]),
        (r"^\0141$", ["a"]),
        (r"^[\0141\0102]$|\071$", ["a", "z9", "9"]),
        (r"^a{1,}b{0,2}$", ["a", "ab"]),
        ("^(?>a)(?=b)(?!bc)b(?<=b)(?<!a)$", ["ab"]),
    ],
)
def test_a_pattern_finds_what_javas_find_finds(pattern: str, found: list[str]) -> None:
    parsed = TopicPattern.parse(pattern)
    assert [name for name in NAMES if parsed.matches(name)] == found


@pytest.mark.parametrize(
    "pattern",
    [
        "o3[(",
        "[a",
        "[a&&",
        "[a&&[b]",
        "(",
        "a\\",
        "*",
        r"\p{NoSuch}",
        "[z-a]",
        "[a-\\d]",
        "(?u)a",
        "(?a)b",
        "(?P<x>a)",
        "(?#a)b",
        "(?<x>a)(?(x)b)",
        "a{,2}b",
        "a{2",
        "{",
        r"[\b]",
        r"\081",
        r"\0",
        "a{99999999999}",
        "(" * 5000 + ")" * 5000,
    ],
)
def test_what_is_no_pattern_is_refused_with_its_text_and_the_option(
    pattern: str,
) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"'subscribePattern': [^']*: "
    ) as raised:
        TopicPattern.parse(pattern)
    assert str(raised.value).endswith(pattern)
