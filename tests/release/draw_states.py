"""Draw the states of segments and of deleted partitions, from the table in the code.

    python tests/release/draw_states.py

It writes the picture that the page on the manager shows. The states of each kind are a
column, in their order. A transition to the next one is a straight arrow; one that skips
some is drawn beside them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tieredfs.states import TRANSITIONS, PartitionDeleteState, SegmentState, State

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "explanation" / "states.svg"

_MARGIN: Final = 16
_WIDTH: Final = 250
_BETWEEN: Final = 70
_BOX: Final = 34
_STEP: Final = 72
_RADIUS: Final = 5
_STYLE: Final = (
    "text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f;"
    "text-anchor:middle}"
    ".page{fill:#fff}.state{fill:#f2f5f9;stroke:#c3ccd6}.start{fill:#57606a}"
    ".next{stroke:#57606a;stroke-width:1.5;fill:none;marker-end:url(#tip)}"
)


def draw() -> str:
    """Return the picture."""
    kinds: list[list[State]] = [list(SegmentState), list(PartitionDeleteState)]
    rows = max(map(len, kinds))
    width = 2 * _MARGIN + len(kinds) * (_WIDTH + _BETWEEN) - _BETWEEN // 2
    height = 2 * _MARGIN + rows * _STEP
    body = [
        line
        for number, states in enumerate(kinds)
        for line in _column(states, _MARGIN + number * (_WIDTH + _BETWEEN))
    ]
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
                f'height="{height}" viewBox="0 0 {width} {height}" role="img">'
            ),
            "<title>The states of a segment, and of a partition's deletion</title>",
            f"<style>{_STYLE}</style>",
            (
                '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" '
                'refY="4" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/>'
                "</marker></defs>"
            ),
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            *body,
            "</svg>\n",
        ]
    )


def _column(states: list[State], left: int) -> Iterator[str]:
    """Draw the states of one kind, and the transitions between them."""
    middle = left + _WIDTH // 2
    tops = {state: _MARGIN + _STEP // 2 + at * _STEP for at, state in enumerate(states)}
    yield f'<circle class="start" cx="{middle}" cy="{_MARGIN}" r="{_RADIUS}"/>'
    for state, top in tops.items():
        yield (
            f'<rect class="state" x="{left}" y="{top}" width="{_WIDTH}" '
            f'height="{_BOX}" rx="5"/>'
        )
        yield f'<text x="{middle}" y="{top + 21}">{state.name}</text>'
    first = [state for state in TRANSITIONS[None] if state in tops]
    for state in first:
        yield _arrow(f"M{middle} {_MARGIN}V{tops[state]}")
    for current in states:
        for following in TRANSITIONS[current]:
            begin, end = tops[current], tops[following]
            if end - begin == _STEP:
                yield _arrow(f"M{middle} {begin + _BOX}V{end}")
            else:
                right, far = left + _WIDTH, left + _WIDTH + _BETWEEN // 3
                yield _arrow(
                    f"M{right} {begin + _BOX // 2}H{far}V{end + _BOX // 2}H{right}"
                )


def _arrow(path: str) -> str:
    return f'<path class="next" d="{path}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw())
