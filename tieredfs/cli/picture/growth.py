"""Draw when the offsets of a partition were written, below its bar."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from tieredfs.cli.picture.blocks import Block
from tieredfs.cli.picture.frame import (
    LEFT,
    LETTER,
    MIN_MARK,
    RIGHT,
    anchor,
    apart,
    hue_of,
)
from tieredfs.cli.picture.palette import Palette
from tieredfs.cli.picture.scale import Scale, Tick, offset_ticks, time_ticks
from tieredfs.cli.picture.svg import line, polyline, rectangle, write
from tieredfs.log.report.partition_report import PartitionReport

__all__ = ["GROWTH_HEIGHT", "TimeSpan", "draw_growth"]

_CAPTION, _PLOT, _AXIS = 22.0, 102.0, 34.0
_TICKS: Final = 8

GROWTH_HEIGHT: Final = _CAPTION + _PLOT + _AXIS
"""Height of the chart."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Times that the charts of a topic have in common, ms since 1970 UTC.

    Attributes:
        low: The first one.
        high: The last one, above ``low``.
    """

    low: int
    high: int

    @classmethod
    def of(cls, reports: Iterable[PartitionReport]) -> "TimeSpan | None":
        """Return the times of partitions; None if no record has one."""
        stamps: list[int] = []
        for report in reports:
            stamps += [s for s in (report.first_timestamp,) if s is not None]
            stamps += [s for one in report.segments if (s := one.timestamp) is not None]
        if not stamps:
            return None
        low, high = min(stamps), max(stamps)
        return cls(low, max(high, low + 1))


def draw_growth(
    svg: Element,
    report: PartitionReport,
    blocks: Iterable[Block],
    palette: Palette,
    times: TimeSpan,
    *,
    top: float,
) -> None:
    """Draw the offsets of each segment at the time of its newest record.

    Args:
        svg: What it is drawn in.
        report: The partition.
        blocks: Its segments.
        palette: The colours of leader epochs.
        times: What the axis of times shows.
        top: Where the chart begins.
    """
    said = "offsets of each segment, at the time of its newest record"
    write(svg, (LEFT, top + _CAPTION - 8), said, "tick")
    top, bottom = top + _CAPTION, top + _CAPTION + _PLOT
    x = Scale(times.low, times.high, LEFT, RIGHT - LEFT)
    y = Scale(report.start, report.reach, 0, bottom - top)
    for tick in offset_ticks(report.start, report.reach, 3):
        at = bottom - y.at(tick.value)
        line(svg, (LEFT, at), (RIGHT, at), "grid")
        write(svg, (LEFT - 8, at + 4), _short(tick), "tick", "end")
    line(svg, (LEFT, top), (LEFT, bottom), "axis")
    line(svg, (LEFT, bottom), (RIGHT, bottom), "axis")
    for tick in apart(time_ticks(times.low, times.high, _TICKS), x):
        at = x.at(tick.value)
        line(svg, (at, bottom), (at, bottom + 4), "axis")
        write(svg, (at, bottom + 16), tick.label, "tick", anchor(at))
        if tick.date:
            write(svg, (at, bottom + 29), tick.date, "tick", anchor(at))
    first = report.first_timestamp
    points = [] if first is None else [(x.at(first), bottom)]
    marks: list[tuple[float, float, Block]] = []
    for block in sorted(blocks, key=lambda block: block.start):
        if block.is_served and block.timestamp is not None:
            at, high = x.at(block.timestamp), bottom - y.at(block.end)
            points.append((at, high))
            marks.append((at, high, block))
    polyline(svg, points, "growth")
    for at, high, block in marks:
        height = max(MIN_MARK, bottom - y.at(block.start) - high)
        box = (at - MIN_MARK / 2, high, MIN_MARK, height)
        hue = hue_of(block.epoch, palette)
        rectangle(svg, box, f"mark {hue}")


def _short(tick: Tick) -> str:
    """Return a label that fits to the left of the axis."""
    return tick.label if len(tick.label) * LETTER < LEFT - 8 else f"{tick.value:.1e}"
