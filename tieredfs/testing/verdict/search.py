"""The search for sequences of calls that break a promise of a plugin."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.testing.plugin_machine.limited_search import Failure, Limits, Search
from tieredfs.testing.plugin_machine.machine import plugin_machine
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.recorded_step import TimeUpError
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.stuck import StuckCallError, where_threads_stand
from tieredfs.testing.verdict.subject import CALL_SECONDS, Profile, Subject

__all__ = ["LIMITS", "search_promises", "stuck_search"]

LIMITS: Final = {
    Profile.QUICK: Limits(60, 30, 300.0, 10.0),
    Profile.FULL: Limits(600, 40, 1800.0, 60.0),
    Profile.NIGHTLY: Limits(6000, 50, 14_400.0, 300.0),
}
"""How long to search in each profile."""

_NETWORK_SHARE: Final = 5
"""Over a network a sequence takes seconds: there a fifth as many are tried."""


def search_promises(subject: Subject) -> Search:
    """Search for sequences that break promises; give up a step that does not end.

    How many are tried depends on the profile, and on whether the store is on this
    machine; not on how fast anything is.

    Returns:
        What was found; the shortest sequence of each broken promise.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    search, seconds = Search(LIMITS[subject.profile]), CALL_SECONDS[subject.profile]
    others = {thread.ident for thread in threading.enumerate()}
    searching = DaemonExecutor(1).submit(_search, subject, search)
    steps, since = search.failures.current, monotonic()
    try:
        while not wait([searching], SIGNAL_CHECK_SECONDS).done:
            if search.failures.current is not steps:
                steps, since = search.failures.current, monotonic()
            elif monotonic() - since > seconds:
                places = " and ".join(where_threads_stand(others))
                said = f"A call did not end within {seconds:g} s: it is at {places}."
                return stuck_search(StuckCallError(said), steps)
    finally:
        search.stop()  # after Ctrl-C, or with a step that ends after all
    return searching.result()


def stuck_search(stuck: StuckCallError, steps: tuple[Step, ...] = ()) -> Search:
    """Return a search that has found nothing but steps that do not end.

    Args:
        stuck: How they do not end.
        steps: The steps; none where the first storage is not made.
    """
    error = BrokenPromiseError(Promise.CALLS_SUCCEED, str(stuck))
    error.__cause__ = stuck
    search = Search()
    search.failures.add(Failure(error, steps))
    return search


def _search(subject: Subject, search: Search) -> Search:
    """Try sequences of calls until one breaks a promise, and make that one shorter."""
    limits = LIMITS[subject.profile]
    is_near = subject.make_store().is_local
    share = 1 if is_near else _NETWORK_SHARE
    search.wanted = max(1, limits.sequences // share)
    machine = plugin_machine(
        subject.make_storage,
        open_store=lambda: nullcontext(subject.make_store()),
        search=search,
    )
    how = settings(
        max_examples=search.wanted,
        stateful_step_count=limits.steps,
        deadline=None,
        database=None,
        derandomize=False,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        with _without_notes():
            run_state_machine_as_test(seed(subject.seed)(machine), settings=how)
        search.is_decided = True
    except TimeUpError:
        pass
    except Flaky:  # such as a race, or a sequence that time has ended
        search.is_flaky = not search.is_over()
    except Exception:  # of a failure the shortest sequence was noted
        if not (search.failures.shortest or search.is_over()):
            raise
    if search.failures.shortest:
        next(subject.make_store().list(), None)
    return search


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
