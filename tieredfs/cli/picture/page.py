"""Draw topics as one page of HTML that needs no network and no script."""

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, tostring

from tieredfs.cli.output.tables import show_time
from tieredfs.cli.picture.blocks import Block, blocks_of
from tieredfs.cli.picture.chart import MAX_LANES, draw_chart, title_of
from tieredfs.cli.picture.findings import findings_of, summary_of
from tieredfs.cli.picture.growth import TimeSpan
from tieredfs.cli.picture.legend import add_legend
from tieredfs.cli.picture.palette import Palette
from tieredfs.cli.picture.style import POLICY, STYLE
from tieredfs.cli.picture.svg import add
from tieredfs.cli.picture.tables import add_table
from tieredfs.cli.picture.units import show_count, show_offsets, show_size, show_span
from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import TieredFSError
from tieredfs.log.report.partition_report import PartitionReport
from tieredfs.log.report.topic_report import TopicReport

__all__ = ["Page"]

_MAX_CHARTS: Final = 200
_MAX_TOPICS: Final = 1000
_MAX_ROWS: Final = 200
_MAX_SEGMENT_ROWS: Final = 100
_MAX_ERRORS: Final = 50
_MIN_WIDTH: Final = 3.0
_MIN_WIDTH_OF_MANY: Final = 8.0
_FEW: Final = 20

_PARTITIONS: Final = (
    "partition",
    "offsets",
    "written",
    "segments",
    "log",
    "stored",
    "without a record",
    "in several segments",
    "missing",
)
_BLOCKS: Final = (
    "offsets",
    "segments",
    "records",
    "log",
    "newest record",
    "leader epoch",
    "served",
)


