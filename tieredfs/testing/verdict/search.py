"""The search for sequences of calls that break a promise of a plugin."""

import threading
from concurrent.futures import wait
from contextlib import nullcontext
from time import monotonic
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.testing.plugin_machine.limited_search import Failure, Limits, Search
from tieredfs.testing.plugin_machine.machine import plugin_machine
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.recorded_step import TimeUpError
from tieredfs.testing.stuck import StuckCallError, where_threads_stand
from tieredfs.testing.verdict.subject import CALL_SECONDS, Profile, Subject

__all__ = ["LIMITS", "search_promises"]

LIMITS: Final = {
    Profile.QUICK: Limits(100, 30, 25.0, 10.0),
    Profile.FULL: Limits(1000, 40, 300.0, 60.0),
    Profile.NIGHTLY: Limits(20_000, 50, 3600.0, 300.0),
}
"""How long to search in each profile."""


def search_promises(subject: Subject) -> Search:
    """Search for sequences that break promises; give up a step that does not end.

    Returns:
        What was found; the shortest sequence of each broken promise.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    search, seconds = Search(LIMITS[subject.profile]), CALL_SECONDS[subject.profile]
    others = {thread.ident for thread in threading.enumerate()}
    searching = DaemonExecutor(1).submit(_search, subject, search)
    steps, since = search.failures.current, monotonic()
    while not wait([searching], SIGNAL_CHECK_SECONDS).done:
        if search.failures.current is not steps:
            steps, since = search.failures.current, monotonic()
        elif steps and monotonic() - since > seconds:
            places = " and ".join(where_threads_stand(others))
            said = f"A call did not end within {seconds:g} s: it is at {places}."
            error = BrokenPromiseError(Promise.CALLS_SUCCEED, said)
            error.__cause__ = StuckCallError(said)
            stuck = Search()
            stuck.failures.add(Failure(error, steps))
            return stuck
    return searching.result()


def _search(subject: Subject, search: Search) -> Search:
    """Try sequences of calls until one breaks a promise, and make that one shorter."""
    limits = LIMITS[subject.profile]
    machine = plugin_machine(
        subject.make_storage,
        open_store=lambda: nullcontext(subject.make_store()),
        search=search,
    )
    how = settings(
        max_examples=limits.sequences,
        stateful_step_count=limits.steps,
        deadline=None,
        database=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(subject.seed)(machine), settings=how)
    except TimeUpError:
        pass
    except Exception:
        # Of a failure the shortest sequence was noted; and a sequence that time has
        # ended was another one before, for hypothesis.
        if not (search.failures.shortest or search.is_over()):
            raise
    if search.failures.shortest:
        next(subject.make_store().list(), None)
    return search
