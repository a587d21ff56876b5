"""The search for sequences of calls that break a promise of a plugin."""

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.testing.plugin_machine.limited_search import Failure, Search
from tieredfs.testing.plugin_machine.machine import plugin_machine
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.recorded_step import TimeUpError
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.stuck import StuckCallError, where_threads_stand
from tieredfs.testing.verdict.subject import Subject

__all__ = ["SearchResult", "search_promises", "stuck_search"]

_NETWORK_SHARE: Final = 5
"""Over a network a sequence takes seconds: there a fifth as many are tried."""


_ENDED: Final = "not searched further: another promise is broken"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search has found out.

    Attributes:
        failures: The shortest sequence that breaks each broken promise.
        sequences: How many sequences were to be tried.
        undecided: Why it says nothing that a promise has no failure; empty if it does.
    """

    failures: Mapping[Promise, Failure]
    sequences: int
    undecided: str


def search_promises(subject: Subject) -> SearchResult:
    """Search for sequences that break promises; give up a step that does not end.

    How many are tried depends on the extent, and on whether the store is on this
    machine; not on how fast anything is.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    extent = subject.extent
    search = Search(extent.search_seconds, extent.shrink_seconds)
    others = {thread.ident for thread in threading.enumerate()}
    searching = DaemonExecutor(1).submit(_search, subject, search)
    steps, since = search.failures.current, monotonic()
    try:
        while not wait([searching], SIGNAL_CHECK_SECONDS).done:
            if search.failures.current is not steps:
                steps, since = search.failures.current, monotonic()
            elif monotonic() - since > extent.call_seconds:
                places = " and ".join(where_threads_stand(others))
                seconds = f"{extent.call_seconds:g} s"
                said = f"A call did not end within {seconds}: it is at {places}."
                return stuck_search(StuckCallError(said), steps)
    finally:
        search.stop()  # after Ctrl-C, or with a step that ends after all
    return searching.result()


def stuck_search(stuck: StuckCallError, steps: tuple[Step, ...] = ()) -> SearchResult:
    """Return that nothing was found but steps that do not end.

    Args:
        stuck: How they do not end.
        steps: The steps; none where the first storage is not made.
    """
    error = BrokenPromiseError(Promise.CALLS_SUCCEED, str(stuck))
    error.__cause__ = stuck
    return SearchResult({error.promise: Failure(error, steps)}, 0, _ENDED)


def _search(subject: Subject, search: Search) -> SearchResult:
    """Try sequences of calls until one breaks a promise, and make that one shorter."""
    is_near = subject.make_store().is_local
    share = 1 if is_near else _NETWORK_SHARE
    sequences = max(1, subject.extent.sequences // share)
    machine = plugin_machine(
        subject.make_storage,
        open_store=lambda: nullcontext(subject.make_store()),
        search=search,
    )
    how = settings(
        max_examples=sequences,
        stateful_step_count=subject.extent.steps,
        deadline=None,
        database=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    failures = search.failures
    undecided = ""
    try:
        with _without_notes():
            run_state_machine_as_test(seed(subject.seed)(machine), settings=how)
    except (TimeUpError, Flaky) as error:
        if isinstance(error, Flaky) and not search.is_over():  # such as a race
            undecided = "a sequence of calls went another way when it was made again"
        else:
            # Hypothesis begins more than it counts.
            tried = min(max(failures.sequences - 1, 0), sequences - 1)
            undecided = (
                f"the time was enough for {tried} of {sequences} sequences of calls"
            )
    except Exception:  # of a failure the shortest sequence was noted
        if not (failures.shortest or search.is_over()):
            raise
    if failures.shortest:
        next(subject.make_store().list(), None)
        undecided = _ENDED
    return SearchResult(failures.shortest, sequences, undecided)


@contextmanager
def _without_notes() -> Iterator[None]:
    """Let hypothesis keep no notes: it does without a folder that cannot be made."""
    if "HYPOTHESIS_STORAGE_DIRECTORY" in os.environ:
        yield
        return
    set_hypothesis_home_dir(Path(os.devnull) / "hypothesis")
    try:
        yield
    finally:
        set_hypothesis_home_dir(None)
