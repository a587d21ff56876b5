"""Offsets of a stream: Kafka's JSON, and where the first batch began."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.errors import InvalidArgumentError
from tieredfs.spark.stream_offset import BEGINNING, StreamOffset

NAMES = st.sampled_from(["a", "b", "from", "0", "o3.alpha"])
OFFSETS = st.dictionaries(
    st.tuples(NAMES, st.integers(0, 20)), st.integers(0, 1 << 62), max_size=5
)
BEGUN = st.dictionaries(
    st.tuples(NAMES, st.integers(0, 20)), st.integers(1, 1 << 62), max_size=5
)


@given(offsets=OFFSETS, begun=BEGUN)
def test_what_is_written_is_read_again(
    offsets: dict[tuple[str, int], int], begun: dict[tuple[str, int], int]
) -> None:
    written = json.dumps(StreamOffset(offsets, begun).to_document())
    assert StreamOffset.parse(json.loads(written)) == StreamOffset(offsets, begun)


def test_the_beginning_is_not_a_stream_of_no_partitions() -> None:
    assert StreamOffset.parse(BEGINNING.to_document()) == BEGINNING
    assert StreamOffset.parse({}) == StreamOffset()
    assert StreamOffset().to_document() == {}


def test_an_offset_of_kafkas_own_source_is_taken() -> None:
    parsed = StreamOffset.parse(json.loads('{"o3.beta":{"0":27},"a":{"11":2,"2":3}}'))
    assert parsed.offsets == {("o3.beta", 0): 27, ("a", 11): 2, ("a", 2): 3}
    assert not parsed.begun
    assert not parsed.is_beginning


def test_partitions_are_written_in_order_by_topic() -> None:
    offsets = {("b", 0): 4, ("a", 10): 1, ("a", 9): 2}
    written = json.dumps(StreamOffset(offsets, {("a", 9): 1}).to_document())
    assert written == (
        '{"a": {"9": 2, "10": 1}, "b": {"0": 4}, "from": {"a": {"9": 1}}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        *('"x"', "3", "null", "[]", '{"a": 3}', '{"from/": 1}', '{"a": {"x": 1}}'),
        *(
            f'{{"a": {{"0": {value}}}}}'
            for value in ('"1"', "-1", "true", "1.5", 2**63)
        ),
    ],
)
def test_an_offset_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Expected e\.g\. "):
        StreamOffset.parse(json.loads(text))
