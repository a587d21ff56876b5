"""Every fault in the way of every verb on every cloud: {fault} × {verb} × {cloud}."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from objects.fault_cells import CELLS, FAULTS, VERBS, Cell, Lane, Result
from servers import FaultProxy, Fleet
from support.prerequisites import server_of
from support.stores import CLOUDS

LANES = 12


@pytest.mark.parametrize("kind", CLOUDS)
def test_a_fault_gives_the_right_answer_or_the_right_error_by_the_deadline(
    kind: str, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    port = server_of(kind, fleet).port
    free: SimpleQueue[Lane] = SimpleQueue()

    def attempt(cell: Cell) -> Result:
        lane = free.get()
        try:
            return lane.attempt(cell)
        finally:
            free.put(lane)

    with ExitStack() as stack:
        for _ in range(LANES):
            proxy = stack.enter_context(FaultProxy(port))
            free.put(Lane(proxy, fleet.place(kind, proxy.url)))
        with ThreadPoolExecutor(LANES) as pool:
            results = dict(zip(CELLS, pool.map(attempt, CELLS), strict=True))
        for cell, result in results.items():
            if result.late:  # without other load
                results[cell] = attempt(cell)

    assert len(results) == len(FAULTS) * len(VERBS) * 2
    record_property("fault cells", len(results))
    record_property("slowest fault cell", max(r.seconds for r in results.values()))
    wrong = [f"{cell}: {'; '.join(r.wrong)}" for cell, r in results.items() if r.wrong]
    assert not wrong, "\n".join(wrong)
