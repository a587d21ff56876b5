"""A verdict on each promise: whether a sequence of calls was found that breaks it."""

from collections.abc import Iterator
from functools import partial

from tieredfs.storage import Capability
from tieredfs.testing.plugin_machine.limited_search import Failure
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.rule import why_not_applicable
from tieredfs.testing.stuck import StuckCallError
from tieredfs.testing.verdict.pasted_test import pasted_test
from tieredfs.testing.verdict.replay import fails_in_memory, shortened
from tieredfs.testing.verdict.search import search_promises, stuck_search
from tieredfs.testing.verdict.subject import Subject
from tieredfs.testing.verdict.verdict import Outcome, Verdict

__all__ = ["promise_verdicts"]


def promise_verdicts(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each promise.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    wanted = [promise for promise in Promise if subject.wants(promise.rule)]
    if not wanted:
        return
    try:
        capabilities = subject.capabilities()
    except StuckCallError as error:
        capabilities, found = frozenset(Capability), stuck_search(error)
    else:
        found = search_promises(subject)
    for promise in wanted:
        decided = partial(Verdict, promise.rule, promise.value)
        reason = why_not_applicable(promise, capabilities)
        failure = found.failures.get(promise)
        if reason:
            yield decided(Outcome.NOT_APPLICABLE, reason)
        elif failure is not None:
            yield decided(
                Outcome.BROKEN, failure.error.sentence, _shortest_code(failure, subject)
            )
        elif found.undecided:
            yield decided(Outcome.UNDECIDED, found.undecided)
        else:
            yield decided(Outcome.HELD, f"in {found.sequences} sequences of calls")


def _shortest_code(failure: Failure, subject: Subject) -> str:
    """Return the shortest code that fails so again: in memory, if it fails there.

    What did not end is neither tried again nor made shorter.
    """
    if isinstance(failure.error.__cause__, StuckCallError):
        return _code(failure, subject, subject.recipe.store)
    failure = shortened(failure, subject)
    in_memory = fails_in_memory(failure, subject)
    return _code(failure, subject, "" if in_memory else subject.recipe.store)


def _code(failure: Failure, subject: Subject, store: str) -> str:
    """Return a test that makes the steps of a failure.

    Args:
        failure: The failure.
        subject: The plugin.
        store: An expression for the store; empty for one in memory.
    """
    imports = {("tieredfs.testing.plugin_machine.machine", "plugin_machine")}
    imports = imports.union(*(step.imports for step in failure.steps))
    opened = ""
    if store:
        imports |= {("contextlib", "nullcontext"), *subject.recipe.store_imports}
        opened = f", open_store=lambda: nullcontext({store})"
    begun = f"state = plugin_machine(make_storage{opened})()"
    lines = (begun, *(step.code for step in failure.steps))
    return pasted_test(failure.error.promise.rule, imports, subject.recipe, lines)
