"""The verdict on a plugin: of each rule whether it holds, and how it is broken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from tieredfs.errors import StorageUnavailableError, UnsupportedOperationError
from tieredfs.objects import ObjectStore
from tieredfs.testing.checks import CHECKS
from tieredfs.testing.rule import (
    BrokenRuleError,
    Check,
    MakeStorage,
    NotApplicableError,
    why_not_applicable,
)
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.stuck import StuckCallError, call_within

__all__ = [
    "CALL_SECONDS",
    "PRODUCERS",
    "Outcome",
    "Profile",
    "Recipe",
    "Subject",
    "Verdict",
    "VerdictProducer",
    "ask_checks",
    "ask_promises",
]


class Profile(StrEnum):
    """How thoroughly a plugin is tested."""

    QUICK = "quick"
    FULL = "full"
    NIGHTLY = "nightly"


CALL_SECONDS: Final = {
    Profile.QUICK: 60.0,
    Profile.FULL: 300.0,
    Profile.NIGHTLY: 900.0,
}
"""After so long a rule, or one step of a sequence, is taken for a call that hangs."""

_ROUNDS: Final = {Profile.QUICK: 1, Profile.FULL: 5, Profile.NIGHTLY: 25}
"""How often each rule is tested: a race is not lost each time."""


class Outcome(StrEnum):
    """What was found out about a rule."""

    HELD = "held"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found out about one rule.

    Attributes:
        name: The name of what tests the rule, such as a check's.
        rule: The rule, a sentence.
        outcome: Whether it holds.
        reason: How it is broken, why it does not apply or is undecided, or how far it
            was looked into; may be empty if it holds.
        code: Python that breaks it again; empty unless it is broken.
    """

    name: str
    rule: str
    outcome: Outcome
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How code makes what was tested, so that a verdict can be repeated in a test.

    Attributes:
        imports: Names to import from ``tieredfs``.
        lines: Python that defines the function ``make_storage``.
        store: An expression for an empty store of the kind that was used.
    """

    imports: tuple[str, ...]
    lines: str
    store: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin and the stores to test it on.

    Attributes:
        make_storage: Makes the plugin's storage over a store.
        make_store: Makes a store that nothing else uses: empty, or with segments if the
            plugin is read only.
        fill: Puts into an empty store what ``make_store`` begins with.
        recipe: How code makes the same.
        profile: How thoroughly to test.
        seed: What is drawn at random follows from it.
    """

    make_storage: MakeStorage
    make_store: Callable[[], ObjectStore]
    fill: Callable[[ObjectStore], None]
    recipe: Recipe
    profile: Profile = Profile.QUICK
    seed: int = 0


VerdictProducer = Callable[[Subject], Iterator[Verdict]]
"""Tests some rules with a plugin, and yields a verdict on each.

It raises the TieredFSError of a store that fails: that is no verdict on a plugin.
"""


def ask_checks(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict of each check."""
    capabilities = subject.make_storage(subject.make_store()).capabilities
    stuck = ""
    for check in CHECKS:
        rule = check.sentence
        reason = why_not_applicable(check, capabilities)
        if reason:
            outcome = Outcome.NOT_APPLICABLE
            yield Verdict(check.__name__, rule, outcome, reason)
            continue
        if stuck:  # its threads may hold what this one needs
            reason = f"{stuck} did not end"
            yield Verdict(check.__name__, rule, Outcome.UNDECIDED, reason)
            continue
        try:
            how = _broken(check, subject)
        except NotApplicableError as error:
            yield Verdict(check.__name__, rule, Outcome.NOT_APPLICABLE, str(error))
            continue
        except StuckCallError as error:
            stuck, how = check.__name__, str(error)
        if how is None:
            yield Verdict(check.__name__, rule, Outcome.HELD)
            continue
        yield Verdict(
            check.__name__,
            rule,
            Outcome.BROKEN,
            how,
            _code(check, subject, is_stuck=bool(stuck)),
        )


def ask_promises(subject: Subject) -> Iterator[Verdict]:
    """Yield the verdict on each promise that takes a sequence of calls to be broken.

    Raises:
        UnsupportedOperationError: hypothesis is not installed.
    """
    try:
        # The only verdict that needs hypothesis, which takes long to import.
        from tieredfs.testing import search  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise UnsupportedOperationError(
            "hypothesis is not installed, and sequences of calls need it: "
            "pip install 'tieredfs[testing]'"
        ) from None
    yield from search.ask_promises(subject)


PRODUCERS: Final[tuple[VerdictProducer, ...]] = (ask_checks, ask_promises)
"""All that have a say in the verdict on a plugin, in this order."""


def _broken(check: Check, subject: Subject) -> str | None:
    """Return how a rule is broken; None if it holds.

    Raises:
        NotApplicableError: The rule says nothing about the plugin.
        StuckCallError: A call did not end.
        TieredFSError: The store cannot be reached, which says nothing of the plugin.
    """
    for _ in range(_ROUNDS[subject.profile]):
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
        seconds = CALL_SECONDS[subject.profile]
        call_within(seconds, partial(check.apply, subject.make_storage, store))
    except BrokenRuleError as error:
        next(store.list(), None)
        return error
    return None


def _code(check: Check, subject: Subject, *, is_stuck: bool) -> str:
    """Return the shortest code that breaks a rule: in memory, if it is broken there.

    What does not end is not tried again.
    """
    recipe = subject.recipe
    imports = set(recipe.imports)
    given = "make_storage"
    if is_stuck or not _is_broken_in_memory(check, subject):
        imports.add("ObjectStore")
        given += f", {recipe.store}"
    return (
        f"from tieredfs import {', '.join(sorted(imports))}\n"
        f"from tieredfs.testing import {check.__name__}\n\n\n"
        f"{recipe.lines}\n\n"
        f"{check.__name__}({given})"
    )


def _is_broken_in_memory(check: Check, subject: Subject) -> bool:
    with scratch_store() as store:
        subject.fill(store)
        seconds = CALL_SECONDS[subject.profile]
        try:
            call_within(seconds, partial(check, subject.make_storage, store))
        except AssertionError:
            return True
        return False
