"""``tieredfs cat``: the records, in four formats."""

import base64
import io
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from cli.commands import Run, expected_records
from servers import Bucket
from support.golden import record_facts, rows_of
from support.kafka_data import REMOTE, digest
from support.log_directories import log_of, write_log
from support.segments import records, segment
from support.stores import KINDS, files_of, fill, make_place, open_store
from support.wire import WireRecord, encode_batch, encode_message
from tieredfs import ObjectStore, SegmentMetadata, open_tier
from tieredfs.log.read.reader import TieredReader, bounds_of

ESCAPED = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}
TYPES = {"CreateTime": 0, "LogAppendTime": 1}


def parse_jsonl(out: bytes) -> list[dict[str, Any]]:
    """Return the facts of records that were written in base64."""
    return [record_facts(_row(json.loads(line))) for line in out.splitlines()]


def offsets(out: bytes) -> list[int]:
    return [json.loads(line)["offset"] for line in out.splitlines()]


def unescape(text: str) -> str:
    return re.sub(
        r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|.)",
        lambda m: chr(int(m[m.lastindex], 16)) if m.lastindex else ESCAPED[m[0]],
        text,
    )


def test_jsonl_in_base64_is_exactly_what_kafka_reads(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain", "--format", "jsonl", "--encoding", "base64")
    assert (done.code, done.err) == (0, [])
    assert parse_jsonl(done.out) == expected_records("plain")


def test_a_record_of_version_0_has_no_timestamp_and_no_type_of_one(
    run: Run, tmp_path: Path
) -> None:
    log = b"".join(encode_message(WireRecord(n, 5, b"k", b"v"), 0) for n in range(3))
    write_log(tmp_path, {0: log})
    done = run("cat", str(tmp_path), "t", "--format", "jsonl")
    assert (done.code, done.err) == (0, [])
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2]
    assert {line["timestamp"] for line in lines} == {-1}
    assert {line["timestamp_type"] for line in lines} == {None}


def test_jsonl_lines_have_the_promised_fields_in_order(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain", "--format", "jsonl", "--limit", "1")
    (line,) = done.out.splitlines()
    assert json.loads(line) == {
        "topic": "plain",
        "partition": 0,
        "offset": 0,
        "timestamp": 1700086400313,
        "timestamp_type": "CreateTime",
        "key": "",
        "value": "naïve naïve données 日本語 epoch remot",
        "headers": [{"key": "null-value", "value": None}, {"key": "", "value": ""}],
    }
    fields = "topic partition offset timestamp timestamp_type key value headers"
    assert list(json.loads(line)) == fields.split()


def test_json_is_the_jsonl_format(run: Run, plain: str) -> None:
    expected = run("cat", plain, "plain", "--format", "jsonl").out
    assert run("cat", plain, "plain", "--json").out == expected


def test_an_arrow_stream_is_exactly_what_kafka_reads(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain", "--format", "arrow")
    assert (done.code, done.err) == (0, [])
    table = pa.ipc.open_stream(done.out).read_all()
    assert [record_facts(row) for row in rows_of(table)] == expected_records("plain")


def test_a_parquet_file_is_exactly_what_kafka_reads(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain", "--format", "parquet")
    assert (done.code, done.err) == (0, [])
    table = pq.read_table(io.BytesIO(done.out))
    assert [record_facts(row) for row in rows_of(table)] == expected_records("plain")


def test_arrow_and_parquet_of_no_records_are_whole_and_have_a_schema(
    run: Run, plain: str
) -> None:
    arrow = run("cat", plain, "plain", "--limit", "0", "--format", "arrow").out
    parquet = run("cat", plain, "plain", "--limit", "0", "--format", "parquet").out
    tables = pa.ipc.open_stream(arrow).read_all(), pq.read_table(io.BytesIO(parquet))
    for table in tables:
        assert table.num_rows == 0
        assert "timestampType" in table.column_names


def test_text_is_one_line_a_record_and_can_be_read_back(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain")
    lines = done.text.split("\n")
    assert lines.pop() == ""
    expected = expected_records("plain")
    assert len(lines) == len(expected)
    for line, record in zip(lines, expected, strict=True):
        partition, offset, _, key, value = line.split("\t")
        assert (partition, int(offset)) == ("0", record["offset"])
        for shown, data in ((key, record["key"]), (value, record["value"])):
            if isinstance(data, bytes):
                assert unescape(shown) == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (-1, "-"),
        (1 << 62, "4611686018427387904 ms"),
    ],
)
def test_text_shows_times_in_utc_and_as_numbers_when_no_calendar_holds_them(
    timestamp: int, shown: str, run: Run, tmp_path: Path
) -> None:
    log = encode_batch([WireRecord(0, timestamp, None, b"v")])
    fill(*_made(tmp_path, log))
    line = run("cat", str(tmp_path), "made").text
    assert line == f"0\t0\t{shown}\t\\N\tv\n"


def test_text_tells_null_from_a_record_that_only_looks_like_it(
    run: Run, tmp_path: Path
) -> None:
    values = [None, b"", b"-", b"null", b"\\N"]
    log = encode_batch([WireRecord(n, n, v, v) for n, v in enumerate(values)])
    fill(*_made(tmp_path, log))
    lines = run("cat", str(tmp_path), "made").text.split("\n")[:-1]
    shown = [line.split("\t")[3:] for line in lines]
    assert shown == [[text, text] for text in ("\\N", "", "-", "null", "\\\\N")]


def test_text_has_no_control_characters_that_would_reach_a_terminal(
    run: Run, tmp_path: Path
) -> None:
    everything = "".join(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0)]))
    log = encode_batch([WireRecord(0, 0, b"k", everything.encode())])
    fill(*_made(tmp_path, log))
    (line,) = run("cat", str(tmp_path), "made").text.split("\n")[:-1]
    *_, value = line.split("\t")
    assert [char for char in value if not char.isprintable()] == []


