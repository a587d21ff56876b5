"""``tieredfs explain``: what reading the records of a topic asks of the store."""

from dataclasses import asdict
from pathlib import Path

import click

from tieredfs.cli.numbers import Number
from tieredfs.cli.options import (
    TierOptions,
    cache_option,
    json_option,
    tier_options,
)
from tieredfs.cli.output.progress import waiting
from tieredfs.cli.output.tables import show_json, show_line, show_table, show_text
from tieredfs.cli.picture.units import show_count
from tieredfs.cli.wanted_records import (
    WantedRecords,
    format_option,
    record_options,
)
from tieredfs.format.records.schema import COLUMNS
from tieredfs.log.read.explanation import Explanation
from tieredfs.log.read.scan import Scan
from tieredfs.objects import PriceTable, RequestCounter, RequestCounts

__all__ = ["explain"]

_MILLI = 1000
_MEGA = 10**6
_MIN_BANDWIDTH_MB = 1e-6  # a byte a second
_PRICES = {
    "store": "STORE",
    "date": "PRICES OF",
    "requests": "REQUESTS, USD",
    "region": "BYTES IN REGION, USD",
    "internet": "BYTES TO INTERNET, USD",
}


@click.command
@click.argument("url")
@record_options
@format_option
@click.option(
    "--latency-ms",
    type=Number(min=0, max=1e9),
    default=30.0,
    show_default=True,
    metavar="MS",
    help="How long the store takes to begin an answer.",
)
@click.option(
    "--bandwidth-mb",
    type=Number(min=_MIN_BANDWIDTH_MB, max=1e9),
    default=100.0,
    show_default=True,
    metavar="MB",
    help="Million bytes that arrive in a second.",
)
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A table of prices in TOML, in place of the dated one in the package.",
)
@json_option
@tier_options
@cache_option
def explain(  # noqa: PLR0913 - one parameter for each option
    options: TierOptions,
    url: str,
    wanted: WantedRecords,
    *,
    form: str | None,
    latency_ms: float,
    bandwidth_mb: float,
    prices: Path | None,
    as_json: bool,
) -> None:
    """Show what `cat` with the same options asks of the store, and what that costs.

    No record is read. The requests of planning have been sent, and `cat` sends them,
    too. Those of explaining are sent only here. Those of reading are what `cat` will
    send: exactly these, or "at most", as with --limit. It sends one after the other, so
    the time is the latency of each, and the bytes over the bandwidth. Prices are list
    prices with a date, and may be out of date. --format changes nothing: each format
    takes the same requests.
    """
    del form
    table = PriceTable.default() if prices is None else PriceTable.load(prices)
    counter = RequestCounter()
    with waiting(url), options.tier(url, counter) as tier:
        scan = wanted.scan(tier, wanted.columns or COLUMNS)
        planning = counter.counts
        explained = _nothing(scan) if wanted.limit == 0 else scan.explain(wanted.limit)
    speed = (latency_ms / _MILLI, bandwidth_mb * _MEGA)
    sent = planning + explained.reading
    costs = [(one, one.cost(sent)) for one in table.stores]
    if as_json:
        show_json(
            {
                "topic": wanted.topic,
                "segments": explained.segments,
                "log_bytes": explained.log_bytes,
                "is_exact": explained.is_exact,
                "planning": _json(planning),
                "explaining": _json(explained.explaining),
                "reading": _json(explained.reading, speed),
                "expected": _json(explained.expected, speed),
                "costs": [
                    {
                        "store": one.name,
                        "date": one.date.isoformat(),
                        "source": one.source,
                        **asdict(cost),
                    }
                    for one, cost in costs
                ],
            }
        )
        return
    show_line(
        f"{wanted.topic}: {show_count(explained.segments, 'segment')}, "
        f"{explained.log_bytes:,} bytes of log"
    )
    show_text()
    _show_requests(planning, explained, speed)
    show_text()
    show_line(
        f"The seconds are those of the store, at {latency_ms:g} ms a request and "
        f"{bandwidth_mb:g} MB a second."
    )
    show_text()
    rows = [
        {"store": one.name, "date": one.date.isoformat()}
        | {key: f"{usd:.6f}" for key, usd in asdict(cost).items()}
        for one, cost in costs
    ]
    show_table(rows, _PRICES)
    show_text()
    at_most = "" if explained.is_exact else " at most"
    show_line(f"That is planning and reading{at_most}, at list prices, which change.")


def _nothing(scan: Scan) -> Explanation:
    """Return what `cat --limit 0` asks for: it begins no read."""
    none = RequestCounts()
    plan = scan.plan
    return Explanation(plan.segments, plan.size, none, none, none, is_exact=True)


def _show_requests(
    planning: RequestCounts, explained: Explanation, speed: tuple[float, float]
) -> None:
    """Show the requests by verb, a row for each part of the work."""
    parts = {"planning, sent": planning}
    if explained.explaining.requests:
        parts["explaining, sent only here"] = explained.explaining
    sent = set(parts)
    if explained.expected != explained.reading:
        parts["reading, if each offset has a record"] = explained.expected
    at_most = "" if explained.is_exact else ", at most"
    parts[f"reading{at_most}"] = explained.reading
    verbs = sorted({verb for counts in parts.values() for verb in counts.by_verb})
    rows = [
        {
            "part": name,
            **{verb: counts.by_verb.get(verb, 0) for verb in verbs},
            "all": counts.requests,
            "bytes": counts.size,
            "seconds": None if name in sent else _seconds(counts, speed),
        }
        for name, counts in parts.items()
    ]
    headings = {verb: verb.upper() for verb in verbs}
    columns = {"part": "", **headings, "all": "REQUESTS", "bytes": "BYTES"}
    show_table(rows, {**columns, "seconds": "SECONDS"})


def _seconds(counts: RequestCounts, speed: tuple[float, float]) -> str:
    return f"{counts.seconds(*speed):,.2f}"


def _json(
    counts: RequestCounts, speed: tuple[float, float] | None = None
) -> dict[str, object]:
    seconds = {} if speed is None else {"seconds": counts.seconds(*speed)}
    return {
        "requests": counts.requests,
        "by_verb": counts.by_verb,
        "bytes": counts.size,
        **seconds,
    }
