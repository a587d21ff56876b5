"""Draw topics as one page of HTML that needs no network and no script."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, tostring

from tieredfs.cli.picture.chart import MAX_LANES, draw_chart, title_of
from tieredfs.cli.picture.findings import findings_of, summary_of
from tieredfs.cli.picture.growth import TimeSpan
from tieredfs.cli.picture.legend import add_legend
from tieredfs.cli.picture.palette import Palette
from tieredfs.cli.picture.segment_table import add_segment_table
from tieredfs.cli.picture.style import POLICY, STYLE
from tieredfs.cli.picture.svg import add
from tieredfs.cli.picture.tables import add_table
from tieredfs.cli.picture.units import (
    show_count,
    show_offsets,
    show_size,
    show_span,
    size_of_log,
)
from tieredfs.errors import TieredFSError
from tieredfs.log.report.partition_report import PartitionReport
from tieredfs.log.report.topic_report import TopicReport

__all__ = ["Page"]

_MAX_CHARTS: Final = 60
_MAX_FINE_CHARTS: Final = 10
"""Charts that are drawn in detail; those after them are coarser."""

_MAX_TOPICS: Final = 500
_MAX_ROWS: Final = 2000
_MAX_ERRORS: Final = 50


class _Detail(NamedTuple):
    """How detailed a chart is.

    Attributes:
        min_width: Narrower blocks are joined, in thousandths of the chart.
        rows: Rows of its table.
    """

    min_width: float
    rows: int


_FINE: Final = _Detail(min_width=3, rows=100)
_COARSE: Final = _Detail(min_width=8, rows=20)

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


class Page:
    """A page that topics are added to, one after the other.

    It is bounded: where there are more segments than can be seen, neighbours are drawn
    as one; where there are many partitions, those with gaps, overlaps or errors are
    drawn first, and the page says how many are not.
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
        self._topics = self._partitions = self._segments = 0
        self._charts = self._rows = 0

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
        said = [
            show_count(len(report.partitions), "partition"),
            show_count(sum(len(one.segments) for one in report.partitions), "segment"),
            size_of_log(report.size),
            f"id {report.topic_id}",
        ]
        add(section, "p", {"class": "soft"}, " · ".join(said))
        drawn = self._drawn(report.partitions)
        if len(report.partitions) > min(1, len(drawn)):
            self._add_partitions(section, report)
        if len(drawn) < len(report.partitions):
            text = (
                f"{len(drawn):,} of {show_count(len(report.partitions), 'partition')} "
                "drawn, those first that have gaps, overlaps or errors."
            )
            add(section, "p", text=text)
        palette = Palette(report.epochs)
        times = TimeSpan.of(report.partitions)
        for one in drawn:
            self._charts += 1
            self._add_figure(section, one, palette, times)

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
            add(self._errors, "strong", text=show_count(len(errors), "error"))
            _add_list(self._errors, [str(error) for error in errors], _MAX_ERRORS)
        text = tostring(self._root, encoding="unicode", method="html")
        return f"<!DOCTYPE html>\n{text}\n".encode()

    def _drawn(self, partitions: Sequence[PartitionReport]) -> list[PartitionReport]:
        """Return the partitions that there is room for, in order."""
        order = sorted(
            range(len(partitions)), key=lambda at: not _matters(partitions[at])
        )
        room = max(0, _MAX_CHARTS - self._charts)
        return [partitions[at] for at in sorted(order[:room])]

    def _add_partitions(self, section: Element, report: TopicReport) -> None:
        shown = report.partitions[: max(0, _MAX_ROWS - self._rows)]
        self._rows += len(shown)
        if shown:
            caption = f"The partitions of {report.name}"
            add_table(section, caption, _PARTITIONS, map(_partition_row, shown))
        more = len(report.partitions) - len(shown)
        if more:
            text = f"{show_count(more, 'more partition')}: ls lists each."
            add(section, "p", text=text)

    def _add_figure(
        self,
        section: Element,
        report: PartitionReport,
        palette: Palette,
        times: TimeSpan | None,
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
        detail = _FINE if self._charts <= _MAX_FINE_CHARTS else _COARSE
        label = f"Chart of {title_of(report)}"
        place = add(
            figure,
            "div",
            {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": label},
        )
        name = f"p{self._charts}"
        most = draw_chart(
            place, report, palette, times, name=name, min_width=detail.min_width
        )
        if most > 1:
            text = (
                "Neighbours that are too narrow to be seen are drawn as one: "
                f"a block has up to {show_count(most, 'segment')}."
            )
            add(figure, "p", {"class": "soft"}, text)
        if report.lanes > MAX_LANES:
            more = show_count(report.lanes - MAX_LANES, "more layer")
            add(figure, "p", {"class": "soft"}, f"And {more} of overlapping segments.")
        title = f"Segments of {title_of(report)} as a table"
        add_segment_table(figure, report, title, detail.rows)


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