def test_encodings_of_keys_values_and_headers(run: Run, tmp_path: Path) -> None:
    header = ((b"h", b"\x00\xff"),)
    log = encode_batch([WireRecord(0, 0, "ü".encode(), b"a\xffb", header)])
    fill(*_made(tmp_path, log))

    def shown(encoding: str) -> tuple[str, str, str]:
        done = run("cat", str(tmp_path), "made", "--json", "--encoding", encoding)
        record = json.loads(done.out)
        return record["key"], record["value"], record["headers"][0]["value"]

    assert shown("utf8") == ("ü", "a\ufffdb", "\0\ufffd")
    assert shown("hex") == ("c3bc", "61ff62", "00ff")
    assert shown("base64") == ("w7w=", "Yf9i", "AP8=")


def test_bytes_that_are_not_utf8_are_said_once_on_stderr(run: Run, plain: str) -> None:
    done = run("cat", plain, "plain", "--json")
    assert len(done.err) == 1
    assert done.err[0].startswith("tieredfs: warning: ")
    assert "--encoding base64" in done.err[0]
    assert len(done.out.splitlines()) == 599


@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_exact_encodings_warn_of_nothing(encoding: str, run: Run, plain: str) -> None:
    assert run("cat", plain, "plain", "--json", "--encoding", encoding).err == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), range(599)),
        (("--from", "earliest"), range(599)),
        (("--from", "0"), range(599)),
        (("--from", "590"), range(590, 599)),
        (("--from", "599"), range(0)),
        (("--to", "7"), range(7)),
        (("--to", "100000"), range(599)),
        (("--to", "latest"), range(599)),
        (("--from", "127", "--to", "131"), range(127, 131)),
        (("--from", "5", "--to", "5"), range(0)),
        (("--from", "latest"), range(0)),
        (("--from", "latest", "--to", "5"), range(0)),
        (("--from", "-5"), range(594, 599)),
        (("--from", "-5", "--to", "597"), range(594, 597)),
        (("--from", "-0"), range(0)),
        (("--from", "-599"), range(599)),
        (("--from", "-9999999999999999999"), range(599)),
        (("--from", "-" + "9" * 30), range(599)),
        (("--to", "9" * 30), range(599)),
        (("--from", "@1700086400645"), range(1, 599)),
        (("--from", "@1700086400646", "--to", "4"), range(2, 4)),
        (("--from", "@-1"), range(599)),
        (("--from", "@253402300799999"), range(0)),
        (("--to", "@1700086400645"), range(1)),
        (("--limit", "3"), range(3)),
        (("--limit", "0"), range(0)),
        (("--limit", "100000"), range(599)),
        (("--limit", str(1 << 64)), range(599)),
        (("--from", "597", "--limit", "2"), range(597, 599)),
        (("--from", "2023-11-15T22:13:20.645Z"), range(1, 599)),
        (("--from", "2023-11-15T22:13:20.646"), range(2, 599)),
        (("--from", "2023-11-15 23:13:20.645+01:00"), range(1, 599)),
        (("--from", "2000-01-01"), range(599)),
        (("--from", "2100-01-01"), range(0)),
        (("--to", "2023-11-15T22:13:20.645Z"), range(1)),
        (("--from", "2000-01-01", "--to", "4"), range(4)),
    ],
    ids=str,
)
def test_from_to_and_limit(
    arguments: tuple[str, ...], expected: range, run: Run, plain: str
) -> None:
    done = run("cat", plain, "plain", "--json", "--encoding", "hex", *arguments)
    assert (done.code, done.err) == (0, [])
    assert offsets(done.out) == list(expected)


