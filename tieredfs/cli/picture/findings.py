"""What there is to say of a partition, in sentences: for people, and screen readers."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from tieredfs.cli.picture.units import show_count, show_offsets, show_size, show_span
from tieredfs.epochs import NO_EPOCH
from tieredfs.log.report.partition_report import Overlap, PartitionReport

__all__ = ["Finding", "FindingKind", "figures_of", "findings_of", "summary_of"]

_MAX_LISTED: Final = 3


class FindingKind(StrEnum):
    """What a finding is about."""

    MISSING = "missing"
    OVERLAP = "overlap"
    EMPTIED = "emptied"
    UNKNOWN = "unknown"
    BEYOND = "beyond"
    EPOCHS = "epochs"


class Finding(NamedTuple):
    """One thing to say of a partition.

    Attributes:
        kind: What it is about.
        text: The sentence.
    """

    kind: FindingKind
    text: str


def summary_of(report: PartitionReport) -> str:
    """Return offsets, times, segments and sizes of a partition in one line."""
    return " · ".join(figures_of(report))


def figures_of(report: PartitionReport) -> list[str]:
    """Return offsets, times, segments and sizes of a partition."""
    if not report.segments:
        return ["no segment that can be read"]
    offsets = (
        f"offsets {show_offsets(report.start, report.end)}"
        if report.start < report.end
        else f"no offset, {report.start:,} will be the first"
    )
    parts = [
        offsets,
        show_span(report.first_timestamp, report.max_timestamp),
        show_count(len(report.segments), "segment"),
        f"{show_size(report.size)} of log",
    ]
    if report.stored_size is not None:
        parts.append(f"{show_size(report.stored_size)} stored")
    return [part for part in parts if part != "-"]


def findings_of(report: PartitionReport) -> list[Finding]:
    """Return what a picture of a partition shows; long lists are cut, and say so."""
    found: list[Finding] = []
    if report.gaps:
        offsets = show_count(sum(gap.size for gap in report.gaps), "offset")
        listed = _listed([show_offsets(*gap) for gap in report.gaps])
        found.append(Finding(FindingKind.MISSING, f"missing: {offsets}: {listed}"))
    if report.overlaps:
        offsets = show_count(sum(o.end - o.start for o in report.overlaps), "offset")
        listed = _listed(map(_overlap, report.overlaps), len(report.overlaps))
        found.append(Finding(FindingKind.OVERLAP, f"overlap: {offsets}: {listed}"))
    if report.reach > report.end:
        beyond = show_offsets(report.end, report.reach)
        text = f"beyond the end: {beyond}, of another history of the log"
        found.append(Finding(FindingKind.BEYOND, text))
    emptied = report.emptied
    if emptied is None:
        text = (
            "holes: not known; the layout keeps no numbers of records, and logs are "
            "read only if they are on this machine and not too large"
        )
        found.append(Finding(FindingKind.UNKNOWN, text))
    elif emptied:
        served = sum(part.size for one in report.segments for part in one.served)
        share = 100 * emptied / served
        text = (
            f"holes: {show_count(emptied, 'offset')} of {served:,} "
            f"({share:.0f} %) have no record any more"
        )
        found.append(Finding(FindingKind.EMPTIED, text))
    known = [span for span in report.epochs if span.epoch != NO_EPOCH]
    if known:
        text = f"leader epoch {known[0].epoch}"
        if len(known) > 1:
            listed = _listed([f"{span.epoch} from {span.start:,}" for span in known])
            text = f"leader epochs: {listed}"
        found.append(Finding(FindingKind.EPOCHS, text))
    return found


def _overlap(one: Overlap) -> str:
    text = f"{show_offsets(one.start, one.end)} in {one.copies} segments"
    if one.served_by is None:
        return f"{text}, served by none of them"
    return f"{text}, served by the one from {one.served_by.start_offset:,}"


def _listed(texts: Iterable[str] | Sequence[str], count: int | None = None) -> str:
    """Return the first texts, and how many more there are."""
    if count is None:
        given = list(texts)
        texts, count = given, len(given)
    shown = "; ".join(islice(texts, _MAX_LISTED))
    more = count - _MAX_LISTED
    return f"{shown}; and {more:,} more" if more > 0 else shown
