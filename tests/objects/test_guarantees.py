"""Every guarantee on every place, and the page that states which holds where."""

from pathlib import Path

import pytest

from objects.guarantees import GUARANTEES, Guarantee
from objects.matrix_page import HINT, PAGE, read_cells, rendered, rewrite, rewrites
from objects.subject import Subject
from support.stores import PLACES, READ_ONLY

THERE = {"some": b"1"}
"""Objects in a read-only place if a guarantee gives none."""


@pytest.mark.parametrize("each", GUARANTEES, ids=lambda each: each.check.__name__)
@pytest.mark.parametrize("kind", PLACES)
def test_a_place_keeps_what_the_page_states(
    kind: str, each: Guarantee, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there = each.given or (THERE if kind in READ_ONLY else {})
    outcome = each.outcome(Subject(kind, request, tmp_path, there))
    if rewrites():
        rewrite(each.title, kind, outcome)
    assert read_cells().get((each.title, kind)) == outcome, HINT


def test_the_page_lists_the_current_guarantees() -> None:
    assert PAGE.read_text() == rendered(read_cells()), HINT
    assert len({each.title for each in GUARANTEES}) == len(GUARANTEES)
    assert all(each.words for each in GUARANTEES)