def test_a_limit_fetches_about_the_records_that_it_shows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_tier(str(tmp_path), plugin="single-object") as tier:
        topic = tier.create_topic("t")
        topic.append(pa.table({"value": [b"%050000d" % n for n in range(400)]}))
    fetched = []
    get_range = ObjectStore.get_range

    def counted(store: ObjectStore, key: str, start: int, end: int) -> memoryview:
        fetched.append(end - start)
        return get_range(store, key, start, end)

    monkeypatch.setattr(ObjectStore, "get_range", counted)
    how = ("cat", str(tmp_path), "t", "--columns", "offset", "--json")
    for first, limit in ((5, 1), (0, 1), (390, 3), (100, 40)):
        fetched.clear()
        done = run(*how, "--from", str(first), "--limit", str(limit))
        assert (done.code, done.err) == (0, [])
        assert offsets(done.out) == list(range(first, first + limit))
        assert 0 < sum(fetched) < 50_000 * limit + (4 << 20)


@pytest.mark.parametrize("count", [1, 5, 100, 1000, 1583, 5000])
def test_the_last_records_are_as_many_as_that_where_offsets_have_no_record(
    count: int, run: Run, data: Path
) -> None:
    url = str(data / "kafka" / "txn" / REMOTE)
    how = ("cat", url, "txn", "--columns", "offset", "--json")
    whole = offsets(run(*how).out)
    assert len(whole) < whole[-1]
    assert offsets(run(*how, "--from", f"-{count}").out) == whole[-count:]


def test_the_last_records_behind_a_large_hole_are_found(
    run: Run, tmp_path: Path
) -> None:
    # The cleaner removed what lay between, and left a batch that ends the log.
    log = encode_batch([WireRecord(n, n, b"k", b"v") for n in (0, 1, 2, 70_000)])
    fill(*_made(tmp_path, log))
    done = run("cat", str(tmp_path), "made", "--json", "--from", "-2")
    assert offsets(done.out) == [2, 70_000]


