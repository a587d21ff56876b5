"""A verdict on each promise: sequences of calls are searched for one that breaks it."""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import groupby
from time import monotonic
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.testing.limited_search import Failure, Limits, Search
from tieredfs.testing.plugin_machine.machine import PluginMachine, plugin_machine
from tieredfs.testing.promise import BrokenPromiseError, Promise
from tieredfs.testing.recorded_step import TimeUpError
from tieredfs.testing.shortening import shorten
from tieredfs.testing.step import Step
from tieredfs.testing.stores import OpenStore, scratch_store
from tieredfs.testing.stuck import StuckCallError, call_within, where_threads_stand
from tieredfs.testing.verdict import CALL_SECONDS, Outcome, Profile, Subject, Verdict

__all__ = ["LIMITS", "ask_promises"]

_TRIES: Final = 3
"""How often shorter steps are tried: a race is not lost each time."""

LIMITS: Final = {
    Profile.QUICK: Limits(100, 30, 25.0, 10.0),
    Profile.FULL: Limits(1000, 40, 300.0, 60.0),
    Profile.NIGHTLY: Limits(20_000, 50, 3600.0, 300.0),
}
"""How long to search in each profile."""


def ask_promises(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each promise.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    capabilities = subject.make_storage(subject.make_store()).capabilities
    found = _found(subject)
    for promise in Promise:
        rule = promise.value
        missing = sorted(one.name for one in promise.needs - capabilities)
        failure = found.failures.shortest.get(promise)
        if missing:
            reason = f"the layout does not have {' and '.join(missing)}"
            yield Verdict(promise.rule, rule, Outcome.NOT_APPLICABLE, reason)
        elif failure is not None:
            sentence = failure.error.sentence
            code = _code(failure, subject)
            yield Verdict(promise.rule, rule, Outcome.BROKEN, sentence, code)
        elif found.failures.shortest:
            reason = "not searched further: another promise is broken"
            yield Verdict(promise.rule, rule, Outcome.UNDECIDED, reason)
        elif found.is_over() and not found.is_decided:
            reason = (
                f"the time was enough for {found.failures.sequences} sequences of calls"
            )
            yield Verdict(promise.rule, rule, Outcome.UNDECIDED, reason)
        else:
            reason = f"in {found.failures.sequences} sequences of calls"
            yield Verdict(promise.rule, rule, Outcome.HELD, reason)


def _found(subject: Subject) -> Search:
    """Search on a thread of its own, and give up a step that does not end."""
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
        subject.make_storage, open_store=_opener(subject), search=search
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


def _opener(subject: Subject) -> OpenStore:
    def open_store() -> AbstractContextManager[ObjectStore]:
        return nullcontext(subject.make_store())

    return open_store


def _code(failure: Failure, subject: Subject) -> str:
    """Return the shortest code that fails so again: in memory, if it fails there."""
    is_stuck = isinstance(failure.error.__cause__, StuckCallError)
    failure = failure if is_stuck else _shortened(failure, subject)
    recipe, opened = subject.recipe, ""
    imports = {
        *_imports(failure.steps),
        ("tieredfs.testing.plugin_machine.machine", "plugin_machine"),
    }
    imports |= {("tieredfs", name) for name in recipe.imports}
    if is_stuck or not _fails_in_memory(failure, subject):
        imports |= {("contextlib", "nullcontext"), ("tieredfs", "ObjectStore")}
        opened = f", open_store=lambda: nullcontext({recipe.store})"
    lines = [
        f"from {module} import {', '.join(sorted(name for _, name in names))}"
        for module, names in groupby(sorted(imports), lambda one: one[0])
    ]
    calls = [step.code for step in failure.steps]
    begun = f"state = plugin_machine(make_storage{opened})()"
    return "\n".join([*lines, "", "", recipe.lines, "", begun, *calls])


def _imports(steps: tuple[Step, ...]) -> set[tuple[str, str]]:
    return set().union(*(step.imports for step in steps))


def _fails_in_memory(failure: Failure, subject: Subject) -> bool:
    """Return whether steps break the same promise over a store in memory."""
    with scratch_store() as store:
        subject.fill(store)
        search = Search()
        machine = plugin_machine(
            subject.make_storage, open_store=lambda: nullcontext(store), search=search
        )
        with suppress(StuckCallError):
            seconds = CALL_SECONDS[subject.profile]
            call_within(seconds, lambda: _make(machine(), failure.steps))
        again = search.failures.shortest.get(failure.error.promise)
        return again is not None and again.raised is failure.raised


def _make(machine: PluginMachine, steps: Iterable[Step]) -> None:
    """Make steps until one fails."""
    with suppress(AssertionError):
        for step in steps:
            getattr(machine, step.name)(**dict(step.arguments))


def _shortened(failure: Failure, subject: Subject) -> Failure:
    """Leave out steps, and take simpler arguments, while it fails as well in memory."""
    if not _fails_in_memory(failure, subject):
        return failure
    end = monotonic() + LIMITS[subject.profile].shrink_seconds

    def fails(steps: tuple[Step, ...]) -> bool:
        shorter = replace(failure, steps=steps)
        return monotonic() < end and any(
            _fails_in_memory(shorter, subject) for _ in range(_TRIES)
        )

    return replace(failure, steps=shorten(failure.steps, fails))
