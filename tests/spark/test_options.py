"""The options of the source: what each means, and what is refused."""

import logging
from collections.abc import Callable, Mapping

import pytest

from spark.oracle import Case, oracle_cases
from spark.schemas import parse_schema
from tieredfs.errors import InvalidArgumentError
from tieredfs.spark.options import SourceOptions, parse_options, parse_stream_options
from tieredfs.spark.positions import FROM_EARLIEST, UNTIL_LATEST, Position
from tieredfs.spark.source import TieredFSDataSource

BY_DESIGN = {"no-bootstrap-servers", "user-schema"}
REFUSED = [
    case
    for case in oracle_cases()
    if case.mode == "batch" and case.refused_at("load") and case.name not in BY_DESIGN
]
CLIENTS = [c for c in REFUSED if c.name.lower().startswith("client-option-kafka.")]
OURS = [case for case in REFUSED if case not in CLIENTS]


def parse(**options: str) -> SourceOptions:
    return parse_options({"path": "/t", **options})


@pytest.mark.parametrize("case", OURS, ids=str)
def test_a_refusal_has_the_words_of_kafkas_source(case: Case) -> None:
    assert case.error is not None
    with pytest.raises(InvalidArgumentError) as raised:
        parse(**case.options)
    assert case.error["message"].partition("\n")[0] in str(raised.value)


@pytest.mark.parametrize("case", CLIENTS, ids=str)
def test_an_option_of_the_client_that_kafkas_source_refuses_is_refused_by_name(
    case: Case,
) -> None:
    (name,) = (name for name in case.options if name.lower().startswith("kafka."))
    with pytest.raises(InvalidArgumentError, match=f"{name[6:].lower()}' is not supp"):
        parse(**case.options)


@pytest.mark.parametrize(
    "case",
    [c for c in OURS if len(c.options) == 2 and "strateg" not in c.name],
    ids=str,
)
def test_a_refusal_names_the_option(case: Case) -> None:
    (name,) = (name for name in case.options if name not in {"subscribe", "assign"})
    with pytest.raises(InvalidArgumentError, match=f"(?i){name}"):
        parse(**case.options)


def test_left_out_options_mean_all_records_without_headers() -> None:
    assert parse(subscribe="a") == SourceOptions(
        path="/t",
        topics=("a",),
        pattern=None,
        assigned=None,
        starting=Position("startingOffsets", -2, {}, is_time=False),
        ending=Position("endingOffsets", -1, {}, is_time=False),
        no_match="error",
        isolation="read_uncommitted",
        include_headers=False,
        fail_on_data_loss=True,
        min_partitions=None,
        max_records=None,
        columns=None,
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
    assert parse(subscribe="a", startingOffsets=word).starting == FROM_EARLIEST


@pytest.mark.parametrize("word", ["latest", "LATEST", " latest "])
def test_ending_at_latest_is_the_end_of_every_log(word: str) -> None:
    assert parse(subscribe="a", endingOffsets=word).ending == UNTIL_LATEST


def test_offsets_keep_the_case_of_a_topics_name() -> None:
    parsed = parse(subscribe="A", startingOffsets='{"A": {"0": -2, "1": 7}}')
    assert parsed.starting.named == {"A": {0: -2, 1: 7}}


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
        {"auto.offset.reset": "latest"},
        {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "1000"},
        {"maxOffsetsPerTrigger": "ten"},
        {"maxTriggerDelay": "soonish"},
        {
            "minOffsetsPerTrigger": "-5",
            "maxOffsetsPerTrigger": "-3",
            "maxTriggerDelay": "soonish",
        },
        {"kafkaConsumer.pollTimeoutMs": "5000", "fetchOffset.numRetries": "5"},
        {"kafka.isolation.level": "read_uncommitted"},
    ],
    ids=str,
)
def test_options_that_change_no_answer_are_ignored(ignored: Mapping[str, str]) -> None:
    assert parse(subscribe="a", **ignored) == parse(subscribe="a")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("starting_offsets", "startingOffsets"),
        ("failOnDatalos", "failOnDataLoss"),
        ("includeHeader", "includeHeaders"),
        ("minPartition", "minPartitions"),
        ("maxRecordsPerPartitions", "maxRecordsPerPartition"),
        ("storageOptions", "storage_options"),
        ("isolation.level", "kafka.isolation.level"),
        ("kafka.isolation_level", "kafka.isolation.level"),
    ],
)
def test_an_ignored_option_with_almost_the_name_of_another_is_named_in_a_warning(
    given: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"path": "/t", "subscribe": "a", given: "1"}
    source = TieredFSDataSource(options)
    schema = parse_schema(source.schema())
    assert not caplog.messages
    for read in (source.reader, source.streamReader):
        with caplog.at_level(logging.WARNING, "tieredfs.spark"):
            read(schema)
        name = given.lower()
        warning = f"Option '{name}' is ignored. Did you mean '{meant}'?"
        assert caplog.messages == [warning]
        caplog.clear()