def test_the_last_records_are_those_of_each_partition(run: Run, three: str) -> None:
    how = ("two-partitions", "--from", "-2", "--columns", "partition,offset")
    assert run("cat", three, *how).text.splitlines() == [
        *("0\t253", "0\t254", "1\t223", "1\t224", "2\t248", "2\t249")
    ]
    done = run("cat", three, *how, "--partition", "1", "--limit", "1")
    assert done.text == "1\t223\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--from", "-5"), range(5, 10)),
        (("--from", "-5", "--to", "latest"), range(5, 10)),
        (("--from", "-50"), range(10)),
        (("--from", "latest"), range(0)),
        (("--from", "-2", "--to", "12"), range(8, 10)),
    ],
    ids=str,
)
def test_what_is_written_after_the_log_was_listed_is_neither_counted_nor_shown(
    arguments: tuple[str, ...],
    expected: range,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = write_log(tmp_path, {0: log_of(0)}) / f"{0:020d}.log"
    segments = TieredReader.segments

    def meanwhile(reader: TieredReader, **options: Any) -> Sequence[SegmentMetadata]:  # noqa: ANN401 - as it is
        listed = segments(reader, **options)
        with log.open("ab") as file:
            file.write(log_of(bounds_of(listed).end))
        return listed

    monkeypatch.setattr(TieredReader, "segments", meanwhile)
    done = run("cat", str(tmp_path), "t", "--json", *arguments)
    assert (done.code, done.err) == (0, [])
    assert offsets(done.out) == list(expected)


def test_help_says_that_a_time_is_not_a_filter(run: Run) -> None:
    words = " ".join(run("cat", "--help").text.split())
    assert "A time is not a filter: it stands for the first offset" in words


def test_a_time_lets_older_records_at_later_offsets_through(
    run: Run, tmp_path: Path
) -> None:
    stamps = [5, 9, 7, 8, 3]
    log = encode_batch([WireRecord(n, t, b"k", b"v") for n, t in enumerate(stamps)])
    fill(*_made(tmp_path, log))
    done = run("cat", str(tmp_path), "made", "--json", "--from", "@8")
    assert offsets(done.out) == [1, 2, 3, 4]


@pytest.mark.parametrize("form", ["text", "jsonl", "arrow", "parquet"])
def test_columns_are_those_that_are_named_in_that_order(
    form: str, run: Run, plain: str
) -> None:
    how = ("--columns", "value, offset,timestamp_type", "--from", "3", "--limit", "1")
    done = run("cat", plain, "plain", "--format", form, "--encoding", "hex", *how)
    assert (done.code, done.err) == (0, [])
    (record,) = expected_records("plain")[3:4]
    value = record["value"].hex()
    match form:
        case "text":
            assert done.text == f"{value}\t3\tCreateTime\n"
        case "jsonl":
            fields = {"value": value, "offset": 3, "timestamp_type": "CreateTime"}
            assert done.text == json.dumps(fields) + "\n"
        case _:
            table = (
                pa.ipc.open_stream(done.out).read_all()
                if form == "arrow"
                else pq.read_table(io.BytesIO(done.out))
            )
            assert table.column_names == ["value", "offset", "timestampType"]
            assert table["value"].to_pylist() == [record["value"]]


def test_every_column_can_be_shown_as_text_and_read_back(
    run: Run, tmp_path: Path
) -> None:
    headers = ((b"a\tb", b"\\\n\x1b"), (b"n", None))
    log = encode_batch([WireRecord(0, 7, None, b"v", headers)])
    fill(*_made(tmp_path, log))
    names = "headers,timestampType,timestamp,key,value,topic,partition,offset"
    line = run("cat", str(tmp_path), "made", "--columns", names).text
    shown, *rest = line.rstrip("\n").split("\t")
    stamp = "1970-01-01T00:00:00.007Z"
    assert rest == ["CreateTime", stamp, "\\N", "v", "made", "0", "0"]
    assert json.loads(unescape(shown)) == [
        {"key": "a\tb", "value": "\\\n\x1b"},
        {"key": "n", "value": None},
    ]


class TestKeys:
    @pytest.fixture
    def keyed(self, tmp_path: Path) -> str:
        """A topic with keys of all kinds."""
        keys = [b"a", None, b"", "ü".encode(), b"\xff", b"a", b"b", b"a"]
        log = encode_batch([WireRecord(n, n, k, b"v") for n, k in enumerate(keys)])
        fill(*_made(tmp_path, log))
        return str(tmp_path)

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (("--key", "a"), [0, 5, 7]),
            (("--key", "a", "--limit", "2"), [0, 5]),
            (("--key", "a", "--from", "1"), [5, 7]),
            (("--key", "a", "--key", "b"), [0, 5, 6, 7]),
            (("--key", ""), [2]),
            (("--key", "ü"), [3]),
            (("--key", "\udcff"), [4]),
            (("--key", "ff", "--encoding", "hex"), [4]),
            (("--key", "/w==", "--encoding", "base64"), [4]),
            (("--key", "nosuch"), []),
        ],
        ids=ascii,
    )
    def test_only_records_with_the_key_are_shown(
        self, arguments: tuple[str, ...], expected: list[int], run: Run, keyed: str
    ) -> None:
        done = run("cat", keyed, "made", "--columns", "offset", "--json", *arguments)
        assert (done.code, done.err) == (0, [])
        assert done.text.splitlines() == [f'{{"offset": {n}}}' for n in expected]

    @pytest.mark.parametrize("form", ["arrow", "parquet"])
    def test_records_with_the_key_are_whole_in_a_table(
        self, form: str, run: Run, keyed: str
    ) -> None:
        done = run("cat", keyed, "made", "--key", "b", "--format", form)
        table = (
            pa.ipc.open_stream(done.out).read_all()
            if form == "arrow"
            else pq.read_table(io.BytesIO(done.out))
        )
        assert table["offset"].to_pylist() == [6]
        assert table.num_columns == 8


