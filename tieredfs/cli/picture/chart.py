"""Draw a partition as SVG: its bar of offsets, and when they were written."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from tieredfs.cli.picture.blocks import Block, blocks_of, joined
from tieredfs.cli.picture.findings import findings_of, summary_of
from tieredfs.cli.picture.frame import (
    LEFT,
    LETTER,
    MIN_MARK,
    RIGHT,
    WIDTH,
    anchor,
    apart,
    block_text,
    hue_of,
)
from tieredfs.cli.picture.growth import GROWTH_HEIGHT, TimeSpan, draw_growth
from tieredfs.cli.picture.palette import Palette
from tieredfs.cli.picture.scale import Scale, offset_ticks
from tieredfs.cli.picture.svg import add, line, path, rectangle, write
from tieredfs.cli.picture.units import show_count, show_offsets
from tieredfs.epochs import NO_EPOCH
from tieredfs.log.report.partition_report import EpochRange, PartitionReport

__all__ = ["MAX_LANES", "draw_chart", "title_of"]

MAX_LANES: Final = 8
"""Layers of overlapping segments that are drawn."""

_TOP, _LANE, _LANE_GAP = 20.0, 30.0, 4.0
_EPOCH, _AXIS = 16.0, 26.0
_THIN: Final = 5.0
_TICKS: Final = 8


def title_of(report: PartitionReport) -> str:
    """Return the name of a partition."""
    return f"{report.partition.topic}-{report.partition.partition}"


def draw_chart(
    parent: Element,
    report: PartitionReport,
    palette: Palette,
    times: TimeSpan | None,
    *,
    name: str,
    min_width: float,
) -> int:
    """Append the chart of a partition; return how many segments a block has at most.

    Args:
        parent: What it is appended to.
        report: The partition, which has offsets.
        palette: The colours of leader epochs.
        times: What the axis of times shows; None for no such axis.
        name: Begins the ids of its elements; unique in the page.
        min_width: Blocks that are narrower, in thousandths of the chart, are joined.
    """
    scale = Scale(report.start, report.reach, LEFT, RIGHT - LEFT)
    chart = _Chart(report, palette, scale, min_width)
    height = chart.bottom + (GROWTH_HEIGHT if times is not None else 0)
    svg = add(
        parent,
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH:.0f} {height:.0f}",
            "role": "img",
            "aria-labelledby": f"{name}-title",
            "aria-describedby": f"{name}-desc",
        },
    )
    add(svg, "title", {"id": f"{name}-title"}, title_of(report))
    said = [summary_of(report), *(finding.text for finding in findings_of(report))]
    add(svg, "desc", {"id": f"{name}-desc"}, ". ".join(said))
    chart.draw_bar(svg)
    if times is not None:
        draw_growth(svg, report, chart.blocks, palette, times, top=chart.bottom)
    return max((block.segments for block in chart.blocks), default=0)


class _Chart:
    """One partition: what is drawn where."""

    def __init__(
        self,
        report: PartitionReport,
        palette: Palette,
        scale: Scale,
        min_width: float,
    ) -> None:
        self._report = report
        self._palette = palette
        self._scale = scale
        self._min_width = min_width
        self._min_offsets = scale.per_unit(min_width)
        self.blocks = blocks_of(report, self._min_offsets, MAX_LANES)
        lanes = min(MAX_LANES, max(1, report.lanes))
        self._lanes_end = _TOP + lanes * (_LANE + _LANE_GAP) - _LANE_GAP
        self._axis_top = self._lanes_end + 6 + (_EPOCH + 2 if self._has_epochs else 0)
        self.bottom = self._axis_top + _AXIS

    @property
    def _has_epochs(self) -> bool:
        return any(one.epoch != NO_EPOCH for one in self._report.epochs)

    def draw_bar(self, svg: Element) -> None:
        """Draw the lanes of segments, the leader epochs and the axis of offsets."""
        label = LEFT - 8
        write(svg, (label, _TOP + _LANE / 2 + 4), "segments", "label", "end")
        self._draw_overlaps(svg)
        for block in self.blocks:
            self._draw_block(svg, block)
        self._draw_gaps(svg)
        if self._has_epochs:
            self._draw_epochs(svg)
        top = self._axis_top
        write(svg, (label, top + 16), "offset", "label", "end")
        line(svg, (LEFT, top), (RIGHT, top), "axis")
        last = max(self._report.start, self._report.reach - 1)
        for tick in apart(offset_ticks(self._report.start, last, _TICKS), self._scale):
            x = self._scale.at(tick.value)
            line(svg, (x, top), (x, top + 4), "axis")
            write(svg, (x, top + 16), tick.label, "tick", anchor(x))

    def _draw_overlaps(self, svg: Element) -> None:
        found = [(one.start, one.end) for one in self._report.overlaps]
        for one in joined(found, self._min_offsets):
            left, width = self._extent(one.start, one.end)
            height = self._lanes_end - _TOP + 8 if one.is_dense else _THIN
            what = "overlap" if one.ranges == 1 else show_count(one.ranges, "overlap")
            title = f"{what}: {show_offsets(one.start, one.end)}"
            rectangle(svg, (left, _TOP - 4, width, height), "overlap", title)
            if width > len(title) * LETTER:
                write(svg, (left + width / 2, _TOP - 8), title, "note", "middle")

    def _draw_block(self, svg: Element, block: Block) -> None:
        left = self._scale.at(block.start)
        width = max(1.0, self._scale.at(block.end) - left)
        top = _TOP + block.lane * (_LANE + _LANE_GAP)
        hue = hue_of(block.epoch, self._palette)
        state = "served" if block.is_served else "unserved"
        if block.is_served and block.kept_within(block.start, block.end) is None:
            state += " uncounted"
        group = add(svg, "g", {"class": f"block {hue} {state}"})
        add(group, "title", text=block_text(block))
        rectangle(group, (left, top, width, _LANE), "hull")
        path(group, _profile(block, self._scale, top, width), "fill")
        if not block.is_served:
            rectangle(group, (left, top, width, _LANE), "hatch")

    def _draw_gaps(self, svg: Element) -> None:
        found = [(gap.start, gap.end) for gap in self._report.gaps]
        for one in joined(found, self._min_offsets):
            left, width = self._extent(one.start, one.end)
            what = "missing" if one.ranges == 1 else show_count(one.ranges, "gap")
            title = f"{what}: {show_offsets(one.start, one.end)}"
            # Gaps that are few among what is there do not hide it.
            height = _LANE if one.is_dense else _THIN
            rectangle(svg, (left, _TOP, width, height), "gap", title)
            if not one.is_dense:
                continue
            text = title if width > len(title) * LETTER else what
            if width > len(text) * LETTER:
                place = (left + width / 2, _TOP + _LANE / 2 + 4)
                write(svg, place, text, "missing", "middle")

    def _draw_epochs(self, svg: Element) -> None:
        top = self._lanes_end + 6
        write(svg, (LEFT - 8, top + 12), "epoch", "label", "end")
        for span, count in _joined_epochs(self._report.epochs, self._min_offsets):
            left, width = self._extent(span.start, span.end)
            hue = "unknown" if count > 1 else hue_of(span.epoch, self._palette)
            known = "not known" if span.epoch == NO_EPOCH else str(span.epoch)
            what = f"leader epoch {known}" if count == 1 else f"{count:,} leader epochs"
            title = f"{what}: {show_offsets(span.start, span.end)}"
            rectangle(svg, (left, top, width, _EPOCH), f"epoch {hue}", title)
            label = str(span.epoch) if count == 1 and span.epoch != NO_EPOCH else ""
            if label and width > (len(label) + 1) * LETTER:
                place = (left + width / 2, top + 12)
                write(svg, place, label, "number", "middle")

    def _extent(self, start: int, end: int) -> tuple[float, float]:
        """Return the left edge and the width of a mark, which is wide enough to see."""
        left = self._scale.at(start)
        width = max(MIN_MARK, self._scale.at(end) - left)
        return min(left, RIGHT - width), width


def _profile(
    block: Block, scale: Scale, top: float, width: float
) -> list[tuple[float, float]]:
    """Return the outline of a block's records, as high as their share of offsets.

    Where that is not known, it is as high as if all had one, and has another shade.
    """
    left, bottom = scale.at(block.start), top + _LANE
    columns = max(1, round(width / 2)) if block.segments == 1 else 1
    offsets = (block.end - block.start) / columns
    points = [(left, bottom)]
    level = bottom
    for column in range(columns):
        low = block.start + column * offsets
        kept = block.kept_within(low, low + offsets)
        reached = bottom - _LANE * (1 if kept is None else kept)
        if abs(reached - level) >= 0.05:  # noqa: PLR2004 - half of what is written
            x = left + width * column / columns
            points += [(x, level), (x, reached)]
            level = reached
    points += [(left + width, level), (left + width, bottom)]
    return points


def _joined_epochs(
    spans: Sequence[EpochRange], min_offsets: float
) -> Iterator[tuple[EpochRange, int]]:
    """Yield the epochs, narrow neighbours as one, and of how many each is made."""
    last: tuple[EpochRange, int] | None = None
    for span in spans:
        if last is not None:
            before, count = last
            is_narrow = before.end - before.start < min_offsets
            if is_narrow and span.end - span.start < min_offsets:
                last = before._replace(end=span.end), count + 1
                continue
            yield last
        last = span, 1
    if last is not None:
        yield last
