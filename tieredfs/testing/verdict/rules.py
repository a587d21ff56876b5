"""A verdict on each rule."""

from collections.abc import Iterator, Sequence
from functools import partial

from tieredfs.errors import StorageUnavailableError
from tieredfs.testing.rule import (
    BrokenRuleError,
    Check,
    NotApplicableError,
    why_not_applicable,
)
from tieredfs.testing.rules import CHECKS
from tieredfs.testing.rules.sharing import check_construction_sends_no_request
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.stuck import StuckCallError
from tieredfs.testing.verdict.pasted_test import pasted_test
from tieredfs.testing.verdict.subject import Subject
from tieredfs.testing.verdict.verdict import Outcome, Verdict

__all__ = ["rule_verdicts"]


def rule_verdicts(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each rule.

    Raises:
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    checks = [check for check in CHECKS if subject.wants(check.__name__)]
    if not checks:
        return
    try:
        capabilities = subject.capabilities()
    except StuckCallError as error:
        yield from _stuck_at_once(error, subject, checks)
        return
    stuck = ""
    for check in checks:
        decided = partial(Verdict, check.__name__, check.sentence)
        reason = why_not_applicable(check, capabilities)
        if reason:
            yield decided(Outcome.NOT_APPLICABLE, reason)
        elif stuck:  # its threads may hold what this one needs
            yield _undecided(check, stuck)
        else:
            try:
                how = _broken(check, subject)
            except NotApplicableError as error:
                yield decided(Outcome.NOT_APPLICABLE, str(error))
            except StuckCallError as error:
                stuck = check.__name__
                yield _stuck(check, error, subject)
            else:
                yield (
                    decided(Outcome.HELD)
                    if how is None
                    else decided(Outcome.BROKEN, how, _shortest_code(check, subject))
                )


def _stuck_at_once(
    error: StuckCallError, subject: Subject, checks: Sequence[Check]
) -> Iterator[Verdict]:
    """Yield the verdicts on a plugin that hangs where its storage is made.

    Every check does then; the one that is about this is said to be broken, or the first
    if that one is not wanted.
    """
    about = check_construction_sends_no_request
    at = about if about in checks else checks[0]
    for check in checks:
        is_it = check is at
        yield _stuck(at, error, subject) if is_it else _undecided(check, at.__name__)


def _stuck(check: Check, error: StuckCallError, subject: Subject) -> Verdict:
    """Return the verdict on a rule that was given up."""
    code = _code(check, subject, subject.recipe.store)
    name, sentence = check.__name__, check.sentence
    return Verdict(name, sentence, Outcome.BROKEN, str(error), code)


def _undecided(check: Check, stuck: str) -> Verdict:
    """Return the verdict on a rule that is not tested after one that was given up."""
    reason = f"{stuck} did not end"
    return Verdict(check.__name__, check.sentence, Outcome.UNDECIDED, reason)


def _broken(check: Check, subject: Subject) -> str | None:
    """Return how a rule is broken; None if it holds.

    Raises:
        NotApplicableError: The rule says nothing about the plugin.
        StuckCallError: A call did not end.
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    for _ in range(subject.extent.rounds):
        broken = _test(check, subject)
        if broken is None:
            continue
        # A request that failed may have been the store's fault: it is tested again.
        if isinstance(broken.__cause__, (StorageUnavailableError, TimeoutError)):
            broken = _test(check, subject)
        if broken is not None:
            return broken.how
    return None


def _test(check: Check, subject: Subject) -> BrokenRuleError | None:
    """Return how a rule is broken on a new store; None if it holds."""
    store = subject.make_store()
    try:
        subject.within(partial(check.apply, subject.make_storage, store))
    except BrokenRuleError as error:
        next(store.list(), None)
        return error
    return None


def _shortest_code(check: Check, subject: Subject) -> str:
    """Return code that breaks a rule: in memory, if it is broken there."""
    in_memory = _is_broken_in_memory(check, subject)
    return _code(check, subject, "" if in_memory else subject.recipe.store)


def _code(check: Check, subject: Subject, store: str) -> str:
    """Return a test that checks a rule with a plugin.

    Args:
        check: The rule.
        subject: The plugin.
        store: An expression for the store; empty for one in memory.
    """
    imports = {("tieredfs.testing", check.__name__)}
    if store:
        imports |= {*subject.recipe.store_imports}
    given = f"make_storage, {store}" if store else "make_storage"
    name = check.__name__.removeprefix("check_")
    return pasted_test(name, imports, subject.recipe, [f"{check.__name__}({given})"])


def _is_broken_in_memory(check: Check, subject: Subject) -> bool:
    with scratch_store() as store:
        subject.fill(store)
        try:
            subject.within(partial(check, subject.make_storage, store))
        except AssertionError:
            return True
        return False
