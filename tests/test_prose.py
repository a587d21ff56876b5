"""Code and pages use the field's words, and name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_FILE = re.compile(r"`([a-z_/]+\.(?:py|pyx|pxi|ini|toml))`")

INSTEAD = {
    r"\b(un)?told\b": "known, whose size is known, optional",
    r"\b(whoever|nobody|somebody)\b": "the caller, another process, no reader",
    r"(?<!there )(?-i:\bis (none|no segment)\b)": "is not a segment, is invalid",
    r"\bstrangers?'?\b": "foreign objects, unrecognised directories",
    r"\blikewise\b|\ball the same\b": "the noun once more",
    r"\bat once\b": "concurrently, immediately",
    r"\bHow to call\b": "Log name used in error messages",
    r"\b_?(MOST|LEAST)_|_(KEPT|BEYOND)\b": "MAX_*, MIN_*, and the unit in the name",
    r"\.(alone|behind)\(": "encode_records(), encode_batch(header)",
    r"\.rises\b|\.largest\b": "offsets_increase, max_timestamp",
    r"\bIndexTruth\b|\buntrue\b": "IndexCheck, inconsistent with the log",
    r"\b(Lead|Stretch|_Piece)\b": "PriorState, RecordRange, OutputChunk",
    r"\bbelieved\b": "plausible_size",
    r"\b(count_right|is_right)\b": "count_valid, is_valid_header",
    r"\b(open_ahead|read_ahead)\b": "decompress_ahead",
    r"\bsettl(e|ing)\b": "resolve an ambiguous write",
    r"\b(prove_create|create_is_proven)\b": "probe_conditional_put",
    r"\b(run_abandonable|abandoning)\b": "call_with_timeout",
    r"\bPartLimits\b": "MultipartConfig",
    r"\b(give_up|begin_anew)\b": "discard, reset_after_fork",
    r"\b(_Room|use_again|in_front_of)\b": "evict_to_fit, touch, with_storage",
    r"\bput aside\b|_ASIDE\b": "staged, _STAGING",
    r"\b(KnownStems|held_log)\b": "KnownObjects, spool",
    r"\bquirks?\b": "backends",
}

FILES = sorted(
    path
    for pattern in ("tieredfs/**/*.py*", "tieredfs/**/*.pxi", "docs/**/*.md", "*.md")
    for path in ROOT.glob(pattern)
    if path.suffix in {".py", ".pyx", ".pxi", ".md"}
)


@pytest.mark.parametrize("words", INSTEAD)
def test_a_word_that_has_to_be_translated_is_not_used(words: str) -> None:
    expected = re.compile(words, re.IGNORECASE if words.islower() else 0)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if expected.search(line)
    ]
    assert not found, f"say instead: {INSTEAD[words]}"


def test_all_files_are_searched() -> None:
    names = {path.name for path in FILES}
    assert {"README.md", "CHANGELOG.md", "tier.py", "_fill.pxi", "index.md"} <= names


def test_the_explanations_name_files_that_exist() -> None:
    there = [f"/{path.relative_to(ROOT)}" for path in FILES]
    there += [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("tests/**/*.py")]
    there += ["/pyproject.toml", "/tox.ini", "/tieredfs/objects/prices.toml"]
    named = {
        name
        for path in (*ROOT.glob("docs/explanation/*.md"), ROOT / "CONTRIBUTING.md")
        for name in _FILE.findall(path.read_text())
    }
    assert len(named) > 5
    assert [n for n in named if not any(t.endswith(f"/{n}") for t in there)] == []
