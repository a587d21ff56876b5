"""The figures that a chart is drawn from, for those who would rather read them."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from tieredfs.cli.output.tables import show_time
from tieredfs.cli.picture.svg import add
from tieredfs.cli.picture.tables import add_table
from tieredfs.cli.picture.units import show_offsets, show_size
from tieredfs.epochs import NO_EPOCH
from tieredfs.log.report.partition_report import PartitionReport, SegmentReport
from tieredfs.log.report.sums import known_sum

__all__ = ["add_segment_table"]

_HEADINGS = (
    "offsets",
    "segments",
    "served from here",
    "records",
    "log",
    "newest record",
    "leader epochs",
)


def add_segment_table(
    parent: Element, report: PartitionReport, title: str, max_rows: int
) -> None:
    """Append a table of the segments, closed; where there are many, a row has several.

    Args:
        parent: What it is appended to.
        report: The partition.
        title: What opens it.
        max_rows: Number of rows.
    """
    details = add(parent, "details")
    add(details, "summary", text=title)
    size = max(1, -(-len(report.segments) // max_rows))
    rows = [_row(several) for several in _chunks(report.segments, size)]
    add_table(details, title, _HEADINGS, rows)
    if size > 1:
        text = f"A row has {size:,} segments; ls --segments lists each."
        add(details, "p", {"class": "soft"}, text)


def _chunks(
    segments: Sequence[SegmentReport], size: int
) -> Iterator[Sequence[SegmentReport]]:
    for at in range(0, len(segments), size):
        yield segments[at : at + size]


def _row(segments: Sequence[SegmentReport]) -> list[str]:
    start, end = segments[0].start, max(one.end for one in segments)
    served = sum(part.size for one in segments for part in one.served)
    offsets = sum(one.end - one.start for one in segments)
    records = known_sum(one.records for one in segments)
    stamps = [one.timestamp for one in segments if one.timestamp is not None]
    epochs = {span.epoch for one in segments for span in one.epochs} - {NO_EPOCH}
    return [
        show_offsets(start, end) if start < end else f"none, from {start:,}",
        f"{len(segments):,}",
        "all" if served == offsets else f"{served:,} of {offsets:,}",
        "-" if records is None else f"{records:,}",
        show_size(known_sum(one.segment.size for one in segments)),
        show_time(max(stamps, default=None)),
        _between(epochs),
    ]


def _between(epochs: set[int]) -> str:
    if not epochs:
        return "-"
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low} to {high}"