class Page:
    """A page that topics are added to, one after the other.

    It is bounded: where there are more segments than can be seen, neighbours are drawn
    as one, and where there are many partitions, those that have something to say are
    drawn, and the others are rows of a table, up to a limit that the page names.
    """

    def __init__(self, url: str) -> None:
        """Begin a page without topics.

        Args:
            url: Where they are.
        """
        self._root = Element("html", {"lang": "en"})
        head = add(self._root, "head")
        add(head, "meta", {"charset": "utf-8"})
        csp = {"http-equiv": "Content-Security-Policy", "content": POLICY}
        add(head, "meta", csp)
        viewport = {"name": "viewport", "content": "width=device-width"}
        add(head, "meta", viewport)
        add(head, "title", text=f"tieredfs report: {url}")
        style = add(head, "style")
        style.text = STYLE
        self._main = add(add(self._root, "body"), "main")
        add(self._main, "h1", text=url)
        self._intro = add(self._main, "p", {"class": "soft"})
        self._errors = add(self._main, "div")
        add_legend(self._main)
        self._contents = add(self._main, "nav", {"aria-label": "Topics"})
        self._topics = self._partitions = self._segments = self._charts = 0

    @property
    def summary(self) -> str:
        """What the page is about, in numbers."""
        return ", ".join(
            (
                show_count(self._topics, "topic"),
                show_count(self._partitions, "partition"),
                show_count(self._segments, "segment"),
            )
        )

    def add(self, report: TopicReport) -> None:
        """Add a topic."""
        self._topics += 1
        self._partitions += len(report.partitions)
        self._segments += sum(len(one.segments) for one in report.partitions)
        if self._topics > _MAX_TOPICS:
            return
        anchor = f"topic-{self._topics}"
        add(self._contents, "a", {"href": f"#{anchor}"}, report.name).tail = " "
        section = add(self._main, "section", {"aria-labelledby": anchor})
        add(section, "h2", {"id": anchor}, report.name)
        segments = sum(len(one.segments) for one in report.partitions)
        said = [
            show_count(len(report.partitions), "partition"),
            show_count(segments, "segment"),
            f"{show_size(report.size)} of log",
            f"id {report.topic_id}",
        ]
        add(section, "p", {"class": "soft"}, " · ".join(said))
        if len(report.partitions) > 1:
            self._add_partitions(section, report)
        palette = Palette(report.epochs)
        times = TimeSpan.of(report.partitions)
        for one in self._drawn(section, report.partitions):
            self._charts += 1
            self._add_figure(section, one, palette, times, len(report.partitions))

    def finish(self, errors: Sequence[TieredFSError]) -> bytes:
        """Return the page.

        Args:
            errors: Why some of it is missing.
        """
        self._intro.text = f"A report of tieredfs: {self.summary}."
        if self._topics > _MAX_TOPICS:
            self._intro.text += f" The first {_MAX_TOPICS:,} topics are shown."
        if self._topics <= 1:
            self._main.remove(self._contents)
        if errors:
            self._errors.set("class", "errors")
            self._errors.set("role", "alert")
            add(self._errors, "strong", text=show_count(len(errors), "error"))
            _add_list(self._errors, [str(error) for error in errors], _MAX_ERRORS)
        text = tostring(self._root, encoding="unicode", method="html")
        return f"<!DOCTYPE html>\n{text}\n".encode()

    def _drawn(
        self, section: Element, partitions: Sequence[PartitionReport]
    ) -> list[PartitionReport]:
        """Return the partitions that there is room for, in order; say which are not."""
        room = max(0, _MAX_CHARTS - self._charts)
        if len(partitions) <= room:
            return list(partitions)
        order = sorted(
            range(len(partitions)), key=lambda at: not _matters(partitions[at])
        )
        text = (
            f"{room:,} of {show_count(len(partitions), 'partition')} are drawn, those "
            "first that have gaps, overlaps or errors."
        )
        add(section, "p", text=text)
        return [partitions[at] for at in sorted(order[:room])]

    def _add_partitions(self, section: Element, report: TopicReport) -> None:
        rows = [_partition_row(one) for one in report.partitions[:_MAX_ROWS]]
        caption = f"The partitions of {report.name}"
        add_table(section, caption, _PARTITIONS, rows)
        more = len(report.partitions) - _MAX_ROWS
        if more > 0:
            add(section, "p", text=f"and {show_count(more, 'more partition')}")

    def _add_figure(
        self,
        section: Element,
        report: PartitionReport,
        palette: Palette,
        times: TimeSpan | None,
        count: int,
    ) -> None:
        figure = add(section, "figure")
        caption = add(figure, "figcaption")
        add(caption, "h3", text=title_of(report))
        add(caption, "p", text=summary_of(report))
        findings = findings_of(report)
        if findings:
            listed = add(caption, "ul", {"class": "findings"})
            for finding in findings:
                add(listed, "li", {"class": finding.kind}, finding.text)
        if report.start >= report.reach:
            return
        width = _MIN_WIDTH if count <= _FEW else _MIN_WIDTH_OF_MANY
        label = f"Chart of {title_of(report)}"
        place = add(
            figure,
            "div",
            {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": label},
        )
        name = f"p{self._charts}"
        draw_chart(place, report, palette, times, name=name, min_width=width)
        if report.lanes > MAX_LANES:
            more = show_count(report.lanes - MAX_LANES, "more layer")
            add(figure, "p", {"class": "soft"}, f"and {more} of overlapping segments")
        _add_segments(figure, report)


def _add_segments(figure: Element, report: PartitionReport) -> None:
    """Add the figures that the chart is drawn from."""
    offsets = report.reach - report.start
    blocks = blocks_of(report, 0, report.lanes)
    if len(blocks) > _MAX_SEGMENT_ROWS:
        blocks = blocks_of(report, 2 * offsets / _MAX_SEGMENT_ROWS, 1)
    details = add(figure, "details")
    title = f"Segments of {title_of(report)} as a table"
    add(details, "summary", text=title)
    rows = [_block_row(block) for block in blocks[:_MAX_SEGMENT_ROWS]]
    add_table(details, title, _BLOCKS, rows)
    if any(block.segments > 1 for block in blocks):
        text = "Neighbouring segments share a row; ls --segments lists each."
        add(details, "p", {"class": "soft"}, text)


def _block_row(block: Block) -> list[str]:
    return [
        show_offsets(block.start, block.end),
        f"{block.segments:,}",
        "-" if block.records is None else f"{block.records:,}",
        show_size(block.size),
        show_time(block.timestamp),
        "-" if block.epoch == NO_EPOCH else str(block.epoch),
        "yes" if block.is_served else "no",
    ]


def _partition_row(report: PartitionReport) -> list[str]:
    is_empty = report.start >= report.end
    return [
        f"{report.partition.partition}",
        "-" if is_empty else show_offsets(report.start, report.end),
        show_span(report.first_timestamp, report.max_timestamp),
        f"{len(report.segments):,}",
        show_size(report.size),
        show_size(report.stored_size),
        "-" if report.emptied is None else f"{report.emptied:,}",
        f"{sum(one.end - one.start for one in report.overlaps):,}",
        f"{sum(gap.size for gap in report.gaps):,}",
    ]


def _matters(report: PartitionReport) -> bool:
    """Return whether a partition is not as a partition should be."""
    return bool(report.gaps or report.overlaps or report.errors)


def _add_list(parent: Element, texts: Sequence[str], most: int) -> None:
    listed = add(parent, "ul")
    for text in texts[:most]:
        add(listed, "li", text=text)
    if len(texts) > most:
        add(listed, "li", text=f"and {len(texts) - most:,} more")
