"""``tieredfs report``: a picture of topics, as text or as a page of HTML."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

import click

from tieredfs.cli.exit_codes import worst_code
from tieredfs.cli.options import TierOptions, cache_option, json_option, tier_options
from tieredfs.cli.output.drawings import (
    can_show,
    drawing_width,
    has_few_colours,
    show_drawing,
)
from tieredfs.cli.output.files import check_writable, write_file
from tieredfs.cli.output.progress import counting
from tieredfs.cli.output.tables import (
    show_bytes,
    show_error,
    show_json,
    show_line,
    show_text,
)
from tieredfs.cli.picture.page import Page
from tieredfs.cli.picture.palette import BASIC_COLOURS, COLOURS
from tieredfs.cli.picture.text import ASCII, BLOCKS, TextPicture
from tieredfs.cli.picture.units import show_size
from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.log.report.partition_report import (
    EpochRange,
    OffsetRange,
    PartitionReport,
    SegmentReport,
)
from tieredfs.log.report.topic_report import TopicReport, report_topic
from tieredfs.storage import check_layout
from tieredfs.tier import Tier

__all__ = ["report"]

_STDOUT: Final = "-"

_OF_ONE_TOPIC: Final = (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedFormatError,
)
"""Errors of one topic, after which the next one is still reported."""


@click.command
@click.argument("url")
@click.argument("topic", required=False)
@click.option(
    "--html",
    "page_name",
    type=click.Path(path_type=str),
    metavar="FILE",
    help="Write one page of HTML that needs no network and no script; - for stdout.",
)
@click.option("--topic-id", metavar="ID", help="Which of several topics of one name.")
@json_option
@tier_options
@cache_option
def report(
    options: TierOptions,
    url: str,
    topic: str | None,
    topic_id: str | None,
    page_name: str | None,
    *,
    as_json: bool,
) -> None:
    """Draw the segments of TOPIC, or of every topic at URL.

    Each partition is a bar of its offsets: which segments hold them, what is missing,
    what several segments hold, what a cleaner has removed, and the leader epochs. Where
    there are more segments than can be seen, neighbours are drawn as one. With --html
    the picture is a page in FILE, which also shows when the offsets were written. What
    cannot be read is left out and named, and the exit code is then that of the error.
    """
    if topic is None and topic_id is not None:
        raise click.UsageError("--topic-id needs a TOPIC")
    if page_name is not None:
        _check_page(page_name, as_json=as_json)
    with options.tier(url) as tier:
        outputs = _outputs(tier, page_name, as_json=as_json)
        errors: list[TieredFSError] = []
        for name in [topic] if topic is not None else _names(tier):
            try:
                made = _read(tier, name, topic_id)
            except _OF_ONE_TOPIC as error:
                if topic is not None:
                    raise
                errors.append(error)
                continue
            errors += made.errors
            for output in outputs:
                output.add(made)
        for output in outputs:
            output.finish(errors)
    for one in errors:
        show_error(one)
    if errors:
        click.get_current_context().exit(worst_code(errors))


def _check_page(name: str, *, as_json: bool) -> None:
    """Check where a page shall go."""
    if name != _STDOUT:
        check_writable(name, "--html")
    elif as_json:
        raise click.UsageError("--html - and --json both write to standard output")


def _names(tier: Tier) -> list[str]:
    names = tier.topics()
    if not names:
        check_layout(tier.storage)
    return names


def _read(tier: Tier, name: str, topic_id: str | None) -> TopicReport:
    opened = tier.topic(name, topic_id=topic_id)
    readers = [opened.reader(number) for number in opened.partitions]
    with counting(f"report {name}", len(readers)) as done:
        return report_topic(
            opened.name,
            str(opened.topic_id),
            readers,
            progress=lambda one: done(len(one.segments)),
        )


class _Output(Protocol):
    """What the reports of topics become, one after the other."""

    def add(self, report: TopicReport) -> None:
        """Take the report of one more topic."""

    def finish(self, errors: list[TieredFSError]) -> None:
        """Complete the answer."""


def _outputs(tier: Tier, page_name: str | None, *, as_json: bool) -> list[_Output]:
    url = tier.storage.store.url
    outputs: list[_Output] = []
    if page_name is not None:
        outputs.append(_PageFile(page_name, url, is_named=not as_json))
    if as_json:
        outputs.append(_Json(url))
    return outputs or [_Drawing()]


class _Drawing:
    """Text, drawn as it is known."""

    def __init__(self) -> None:
        symbols = BLOCKS if can_show(BLOCKS.characters) else ASCII
        colours = BASIC_COLOURS if has_few_colours() else COLOURS
        self._picture = TextPicture(drawing_width(), symbols, colours)
        self._is_empty = True

    def add(self, report: TopicReport) -> None:
        if not self._is_empty:
            show_text()
        self._is_empty = False
        show_drawing(self._picture.draw(report))

    def finish(self, errors: list[TieredFSError]) -> None:
        del errors
        if not self._is_empty:
            show_text()
            show_drawing(self._picture.legend())


class _PageFile:
    """A page of HTML, written when it is complete."""

    def __init__(self, name: str, url: str, *, is_named: bool) -> None:
        self._name = name
        self._page = Page(url)
        self._is_named = is_named

    def add(self, report: TopicReport) -> None:
        self._page.add(report)

    def finish(self, errors: list[TieredFSError]) -> None:
        data = self._page.finish(errors)
        if self._name == _STDOUT:
            show_bytes(data.removesuffix(b"\n"))
            return
        write_file(Path(self._name), data)
        if self._is_named:
            show_line(f"{self._name}: {self._page.summary}, {show_size(len(data))}")


class _Json:
    """One JSON document; nothing is left out of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._topics: list[dict[str, object]] = []

    def add(self, report: TopicReport) -> None:
        self._topics.append(
            {
                "topic": report.name,
                "topic_id": report.topic_id,
                "partitions": [_partition(one) for one in report.partitions],
            }
        )

    def finish(self, errors: list[TieredFSError]) -> None:
        show_json(
            {
                "url": self._url,
                "topics": self._topics,
                "errors": [str(error) for error in errors],
            }
        )