class TestGaps:
    @pytest.fixture
    def holed(self, three: str, tmp_path: Path) -> str:
        """The topic without a segment in its midst."""
        files = files_of(Path(three))
        lost = "/00000000000000000047-"
        kept = {
            k: v
            for k, v in files.items()
            if not (k.startswith("two-partitions-1-") and lost in k)
        }
        fill(open_store(Bucket(str(tmp_path), {})), kept)
        return str(tmp_path)

    @pytest.mark.parametrize("command", ["cat", "explain"])
    def test_the_error_of_a_gap_names_the_option_that_reads_on(
        self, run: Run, holed: str, command: str
    ) -> None:
        done = run(command, holed, "two-partitions", "--json")
        assert (done.code, done.out) == (4, b"")
        assert "offsets 47 to 87" in done.err[0]
        assert "--on-gap skip on the command line" in done.err[0]

    def test_on_gap_skip_reads_what_is_there(self, run: Run, holed: str) -> None:
        how = ("--json", "--partition", "1", "--on-gap", "skip", "--encoding", "hex")
        done = run("cat", holed, "two-partitions", *how)
        assert (done.code, done.err) == (0, [])
        assert offsets(done.out) == [*range(47), *range(88, 225)]
        last = run("cat", holed, "two-partitions", *how, "--from", "-140")
        assert offsets(last.out) == [44, 45, 46, *range(88, 225)]


@pytest.mark.parametrize("form", ["jsonl", "arrow", "parquet"])
def test_header_keys_that_are_not_text_are_not_changed_silently(
    form: str, run: Run, tmp_path: Path
) -> None:
    log = encode_batch(
        [WireRecord(n, n, b"k", b"v", ((b"\xffh", b"v"),)) for n in (0, 1)]
    )
    fill(*_made(tmp_path, log))
    done = run("cat", str(tmp_path), "made", "--format", form)
    assert done.code == 0
    (line,) = done.err
    assert line.startswith("tieredfs: warning: not all header keys are UTF-8")
    shown = run("cat", str(tmp_path), "made", "--columns", "key,value")
    assert (shown.code, shown.err) == (0, [])  # none of them is shown