@pytest.mark.parametrize("parse", [parse_options, parse_stream_options])
def test_no_option_of_kafkas_client_is_taken_for_a_misspelt_one(
    parse: Callable[[Mapping[str, str]], SourceOptions],
) -> None:
    names = (
        "bootstrap.servers client.id group.id group.protocol fetch.max.bytes "
        "fetch.min.bytes key.serializer value.serializer security.protocol "
        "sasl.jaas.config ssl.truststore.location max.poll.records check.crcs"
    )
    client = {f"kafka.{name}": "1" for name in names.split()}
    given = {"path": "/t", "subscribe": "a", "groupIdPrefix": "g"}
    assert not parse(given | client).misspelt


def test_an_option_over_which_another_takes_precedence_is_not_misspelt() -> None:
    times = '{"a": {"0": 1}}'
    parsed = parse(
        subscribe="a",
        startingTimestamp="1",
        startingOffsetsByTimestamp=times,
        startingOffsets="earliest",
        endingTimestamp="2",
        endingOffsetsByTimestamp=times,
        endingOffsets="latest",
        paths="[]",
    )
    assert not parsed.misspelt


@pytest.mark.parametrize("given", ["endingOffset", "views"])
def test_what_a_stream_refuses_is_not_proposed(given: str) -> None:
    options = {"path": "/t", "subscribe": "a", given: "1"}
    assert parse_options(options).misspelt
    assert not parse_stream_options(options).misspelt


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"startingTimestamp": "1000"},
            Position("startingTimestamp", 1000, {}, is_time=True),
        ),
        (
            {"startingTimestamp": " -1 "},
            Position("startingTimestamp", -1, {}, is_time=True),
        ),
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 5}}'},
            Position("startingOffsetsByTimestamp", None, {"a": {0: 5}}, is_time=True),
        ),
        (
            {
                "startingOffsets": "nonsense",
                "startingOffsetsByTimestamp": "nonsense",
                "startingTimestamp": "7",
            },
            Position("startingTimestamp", 7, {}, is_time=True),
        ),
    ],
    ids=str,
)
def test_a_time_goes_before_times_and_times_before_offsets_which_are_not_looked_at(
    given: Mapping[str, str], expected: Position
) -> None:
    assert parse(subscribe="a", **given).starting == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingTimestamp": "-3"}, "-3 is no time; give milliseconds since 1970"),
        ({"endingTimestamp": "-4"}, "-4 is no time; give milliseconds since 1970"),
        (
            {"endingTimestamp": "9223372036854775808"},
            "Expected a single long value, got 9223372036854775808",
        ),
        ({"startingTimestamp": "1_000"}, "Expected a single long value, got 1_000"),
        ({"startingTimestamp": "1.5"}, r"Expected a single long value, got 1\.5"),
        (
            {"endingOffsetsByTimestamp": '{"a": {"0": -3}}'},
            "-3 is no time; give milliseconds since 1970",
        ),
        (
            {"endingOffsetsByTimestamp": '{"a": {"0": "5"}}'},
            r'Expected e\.g\. \{"topicA": \{"0": 123456789',
        ),
    ],
    ids=str,
)
def test_what_is_no_time_is_refused_with_the_name_of_the_option(
    given: Mapping[str, str], said: str
) -> None:
    (name,) = given
    with pytest.raises(InvalidArgumentError, match=f"option '{name}': {said}"):
        parse(subscribe="a", **given)


