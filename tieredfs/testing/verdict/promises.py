"""A verdict on each promise: whether a sequence of calls was found that breaks it."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from tieredfs.testing.plugin_machine.limited_search import Failure
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.rule import why_not_applicable
from tieredfs.testing.stuck import StuckCallError
from tieredfs.testing.verdict.replay import fails_in_memory, shortened
from tieredfs.testing.verdict.search import search_promises
from tieredfs.testing.verdict.subject import Subject
from tieredfs.testing.verdict.verdict import Outcome, Verdict

__all__ = ["promise_verdicts"]


def promise_verdicts(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each promise.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    capabilities = subject.make_storage(subject.make_store()).capabilities
    found = search_promises(subject)
    tried = found.failures.sequences
    for promise in Promise:
        decided = partial(Verdict, promise.rule, promise.value)
        reason = why_not_applicable(promise, capabilities)
        failure = found.failures.shortest.get(promise)
        if reason:
            yield decided(Outcome.NOT_APPLICABLE, reason)
        elif failure is not None:
            yield decided(
                Outcome.BROKEN, failure.error.sentence, _shortest_code(failure, subject)
            )
        elif found.failures.shortest:
            reason = "not searched further: another promise is broken"
            yield decided(Outcome.UNDECIDED, reason)
        elif found.is_over() and not found.is_decided:
            reason = f"the time was enough for {tried} sequences of calls"
            yield decided(Outcome.UNDECIDED, reason)
        else:
            yield decided(Outcome.HELD, f"in {tried} sequences of calls")


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
    """Return code that makes the steps of a failure.

    Args:
        failure: The failure.
        subject: The plugin.
        store: An expression for the store; empty for one in memory.
    """
    recipe, opened = subject.recipe, ""
    imports = {
        *_imports(failure.steps),
        ("tieredfs.testing.plugin_machine.machine", "plugin_machine"),
    }
    imports |= {("tieredfs", name) for name in recipe.imports}
    if store:
        imports |= {("contextlib", "nullcontext"), ("tieredfs", "ObjectStore")}
        opened = f", open_store=lambda: nullcontext({store})"
    lines = [
        f"from {module} import {', '.join(sorted(name for _, name in names))}"
        for module, names in groupby(sorted(imports), lambda one: one[0])
    ]
    calls = [step.code for step in failure.steps]
    begun = f"state = plugin_machine(make_storage{opened})()"
    return "\n".join([*lines, "", "", recipe.lines, "", begun, *calls])


def _imports(steps: tuple[Step, ...]) -> set[tuple[str, str]]:
    return set().union(*(step.imports for step in steps))