def test_times_are_looked_up_as_kafka_does(run: Run, plain: str, data: Path) -> None:
    answers = json.loads((data / "kafka/plain/offsets_for_times.json").read_text())
    for answer in answers["offsetsForTimes"][4:40:6]:
        when = timedelta(milliseconds=answer["timestamp"])
        time = (datetime(1970, 1, 1, tzinfo=UTC) + when).isoformat()
        done = run("cat", plain, "plain", "--json", "--from", time, "--limit", "1")
        assert offsets(done.out) == [answer["offset"]]


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_the_same_by_changing_only_the_url(
    kind: str, run: Run, three: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(kind, request, tmp_path)
    fill(open_store(place), files_of(Path(three)))
    given = ("--storage-options", json.dumps(place.storage_options))
    for form in ("jsonl", "arrow", "parquet"):
        how = ("two-partitions", "--format", form, "--encoding", "base64")
        done = run("cat", place.url, *how, *given)
        assert (done.code, done.err) == (0, [])
        assert done.out == run("cat", three, *how).out
    assert run("cat", Path(three).as_uri(), *how).out == done.out


def test_partitions_come_one_after_the_other_in_offset_order(
    run: Run, three: str, data: Path
) -> None:
    done = run("cat", three, "two-partitions", "--format", "arrow")
    table = pa.ipc.open_stream(done.out).read_all()
    said = json.loads((data / "kafka/two-partitions/consumer.json").read_text())
    numbers = table["partition"].to_pylist()
    assert numbers == sorted(numbers)
    for number, expected in said["read_uncommitted"].items():
        part = table.filter(pc.equal(table["partition"], int(number)))
        assert digest(part) == expected["digest"]


def test_only_the_partitions_that_are_named_are_shown(run: Run, three: str) -> None:
    how = ("--json", "--partition", "2", "--partition", "1", "--encoding", "hex")
    done = run("cat", three, "two-partitions", *how)
    shown = [json.loads(line)["partition"] for line in done.out.splitlines()]
    assert {number: shown.count(number) for number in shown} == {1: 225, 2: 250}


def test_control_records_are_hidden(run: Run, data: Path) -> None:
    url = str(data / "kafka" / "txn" / REMOTE)
    done = run("cat", url, "txn", "--format", "arrow")
    said = json.loads((data / "kafka/txn/consumer.json").read_text())
    table = pa.ipc.open_stream(done.out).read_all()
    assert digest(table) == said["read_uncommitted"]["0"]["digest"]


def _made(folder: Path, log: bytes) -> tuple[ObjectStore, dict[str, bytes]]:
    store = open_store(Bucket(str(folder), {}))
    return store, segment("made-0-AAAAAAAAAAAAAAAAAAAAAA", 0, log)


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Turn a line of jsonl into a row of the Arrow schema."""
    headers = [h | {"value": _bytes(h["value"])} for h in record["headers"]]
    return {
        "offset": record["offset"],
        "timestamp": record["timestamp"],
        "timestampType": TYPES[record["timestamp_type"]],
        "key": _bytes(record["key"]),
        "value": _bytes(record["value"]),
        "headers": headers,
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


@pytest.mark.parametrize("verb", ["cat", "ls"])
def test_a_batch_above_the_limit_is_read_with_the_option_that_the_error_names(
    run: Run, tmp_path: Path, verb: str
) -> None:
    log = encode_batch(records(0, 5, value="v" * (1 << 20)), codec="gzip")
    fill(ObjectStore(str(tmp_path)), segment("t-0-AAAAAAAAAAAAAAAAAAAAAQ", 0, log))
    option = "max_decompressed_bytes"
    refused = run(verb, str(tmp_path), "t", "--option", f"{option}=4M")
    assert refused.code == 4
    assert f"raise the option {option} to read it" in refused.err[-1]
    assert run(verb, str(tmp_path), "t", "--option", f"{option}=8M").code == 0


@pytest.mark.parametrize("command", ["cat", "explain"])
def test_an_offset_that_looks_like_milliseconds_gets_the_hint_how_a_time_is_given(
    run: Run, plain: str, command: str
) -> None:
    done = run(command, plain, "plain", "--from", "1700518800000")
    assert (done.code, done.out) == (3, b"")
    assert "give @1700518800000" in done.err[0]
    assert run(command, plain, "plain", "--from", "@1700518800000").code == 0
    other = run(command, plain, "plain", "--from", "600")
    assert (other.code, "give" in other.err[0]) == (3, False)
