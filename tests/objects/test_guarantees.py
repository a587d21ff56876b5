"""Every guarantee on every place, and the page that says which holds where."""

from pathlib import Path

import pytest

from logs import PLACES, READ_ONLY
from objects.guarantees import GUARANTEES, Guarantee
from objects.matrix_page import HINT, PAGE, read_cells, rendered, rewrite, rewrites
from objects.subject import Subject

THERE = {"some": b"1"}
"""What lies where nothing can be put, when a guarantee does not say."""


@pytest.mark.parametrize("each", GUARANTEES, ids=lambda each: each.check.__name__)
@pytest.mark.parametrize("kind", PLACES)
def test_a_place_keeps_what_the_page_says(
    kind: str, each: Guarantee, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    there = each.given or (THERE if kind in READ_ONLY else {})
    outcome = each.outcome(Subject(kind, request, tmp_path, there))
    if rewrites():
        rewrite(each.title, kind, outcome)
    assert read_cells().get((each.title, kind)) == outcome, HINT


def test_the_page_tells_the_guarantees_as_they_are() -> None:
    assert PAGE.read_text() == rendered(read_cells()), HINT
    assert len({each.title for each in GUARANTEES}) == len(GUARANTEES)
    assert all(each.words for each in GUARANTEES)
