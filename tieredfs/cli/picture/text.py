"""Draw a topic with characters, for a terminal or a pipe."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from math import ceil
from typing import Final

from rich.text import Text

from tieredfs.cli.output.escapes import escape
from tieredfs.cli.picture.blocks import Block, blocks_of
from tieredfs.cli.picture.findings import FindingKind, figures_of, findings_of
from tieredfs.cli.picture.fold import fold
from tieredfs.cli.picture.palette import COLOURS, Palette
from tieredfs.cli.picture.scale import Scale, offset_ticks
from tieredfs.cli.picture.units import show_count, show_seconds, size_of_log
from tieredfs.log.report.partition_report import PartitionReport
from tieredfs.log.report.topic_report import TopicReport

__all__ = ["ASCII", "BLOCKS", "Symbols", "TextPicture"]

_MAX_LANES: Final = 4
_INDENT: Final = 2
_HALF: Final = 0.5
_TICK_WIDTH: Final = 14
_FINDING_STYLES: Final = {
    FindingKind.MISSING: "bold red",
    FindingKind.OVERLAP: "bold",
    FindingKind.BEYOND: "bold",
}


@dataclass(frozen=True, slots=True)
class Symbols:
    """The characters of a picture.

    Attributes:
        shares: For offsets of which less or more have a record: none, some, all.
        unknown: For offsets of which it is not known how many have a record.
        unserved: Offsets of a segment that readers get from another one.
        missing: Offsets that nothing serves.
        start: Where a segment begins.
        tick: Where an offset is that has a label.
        dot: Between two figures.
    """

    shares: str
    unknown: str
    unserved: str
    missing: str
    start: str
    tick: str
    dot: str

    @property
    def characters(self) -> str:
        """All of them."""
        return "".join(astuple(self))


BLOCKS: Final = Symbols("·▁▂▃▄▅▆▇█", "▒", "░", "×", "╵", "└", " · ")
ASCII: Final = Symbols(".-=#", "?", "o", "x", "^", "|", ", ")


@dataclass(slots=True)
class _Cell:
    """One column of a lane: what most of its offsets are in."""

    block: Block
    covered: float = 0.0
    kept: float = 0.0
    is_known: bool = True
    widest: float = field(default=0.0)


class TextPicture:
    """Draws topics in lines of a width, in one set of characters."""

    def __init__(
        self, width: int, symbols: Symbols, colours: Sequence[str] = COLOURS
    ) -> None:
        """Draw nothing yet.

        Args:
            width: Columns of a line.
            symbols: The characters of bars.
            colours: The colours of leader epochs, as many as ``COLOURS``.
        """
        self._width = max(_INDENT + 1, width)
        self._length = self._width - _INDENT
        self._symbols = symbols
        self._colours = colours

    def draw(self, report: TopicReport) -> Iterator[Text]:
        """Yield the lines of a topic."""
        palette = Palette(report.epochs)
        segments = sum(len(one.segments) for one in report.partitions)
        figures = (
            show_count(len(report.partitions), "partition"),
            show_count(segments, "segment"),
            size_of_log(report.size),
        )
        yield from self._titled(report.name, "bold underline", figures)
        for one in report.partitions:
            yield Text()
            yield from self._partition(one, palette)

    def legend(self) -> Iterator[Text]:
        """Yield what the characters mean."""
        symbols = self._symbols
        some = symbols.shares[len(symbols.shares) // 2]
        text = Text(
            f"{symbols.shares[-1]} every offset has a record   "
            f"{some} {symbols.shares[0]} some have, none has   "
            f"{symbols.unknown} not known   "
            f"{symbols.unserved} another segment serves them   "
            f"{symbols.missing} missing   {symbols.start} a segment begins",
            style="dim",
        )
        yield from fold(text, self._width, "   ")

    def _partition(self, report: PartitionReport, palette: Palette) -> Iterator[Text]:
        name = f"{report.partition.topic}-{report.partition.partition}"
        yield from self._titled(name, "bold", figures_of(report))
        if report.start < report.reach:
            yield from self._bars(report, palette)
        for finding in findings_of(report):
            style = _FINDING_STYLES.get(finding.kind, "")
            text = Text(finding.text, style=style)
            yield from fold(text, self._width, indent=_INDENT)
        if report.errors:
            count = show_count(len(report.errors), "error")
            text = Text(f"{count}: see below", style="bold red")
            yield from fold(text, self._width, indent=_INDENT)

    def _titled(self, name: str, style: str, figures: Sequence[str]) -> Iterator[Text]:
        """Yield the name of a topic or a partition, and its figures."""
        said = f"  {self._symbols.dot.join(figures)}"
        text = Text.assemble((escape(name), style), said)
        yield from fold(text, self._width, self._symbols.dot)

    def _bars(self, report: PartitionReport, palette: Palette) -> Iterator[Text]:
        scale = Scale(report.start, report.reach, 0, self._length)
        missing = self._gap_columns(report, scale)
        for row, lane in enumerate(self._lanes(report, scale)):
            line = Text(" " * _INDENT)
            for at, cell in enumerate(lane):
                if row == 0 and missing.get(at, 0) >= _HALF:
                    line.append(self._symbols.missing, "bold red")
                elif cell is None:
                    line.append(" ")
                else:
                    line.append(*self._drawn(cell, palette))
            line.rstrip()
            yield line
        if report.lanes > _MAX_LANES:
            more = show_count(report.lanes - _MAX_LANES, "more layer")
            text = Text(f"and {more} of overlapping segments")
            yield from fold(text, self._width, indent=_INDENT)
        yield from self._starts(report, scale, missing)
        yield from self._axis(report, scale)

    def _lanes(
        self, report: PartitionReport, scale: Scale
    ) -> Sequence[Sequence[_Cell | None]]:
        """Return the columns of each lane that is shown."""
        per_column = scale.per_unit(1)
        lanes: list[list[_Cell | None]] = [
            [None] * self._length for _ in range(max(1, min(report.lanes, _MAX_LANES)))
        ]
        for block in blocks_of(report, per_column, _MAX_LANES):
            lane = lanes[block.lane]
            first = int(scale.at(block.start))
            for at in range(first, min(self._length, ceil(scale.at(block.end)))):
                low = max(block.start, report.start + at * per_column)
                high = min(block.end, report.start + (at + 1) * per_column)
                if low >= high:
                    continue
                cell = lane[at] = lane[at] or _Cell(block)
                cell.covered += high - low
                kept = block.kept_within(low, high)
                cell.is_known &= kept is not None
                cell.kept += (high - low) * (kept or 0)
                if high - low > cell.widest:
                    cell.widest, cell.block = high - low, block
        return lanes

    def _drawn(self, cell: _Cell, palette: Palette) -> tuple[str, str]:
        """Return the character of a column, and its style."""
        number = palette.number(cell.block.epoch)
        style = "" if number is None else self._colours[number]
        if not cell.block.is_served:
            return self._symbols.unserved, style
        if not cell.is_known:
            return self._symbols.unknown, style
        shares = self._symbols.shares
        # Only what has no record is shown as empty, and only what has all as full.
        share = cell.kept / cell.covered
        level = ceil(round(share * (len(shares) - 1), 6))
        if level == len(shares) - 1 and share < 1 - 1e-6:
            level -= 1
        return shares[max(0, level)], style

    def _gap_columns(
        self, report: PartitionReport, scale: Scale
    ) -> Mapping[int, float]:
        """Return the columns with missing offsets, and the share of these in each."""
        per_column = scale.per_unit(1)
        shares: dict[int, float] = defaultdict(float)
        for gap in report.gaps:
            first = min(int(scale.at(gap.start)), self._length - 1)
            past = min(self._length, ceil(scale.at(gap.end)))
            for at in range(first, max(first + 1, past)):
                low = report.start + at * per_column
                inside = min(gap.end, low + per_column) - max(gap.start, low)
                shares[at] += inside / per_column
        return shares

    def _starts(
        self, report: PartitionReport, scale: Scale, missing: Container[int]
    ) -> Iterator[Text]:
        """Yield marks under columns where segments begin or offsets are missing."""
        begun = Counter(
            min(int(scale.at(one.start)), self._length - 1) for one in report.segments
        )
        line = Text(" " * _INDENT)
        for at in range(self._length):
            if at in missing:
                line.append(self._symbols.missing, "bold red")
            else:
                line.append(self._symbols.start if at in begun else " ", "dim")
        line.rstrip()
        yield line
        most = max(begun.values(), default=0)
        if most > 1:
            several = f"up to {show_count(most, 'segment')} begin in a column"
            yield from fold(Text(several, "dim"), self._width, indent=_INDENT)

    def _axis(self, report: PartitionReport, scale: Scale) -> Iterator[Text]:
        """Yield labels of offsets, and by when these were written."""
        count = self._length // _TICK_WIDTH
        offsets = times = " " * _INDENT
        for tick in offset_ticks(report.start, report.reach - 1, count):
            at = _INDENT + int(scale.at(tick.value))
            offsets = self._labelled(offsets, at, tick.label)
            stamp = _timestamp_at(report, tick.value)
            if stamp is not None:
                times = self._labelled(times, at, f"by {show_seconds(stamp)}")
        for line in (offsets.rstrip(), times.rstrip()):
            if line:
                yield Text(line, style="dim")

    def _labelled(self, line: str, at: int, label: str) -> str:
        """Return a line with one more label, if there is room for it."""
        label = f"{self._symbols.tick}{label} "
        if at < len(line) or at + len(label) > self._length + _INDENT + 1:
            return line
        return f"{line:<{at}}{label}"


def _timestamp_at(report: PartitionReport, offset: int) -> int | None:
    """Return the largest timestamp of the segment that serves an offset."""
    for one in report.segments:
        if any(part.start <= offset < part.end for part in one.served):
            return one.timestamp
    return None
