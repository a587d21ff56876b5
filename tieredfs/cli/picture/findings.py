"""What there is to say of a partition, in sentences: for people, and screen readers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from tieredfs.cli.picture.units import (
    show_count,
    show_offsets,
    show_size,
    show_span,
    size_of_log,
)
from tieredfs.epochs import NO_EPOCH
from tieredfs.log.report.partition_report import EpochRange, Overlap, PartitionReport

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
    if not report.segments and report.start == report.end:
        return ["no segment that can be read"]
    offsets = (
        f"offsets {show_offsets(report.start, report.end)}"
        if report.start < report.end
        else f"no offset, {report.start:,} will be the first"
    )
    parts = [
        offsets,
        show_span(report.first_timestamp, report.max_timestamp),
        _segments(report),
    ]
    if report.segments:
        parts.append(size_of_log(report.size))
    if report.segments and report.stored_size is not None:
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
        begun = Counter(one.start for one in report.segments)
        texts = (_overlap(one, begun) for one in report.overlaps)
        listed = _listed(texts, len(report.overlaps))
        found.append(Finding(FindingKind.OVERLAP, f"overlap: {offsets}: {listed}"))
    if report.reach > report.end:
        beyond = show_offsets(report.end, report.reach)
        text = f"beyond the end: {beyond}, of another history of the log"
        found.append(Finding(FindingKind.BEYOND, text))
    emptied = report.emptied
    if emptied is None:
        found.append(Finding(FindingKind.UNKNOWN, _unknown_holes(report)))
    elif emptied:
        served = sum(part.size for one in report.segments for part in one.served)
        share = 100 * emptied / served
        text = (
            f"holes: {show_count(emptied, 'offset')} of {served:,} "
            f"({share:.0f} %) have no record any more"
        )
        found.append(Finding(FindingKind.EMPTIED, text))
    if any(span.epoch != NO_EPOCH for span in report.epochs):
        found.append(Finding(FindingKind.EPOCHS, _epochs(report.epochs)))
    return found


def _segments(report: PartitionReport) -> str:
    """Return how many segments there are, and how many more cannot be read."""
    if not report.segments:
        return "no segment that can be read"
    text = show_count(len(report.segments), "segment")
    more = report.unreadable
    return f"{text} and {more:,} that cannot be read" if more else text


def _unknown_holes(report: PartitionReport) -> str:
    """Return why it is not known which offsets have no record."""
    serving = [one for one in report.segments if one.served]
    unknown = sum(one.records is None for one in serving)
    if unknown == len(serving):
        return (
            "holes: not known; the layout keeps no numbers of records, and logs are "
            "read only if they are on this machine and not too large"
        )
    verb = "has" if unknown == 1 else "have"
    return (
        f"holes: not known: {unknown:,} of {show_count(len(serving), 'segment')} "
        f"{verb} no known number of records"
    )


def _epochs(spans: Sequence[EpochRange]) -> str:
    """Return where leader epochs begin, of many the newest ones."""
    if len(spans) == 1:
        return f"leader epoch {spans[0].epoch}"
    shown = [
        f"{'not known' if one.epoch == NO_EPOCH else one.epoch} from {one.start:,}"
        for one in spans[-_MAX_LISTED:]
    ]
    if len(spans) > _MAX_LISTED:
        shown.insert(0, f"{len(spans) - _MAX_LISTED:,} earlier")
    return f"leader epochs: {'; '.join(shown)}"


def _overlap(one: Overlap, begun: Mapping[int, int]) -> str:
    """Return where segments overlap, and which of them serves the offsets.

    Args:
        one: The overlap.
        begun: How many segments begin at an offset.
    """
    text = f"{show_offsets(one.start, one.end)} in {one.copies} segments"
    if one.served_by is None:
        return f"{text}, served by none of them"
    start = one.served_by.start_offset
    which = "the one" if begun[start] == 1 else f"segment {one.served_by.id}"
    return f"{text}, served by {which} from {start:,}"


def _listed(texts: Iterable[str] | Sequence[str], count: int | None = None) -> str:
    """Return the first texts, and how many more there are."""
    if count is None:
        given = list(texts)
        texts, count = given, len(given)
    shown = "; ".join(islice(texts, _MAX_LISTED))
    more = count - _MAX_LISTED
    return f"{shown}; and {more:,} more" if more > 0 else shown
