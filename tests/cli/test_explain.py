"""``tieredfs explain``: what ``cat`` with the same options asks of the store."""

import json
from pathlib import Path
from typing import Any

import pytest

import tieredfs
from cli.commands import Run
from servers import Bucket, ProxiedBucket
from support.log_directories import push_all
from support.stores import files_of, fill, open_store
from tieredfs.cli.cat import cat
from tieredfs.cli.explain import explain
from tieredfs.cli.output.records import FORMATS
from tieredfs.storage.layouts.single_object.layout import SingleObject

TOPIC = "two-partitions"

PRICES = """
[[stores]]
name = "mine"
date = 2026-01-31
source = "https://example.org/prices"
list_per_1000 = 0
read_per_1000 = 1000
region_per_gib = 0
internet_per_gib = 0
"""


def answer(run: Run, *arguments: str) -> dict[str, Any]:
    """Return the JSON that explaining gives."""
    done = run("explain", *arguments, "--json")
    assert (done.code, done.err) == (0, [])
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_it_has_every_option_of_cat_but_those_for_brokers() -> None:
    ours = {(one.name, tuple(one.opts)) for one in explain.params}
    cats = {(one.name, tuple(one.opts)) for one in cat.params}
    assert {name for name, _ in cats - ours} == {"follow", "bootstrap", "properties"}
    assert {name for name, _ in ours - cats} == {
        "latency_ms",
        "bandwidth_mb",
        "prices",
    }


def test_requests_bytes_seconds_and_prices_are_shown(run: Run, three: str) -> None:
    done = run("explain", three, TOPIC)
    assert (done.code, done.err) == (0, [])
    lines = done.text.splitlines()
    assert lines[0] == f"{TOPIC}: 21 segments, 164,175 bytes of log"
    assert lines[2].split() == [
        *("GET", "GET_RANGE", "HEAD", "LIST", "REQUESTS", "BYTES", "SECONDS")
    ]
    assert lines[4].split() == ["reading", "0", "21", "0", "0", "21", "164,175", "0.63"]
    assert "30 ms a request and 100 MB a second" in lines[6]
    for cloud in ("S3", "GCS", "Azure"):
        assert any(line.startswith(cloud) and "2025-" in line for line in lines)
    assert "at most" not in done.text


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--partition", "1"),
        ("--from", "100", "--to", "110"),
        ("--from", "-5"),
        ("--from", "2023-11-20T22:20:00Z"),
        ("--key", "k32", "--columns", "offset"),
        ("--option", "fetch_bytes=64K"),
    ],
)
def test_cat_sends_what_explain_says(
    run: Run, three: str, s3_proxied: ProxiedBucket, options: tuple[str, ...]
) -> None:
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    fill(open_store(place), files_of(Path(three)))
    given = ("--storage-options", json.dumps(place.storage_options), "--no-cache")
    explained = answer(run, place.url, TOPIC, *options, *given)
    s3_proxied.proxy.clear()
    done = run("cat", place.url, TOPIC, *options, *given)
    assert done.code == 0
    assert explained["is_exact"]
    sent = len(s3_proxied.proxy.requests())
    planned = explained["planning"]["requests"] + explained["reading"]["requests"]
    assert sent == planned


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_changes_nothing(run: Run, three: str, form: str) -> None:
    assert answer(run, three, TOPIC, "--format", form) == answer(run, three, TOPIC)


@pytest.mark.parametrize("options", [(), ("--limit", "3000")])
def test_what_only_explaining_sends_is_not_part_of_the_price(
    run: Run, three: str, s3_proxied: ProxiedBucket, options: tuple[str, ...]
) -> None:
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    push_all(
        tieredfs.open_tier(three).storage,
        SingleObject(open_store(place), compression="zstd"),
    )
    given = ("--storage-options", json.dumps(place.storage_options), "--no-cache")
    explained = answer(run, place.url, TOPIC, *options, *given)
    assert explained["explaining"]["requests"] == 21  # a manifest of each segment
    s3_proxied.proxy.clear()
    assert run("cat", place.url, TOPIC, *options, *given).code == 0
    planned = explained["planning"]["by_verb"], explained["reading"]["by_verb"]
    sent = sum(sum(verbs.values()) for verbs in planned)
    assert len(s3_proxied.proxy.requests()) == sent
    listed = sum(verbs.get("list", 0) for verbs in planned)
    priced = (listed * 0.005 + (sent - listed) * 0.0004) / 1000
    assert explained["costs"][0]["requests"] == pytest.approx(priced)
    lines = run("explain", place.url, TOPIC, *options, *given).text.splitlines()
    assert lines[4].startswith("explaining, sent only here")