def test_a_partition_that_begins_at_a_later_time_than_it_ends_is_refused() -> None:
    with pytest.raises(
        InvalidArgumentError,
        match="start timestamp 9 is greater than the end timestamp 8",
    ):
        parse(
            subscribe="a",
            startingOffsetsByTimestamp='{"a": {"0": 9}}',
            endingOffsetsByTimestamp='{"a": {"0": 8}}',
        )


@pytest.mark.parametrize("word", ["LATEST", "latest", "Latest"])
def test_the_strategy_without_a_match_is_in_any_case(word: str) -> None:
    given = {"startingOffsetsByTimestampStrategy": word}
    assert parse(subscribe="a", **given).no_match == "latest"


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_numbers_of_partitions_and_of_records_are_taken(name: str) -> None:
    parsed = parse(subscribe="a", **{name: "2147483647"})
    assert {parsed.min_partitions, parsed.max_records} == {None, 2147483647}


@pytest.mark.parametrize("value", ["2147483648", "1 ", " 1", "1e3", "٣", "1" * 5000])
def test_a_number_of_partitions_that_java_does_not_read_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="'minPartitions': For input string"):
        parse(subscribe="a", minPartitions=value)


def test_options_show_no_secret() -> None:
    given = {
        "path": "sftp://user:hidden@host/tier",
        "storage_options": '{"password": "hidden"}',
        "plugin_options": '{"key": "hidden"}',
    }
    assert "hidden" not in repr(parse_options({"subscribe": "a", **given}))


def test_an_offset_that_no_record_has_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Expected e\.g\. "):
        parse(subscribe="a", startingOffsets=f'{{"a": {{"0": {2**63}}}}}')


@pytest.mark.parametrize("name", ["assign", "startingOffsets", "storage_options"])
def test_json_that_is_nested_too_deeply_is_refused(name: str) -> None:
    strategy = {} if name == "assign" else {"subscribe": "a"}
    with pytest.raises(InvalidArgumentError, match=f"option '{name}'"):
        parse(**strategy, **{name: '{"a":' * 100_000})


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ("offset", ("offset",)),
        (" Value , KEY ", ("value", "key")),
        ("timestamptype,headers,offset,OFFSET", ("timestampType", "headers", "offset")),
    ],
)
def test_columns_are_a_list_in_any_case_without_repetition(
    value: str, columns: tuple[str, ...]
) -> None:
    assert parse(subscribe="a", columns=value).columns == columns


@pytest.mark.parametrize("value", ["", " , ", "offset,nosuch"])
def test_a_column_that_there_is_not_is_refused_with_those_there_are(value: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"'columns': .*there are key, value"
    ):
        parse(subscribe="a", columns=value)


@pytest.mark.parametrize("level", ["READ_COMMITTED", "committed", ""])
def test_an_isolation_level_that_kafka_does_not_know_is_refused(level: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Invalid value {level} for"):
        parse(subscribe="a", **{"kafka.isolation.level": level})


def test_committed_records_are_asked_for_by_kafkas_option() -> None:
    level = {"Kafka.Isolation.Level": "read_committed"}
    assert parse(subscribe="a", **level).isolation == "read_committed"


def test_several_paths_are_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidArgumentError, match=r"takes one path.* union"):
        parse_options({"subscribe": "a", "paths": '["a", "b"]'})


def test_columns_of_a_view_are_refused_with_what_chooses_them() -> None:
    with pytest.raises(InvalidArgumentError, match="with a schema or with select"):
        parse(view="offsets", columns="topic")


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
    parsed = parse(subscribe="a", startingOffsets='{"a": {"00": 5}}')
    assert parsed.starting.named == {"a": {0: 5}}


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


def test_a_smallest_number_above_the_largest_is_refused_in_a_batch_query_too() -> None:
    given = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "11"}
    with pytest.raises(InvalidArgumentError, match=r"minOffsetPerTrigger\(11\) is hi"):
        parse(subscribe="a", **given)


@pytest.mark.parametrize("given", ["tieredfs.fetch_bytes", "tieredfs.no_such"])
def test_a_wrong_size_is_named_as_it_was_given(given: str) -> None:
    name = given.removeprefix("tieredfs.")
    with pytest.raises(InvalidArgumentError, match=rf"'tieredfs\.\*': .*{name}"):
        parse(**{"subscribe": "a", given: "0"})
