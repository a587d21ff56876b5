"""Where the parts of a chart are, and what they have in common."""

from collections.abc import Iterator, Sequence
from typing import Final

from tieredfs.cli.output.tables import show_time
from tieredfs.cli.picture.blocks import Block
from tieredfs.cli.picture.palette import Palette
from tieredfs.cli.picture.scale import Scale, Tick
from tieredfs.cli.picture.units import show_count, show_offsets, show_size
from tieredfs.epochs import NO_EPOCH

__all__ = [
    "LEFT",
    "LETTER",
    "MIN_MARK",
    "RIGHT",
    "WIDTH",
    "anchor",
    "apart",
    "block_text",
    "hue_of",
]

WIDTH: Final = 1000.0
"""Of a chart, in units of its own."""

LEFT: Final = 92.0
"""Where the axes begin."""

RIGHT: Final = 986.0
"""Where the axes end."""

LETTER: Final = 6.4
"""Width of a letter, about."""

MIN_MARK: Final = 3.0
"""Width of a mark that is wide enough to be seen."""


def anchor(x: float) -> str:
    """Return which end of a label is at ``x``, so that it stays inside the chart."""
    if x < LEFT + 2 * LETTER:
        return "start"
    return "end" if x > RIGHT - 5 * LETTER else "middle"


def apart(ticks: Sequence[Tick], scale: Scale) -> Iterator[Tick]:
    """Yield the ticks whose labels do not touch the one before."""
    end = float("-inf")
    for tick in ticks:
        half = max(len(tick.label), len(tick.date)) * LETTER / 2
        at = scale.at(tick.value)
        if at - half > end:
            yield tick
            end = at + half + LETTER


def hue_of(epoch: int, palette: Palette) -> str:
    """Return the class that has the colour of a leader epoch."""
    number = palette.number(epoch)
    return "unknown" if number is None else f"e{number}"


def block_text(block: Block) -> str:
    """Return what is shown of a block when it is pointed at."""
    what = show_count(block.segments, "segment")
    if block.segments == 1:
        what = f"segment from {block.first.start:,}"
    parts = [f"{what}: {show_offsets(block.start, block.end)}"]
    if block.records is not None:
        parts.append(show_count(block.records, "record"))
    parts.append(show_size(block.size))
    if block.timestamp is not None:
        parts.append(f"newest {show_time(block.timestamp)}")
    if block.epoch != NO_EPOCH:
        parts.append(f"leader epoch {block.epoch}")
    if not block.is_served:
        parts.append("not served from here")
    return " · ".join(parts)