def _partition(report: PartitionReport) -> dict[str, object]:
    return {
        "partition": report.partition.partition,
        "start_offset": report.start,
        "end_offset": report.end,
        "first_timestamp": report.first_timestamp,
        "max_timestamp": report.max_timestamp,
        "segments": len(report.segments),
        "unreadable_segments": report.unreadable,
        "bytes": report.size,
        "stored_bytes": report.stored_size,
        "emptied_offsets": report.emptied,
        "gaps": _ranges(report.gaps),
        "overlaps": [
            {
                "start_offset": one.start,
                "end_offset": one.end,
                "segments": one.copies,
                "served_by": None if one.served_by is None else str(one.served_by.id),
            }
            for one in report.overlaps
        ],
        "leader_epochs": _epochs(report.epochs),
        "segment_list": [_segment(one) for one in report.segments],
    }


def _segment(one: SegmentReport) -> dict[str, object]:
    return {
        "id": str(one.segment.id),
        "start_offset": one.start,
        "end_offset": one.end,
        "max_timestamp": one.timestamp,
        "bytes": one.segment.size,
        "stored_bytes": one.stored_size,
        "records": one.records,
        "served": _ranges(one.served),
        "leader_epochs": _epochs(one.epochs),
        "holes": _holes(one),
    }


def _holes(one: SegmentReport) -> list[dict[str, int]] | None:
    """Return where a segment has fewer records than offsets; None if not known."""
    if one.profile is None:
        return [] if one.records == one.end - one.start else None
    return [
        {"start_offset": start, "end_offset": end, "records": round(records)}
        for start, end, records in one.profile.holes(one.start, one.end)
    ]


def _ranges(found: Iterable[OffsetRange]) -> list[dict[str, int]]:
    return [{"start_offset": one.start, "end_offset": one.end} for one in found]


def _epochs(found: Iterable[EpochRange]) -> list[dict[str, int]]:
    return [
        {"epoch": one.epoch, "start_offset": one.start, "end_offset": one.end}
        for one in found
        if one.epoch != NO_EPOCH
    ]
