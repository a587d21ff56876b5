"""The options of the source: what each means, and what is refused."""

import re
from collections.abc import Mapping

import pytest

from spark.oracle import Case, oracle_cases
from tieredfs.errors import (
    CorruptDataError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.log.read.reader import Bounds
from tieredfs.spark.options import SourceOptions, parse_options
from tieredfs.spark.ranges import check_named, resolve_range

REFUSED = [c for c in oracle_cases() if c.error and c.error["stage"] == "load"]
OURS = [c for c in REFUSED if not c.name.startswith("client-option-")]
CLIENTS = [c for c in REFUSED if c.name.startswith("client-option-")]

LATER = (
    "subscribePattern",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
)

HELD = Bounds(100, 300)


def parse(**options: str) -> SourceOptions:
    return parse_options({"path": "memory://t", **options})


@pytest.mark.parametrize("case", OURS, ids=str)
def test_a_refusal_has_the_words_of_kafkas_source(case: Case) -> None:
    assert case.error is not None
    with pytest.raises(InvalidArgumentError) as raised:
        parse(**case.options)
    assert str(raised.value) == case.error["message"]


@pytest.mark.parametrize("case", CLIENTS, ids=str)
def test_an_option_of_the_client_that_kafkas_source_refuses_is_refused_by_name(
    case: Case,
) -> None:
    (name,) = (name for name in case.options if name.lower().startswith("kafka."))
    with pytest.raises(InvalidArgumentError, match=f"{name[6:].lower()}' is not supp"):
        parse(**case.options)


def test_left_out_options_mean_all_records_without_headers() -> None:
    assert parse(subscribe="a") == SourceOptions(
        path="memory://t",
        topics=("a",),
        assigned=None,
        starting=None,
        ending=None,
        isolation="read_uncommitted",
        include_headers=False,
        fail_on_data_loss=True,
    )


@pytest.mark.parametrize(
    ("value", "topics"),
    [
        ("a", ("a",)),
        (" a , b ", ("a", "b")),
        ("b,a,b", ("b", "a")),
        ("a,", ("a",)),
        (",,a", ("a",)),
    ],
)
def test_subscribe_is_a_list_trimmed_and_without_repetition(
    value: str, topics: tuple[str, ...]
) -> None:
    assert parse(subscribe=value).topics == topics


def test_assign_names_partitions_of_topics() -> None:
    parsed = parse(assign='{"a": [0, 2], "b": []}')
    assert parsed.assigned == {"a": (0, 2), "b": ()}
    assert parsed.topics is None


@pytest.mark.parametrize("word", ["earliest", "EARLIEST", " earliest "])
def test_starting_at_earliest_is_the_beginning_of_every_log(word: str) -> None:
    assert parse(subscribe="a", startingOffsets=word).starting is None


@pytest.mark.parametrize("word", ["latest", "LATEST", " latest "])
def test_ending_at_latest_is_the_end_of_every_log(word: str) -> None:
    assert parse(subscribe="a", endingOffsets=word).ending is None


def test_offsets_keep_the_case_of_a_topics_name() -> None:
    parsed = parse(subscribe="A", startingOffsets='{"A": {"0": -2, "1": 7}}')
    assert parsed.starting == {"A": {0: -2, 1: 7}}


@pytest.mark.parametrize(
    "name", ["includeHeaders", "INCLUDEHEADERS", "includeheaders", "iNcLuDeHeAdErS"]
)
def test_names_of_options_are_in_any_case(name: str) -> None:
    assert parse(subscribe="a", **{name: "TRUE"}).include_headers


@pytest.mark.parametrize(
    "ignored",
    [
        {"bogusOption": "1"},
        {"kafka.bootstrap.servers": "nowhere:9092"},
        {"kafka.group.id": "mine", "groupIdPrefix": "pre"},
        {"isolation.level": "read_committed"},
        {"auto.offset.reset": "latest"},
        {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "1000"},
        {"kafkaConsumer.pollTimeoutMs": "5000", "fetchOffset.numRetries": "5"},
        {"kafka.isolation.level": "read_uncommitted"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_change_no_answer_are_ignored(ignored: Mapping[str, str]) -> None:
    assert parse(subscribe="a", **ignored) == parse(subscribe="a")


@pytest.mark.parametrize("name", LATER)
def test_an_option_that_would_change_the_answer_is_refused_by_name(name: str) -> None:
    strategy = {} if name == "subscribePattern" else {"subscribe": "a"}
    with pytest.raises(UnsupportedOperationError, match=f"(?i)'{name}'.*not supported"):
        parse(**strategy, **{name: "1"})


@pytest.mark.parametrize("level", ["READ_COMMITTED", "committed", ""])
def test_an_isolation_level_that_kafka_does_not_know_is_refused(level: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Invalid value {level} for"):
        parse(subscribe="a", **{"kafka.isolation.level": level})


def test_committed_records_are_asked_for_by_kafkas_option() -> None:
    level = {"Kafka.Isolation.Level": "read_committed"}
    assert parse(subscribe="a", **level).isolation == "read_committed"


def test_no_path_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="'path' must be specified"):
        parse_options({"subscribe": "a"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"assign": '{"a": [true]}'},
        {"assign": '{"a": ["0"]}'},
        {"assign": '{"a": 0}'},
        {"assign": '{"a": [0]'},
        {"subscribe": "a", "startingOffsets": "[]"},
        {"subscribe": "a", "startingOffsets": '{"a": [1]}'},
        {"subscribe": "a", "startingOffsets": '{"a": {"0": 1.5}}'},
        {"subscribe": "a", "endingOffsets": '{"a": {"0": null}}'},
        {"subscribe": "a", "startingOffsets": ""},
        {"subscribe": "a", "endingOffsets": ""},
    ],
    ids=str,
)
def test_json_of_another_shape_is_refused_with_an_example(
    wrong: dict[str, str],
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Expected e\.g\. \{\"topicA\":"):
        parse(**wrong)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"startingOffsets": '{"a": {"0": 5, "00": 7}}'}, "partition 0 of topic a"),
        ({"endingOffsets": '{"a": {"+1": 5, "1": 5}}'}, "partition 1 of topic a"),
        ({"startingOffsets": '{"a": {"0": 5, "0": 7}}'}, "'0'"),
        ({"startingOffsets": '{"a": {"0": 5}, "a": {"0": 7}}'}, "'a'"),
    ],
    ids=str,
)
def test_a_partition_that_is_named_twice_is_refused(
    wrong: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{named} is named twice in"):
        parse(subscribe="a", **wrong)
    assert parse(subscribe="a", startingOffsets='{"a": {"00": 5}}').starting == {
        "a": {0: 5}
    }


def test_a_topic_that_is_assigned_twice_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'a' is named twice in"):
        parse(assign='{"a": [0], "a": [1]}')


@pytest.mark.parametrize("key", [" 0", "0 ", "0_0", "\u0660", "", "x"])
def test_what_is_not_a_number_of_a_partition_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Expected e"):
        parse(subscribe="a", startingOffsets=f'{{"a": {{"{key}": 5}}}}')


@pytest.mark.parametrize("value", ['{"secret": "hunter2"', '["hunter2"]', "hunter2"])
@pytest.mark.parametrize("name", ["storage_options", "plugin_options"])
def test_what_is_not_json_is_not_shown_for_it_may_hold_secrets(
    name: str, value: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"'{name}' is not") as raised:
        parse(subscribe="a", **{name: value})
    assert "hunter2" not in str(raised.value)


def test_parsed_options_do_not_show_what_may_be_secret() -> None:
    given = '{"secret": "hunter2"}'
    options = parse(subscribe="a", storage_options=given, plugin_options=given)
    assert options.storage_options == {"secret": "hunter2"}
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((-2, -1), (100, 300)),
        ((-2, 103), (100, 103)),
        ((290, -1), (290, 300)),
        ((100, 300), (100, 300)),
        ((150, 150), (150, 150)),
        ((300, -1), (300, 300)),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_offsets_that_are_there_are_read_as_asked(
    asked: tuple[int, int], expected: tuple[int, int], strict: bool
) -> None:
    assert (
        resolve_range("p", asked, HELD, HELD.end, fail_on_data_loss=strict) == expected
    )


LOST = [
    ((10, 300), (100, 300)),
    ((10, 150), (100, 150)),
    ((290, 1000), (290, 300)),
    ((0, 5000), (100, 300)),
]
"""Ranges that the log holds in part, and what it holds of them."""

GONE = [(10, 50), (99, 100), (300, 301), (4000, 4100)]
"""Ranges of which nothing is there."""


@pytest.mark.parametrize("asked", [*(asked for asked, _ in LOST), *GONE])
def test_offsets_that_are_gone_are_an_error_that_says_what_is_there(
    asked: tuple[int, int],
) -> None:
    said = f"p: .*{asked[0]} to {asked[1] - 1} .*100 to 299.*data may have been lost"
    with pytest.raises(CorruptDataError, match=said):
        resolve_range("p", asked, HELD, HELD.end, fail_on_data_loss=True)


@pytest.mark.parametrize(("asked", "expected"), LOST)
def test_without_fail_on_data_loss_what_is_there_is_read(
    asked: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert (
        resolve_range("p", asked, HELD, HELD.end, fail_on_data_loss=False) == expected
    )


@pytest.mark.parametrize("asked", GONE)
def test_without_fail_on_data_loss_a_range_that_is_gone_is_empty(
    asked: tuple[int, int],
) -> None:
    start, end = resolve_range("p", asked, HELD, HELD.end, fail_on_data_loss=False)
    assert start == end


@pytest.mark.parametrize("strict", [True, False])
def test_a_start_beyond_the_end_is_an_error_whatever_may_be_lost(strict: bool) -> None:
    said = "start offset 5000 is greater than the resolved end offset 300 for p"
    with pytest.raises(OffsetOutOfRangeError, match=said):
        resolve_range("p", (5000, -1), HELD, HELD.end, fail_on_data_loss=strict)


@pytest.mark.parametrize("asked", [(-3, -1), (-2, -3), (-1, -1)])
@pytest.mark.parametrize("strict", [True, False])
def test_a_negative_offset_without_a_meaning_is_an_error(
    asked: tuple[int, int], strict: bool
) -> None:
    with pytest.raises(TieredFSError, match=re.escape(f"{asked[0]}")):
        resolve_range("p", asked, HELD, HELD.end, fail_on_data_loss=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_an_empty_log_gives_an_empty_range(strict: bool) -> None:
    empty = Bounds(0, 0)
    found = resolve_range("p", (-2, -1), empty, empty.end, fail_on_data_loss=strict)
    assert found == (0, 0)


@pytest.mark.parametrize(
    "named",
    [{"a": {0: 1}}, {"a": {0: 1, 1: 1, 2: 1}}, {"a": {0: 1, 1: 1}, "b": {0: 1}}, {}],
    ids=str,
)
def test_offsets_must_name_exactly_the_partitions_that_are_read(
    named: Mapping[str, Mapping[int, int]],
) -> None:
    with pytest.raises(InvalidArgumentError, match="don't match what are assigned"):
        check_named(named, {"a": (0, 1)})


@pytest.mark.parametrize("named", [None, {"a": {0: 5, 1: -1}}], ids=str)
def test_offsets_that_name_the_partitions_are_taken(
    named: Mapping[str, Mapping[int, int]] | None,
) -> None:
    check_named(named, {"a": (0, 1)})