def test_a_limit_makes_it_at_most(run: Run, three: str) -> None:
    limited = answer(run, three, TOPIC, "--limit", "3")
    assert not limited["is_exact"]
    assert limited["expected"]["requests"] == 1
    assert limited["reading"]["requests"] == 21
    lines = run("explain", three, TOPIC, "--limit", "3").text.splitlines()
    assert lines[4].startswith("reading, if each offset has a record")
    assert lines[5].startswith("reading, at most")
    assert "at most" in lines[-1]


def test_seconds_are_those_of_the_stated_latency_and_bandwidth(
    run: Run, three: str
) -> None:
    speed = ("--latency-ms", "1000", "--bandwidth-mb", "0.001")
    found = answer(run, three, TOPIC, *speed)
    reading = found["reading"]
    assert reading["seconds"] == reading["requests"] + reading["bytes"] / 1000


@pytest.mark.parametrize(
    ("speed", "said"),
    [
        ("--latency-ms=-1", "-1"),
        ("--bandwidth-mb=0", "0"),
        ("--latency-ms=nan", "'nan' is not a number"),
        ("--latency-ms=30ms", "'30ms' is not a number"),
    ],
)
def test_a_speed_that_is_none_is_wrong_usage(
    run: Run, three: str, speed: str, said: str
) -> None:
    done = run("explain", three, TOPIC, speed)
    assert (done.code, done.out) == (2, b"")
    assert speed.split("=", maxsplit=1)[0] in done.err[-1]
    assert said in done.err[-1]


def test_a_limit_of_none_reads_nothing(run: Run, three: str) -> None:
    found = answer(run, three, TOPIC, "--limit", "0")
    assert found["is_exact"]
    assert found["reading"]["requests"] == found["expected"]["requests"] == 0


def test_prices_come_from_the_table_that_is_given(
    run: Run, three: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(PRICES)
    found = answer(run, three, TOPIC, "--prices", str(tmp_path / "mine.toml"))
    (cost,) = found["costs"]
    verbs = [found[part]["by_verb"] for part in ("planning", "reading")]
    counted = sum(n for each in verbs for verb, n in each.items() if verb != "list")
    assert cost == {
        "store": "mine",
        "date": "2026-01-31",
        "source": "https://example.org/prices",
        "requests": counted,
        "region": 0,
        "internet": 0,
    }


def test_a_wrong_table_of_prices_is_wrong_usage_that_names_the_field(
    run: Run, three: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PRICES.replace("= 1000", '= "dear"'))
    done = run("explain", three, TOPIC, "--prices", str(path))
    assert (done.code, done.out) == (2, b"")
    (line,) = done.err
    assert line.startswith("tieredfs: invalid argument: ")
    assert f"{path}: stores[0].read_per_1000 is 'dear'" in line


def test_a_table_of_prices_that_is_missing_is_wrong_usage(
    run: Run, three: str, tmp_path: Path
) -> None:
    done = run("explain", three, TOPIC, "--prices", str(tmp_path / "none.toml"))
    assert done.code == 2
    assert "none.toml" in done.err[0]


def test_a_topic_that_is_missing_is_not_found(run: Run, three: str) -> None:
    assert run("explain", three, "nosuch").code == 3


def test_credentials_are_not_shown(run: Run, three: str) -> None:
    secret = "s3cr3t-0f-a-t3st"  # noqa: S105 - no secret
    options = ("--storage-options", json.dumps({"secret": secret}))
    for url in (three, "s3://nosuch-bucket.invalid/tier"):
        limit = ("--deadline", "1", "--option", "max_concurrent_requests=1")
        done = run("explain", url, TOPIC, *options, *limit)
        assert secret not in done.text + "".join(done.err)
