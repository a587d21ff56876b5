"""One rule of the contract: how it is checked, and how a violation is reported.

The rules are in the modules of ``rules``, by what they are about, such as ``listing``
and ``reading``. A function there with the decorator ``rule``, and its name in the
module's ``__all__``, is all that a rule takes: ``CHECKS`` has it. What a rule tests a
plugin with is here, too.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import update_wrapper
from types import ModuleType

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability
from tieredfs.testing.applicability import NotApplicableError, why_not_applicable
from tieredfs.testing.case import Asked, Case, MakeStorage
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.requirement import (
    expect_error,
    require,
    require_bytes,
    require_whole,
)
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.stuck import call_raised, is_ctrl_c

__all__ = [
    "Asked",
    "BrokenRuleError",
    "Case",
    "Check",
    "MakeStorage",
    "NotApplicableError",
    "checks_in",
    "expect_error",
    "require",
    "require_bytes",
    "require_whole",
    "rule",
    "why_not_applicable",
]


class BrokenRuleError(AssertionError):
    """A rule is broken.

    Attributes:
        rule: The rule, a sentence.
        how: What the plugin did instead.
    """

    def __init__(self, rule: str, how: str) -> None:
        """Take the rule, and how it was broken."""
        super().__init__(f"{rule} {how}")
        self.rule = rule
        self.how = how


class Check:
    """A rule of the contract, to be checked for a plugin.

    Attributes:
        needs: Capabilities a layout must have for the rule to apply.
        excludes: Capabilities a layout must not have for the rule to apply.
        sentence: The rule.
    """

    __name__: str
    __wrapped__: Callable[[Case], None]

    def __init__(
        self,
        test: Callable[[Case], None],
        needs: Collection[Capability],
        excludes: Collection[Capability],
    ) -> None:
        """Take what tests the rule; the first line of its docstring is the rule."""
        self.needs = frozenset(needs)
        self.excludes = frozenset(excludes)
        self.sentence = (test.__doc__ or "").partition("\n")[0].replace("``", "`")
        self._test = test
        update_wrapper(self, test)
        del self.__wrapped__  # it takes a Case, and this one what __call__ takes

    def __call__(
        self,
        make_storage: MakeStorage,
        store: ObjectStore | None = None,
        raw: RawAccess | None = None,
    ) -> None:
        """Check the rule; return if it holds, or does not apply.

        Args:
            make_storage: Makes the plugin's storage over a store.
            store: An empty store that only this call uses; None for one in memory.
            raw: Reaches the stored objects; None for through the store.

        Raises:
            BrokenRuleError: The rule is broken; the message is the rule, and how.
            InvalidArgumentError: The store is not empty, and the layout has WRITE.
        """
        with suppress(NotApplicableError):
            self.apply(make_storage, store, raw)

    def apply(
        self,
        make_storage: MakeStorage,
        store: ObjectStore | None = None,
        raw: RawAccess | None = None,
    ) -> None:
        """Check the rule; return only if it was tested, and holds.

        Args:
            make_storage: As a call takes it.
            store: As a call takes it.
            raw: As a call takes it.

        Raises:
            BrokenRuleError: The rule is broken; the message is the rule, and how.
            NotApplicableError: The rule says nothing about this layout.
            InvalidArgumentError: As of a call.
        """
        access = RawAccess() if raw is None else raw
        with scratch_store() as scratch:
            used = scratch if store is None else store
            is_empty = not access.raw_keys(used)
            with _telling(self.sentence):
                case = Case(make_storage, used, access)
                reason = why_not_applicable(self, case.storage.capabilities)
                if reason:
                    raise NotApplicableError(reason)
            if case.can(Capability.WRITE) and not is_empty:
                raise InvalidArgumentError(
                    f"{used.url} has objects: a check needs an empty store of its own"
                )
            with _telling(self.sentence):
                self._test(case)

    def __repr__(self) -> str:
        """Return its name."""
        return self.__name__


def rule(
    *needs: Capability, excludes: Collection[Capability] = ()
) -> Callable[[Callable[[Case], None]], Check]:
    """Turn a function into a check; the first line of its docstring is the rule.

    The function raises AssertionError with a sentence where the rule is broken, and
    NotApplicableError where it finds that the rule says nothing about the layout.

    Args:
        needs: Capabilities a layout must have for the rule to apply.
        excludes: Capabilities a layout must not have for the rule to apply.
    """

    def make(test: Callable[[Case], None]) -> Check:
        return Check(test, needs, excludes)

    return make


def checks_in(module: ModuleType) -> Iterator[Check]:
    """Yield the checks that a module defines, in its order."""
    for found in vars(module).values():
        if isinstance(found, Check) and found.__module__ == module.__name__:
            yield found


@contextmanager
def _telling(rule: str) -> Iterator[None]:
    """Turn every error into a BrokenRuleError, which begins with the rule."""
    try:
        yield
    except NotApplicableError:
        raise
    except AssertionError as error:
        how = str(error) or call_raised(error)  # a bare assert of the plugin
        raise BrokenRuleError(rule, how) from error.__cause__
    except BaseException as error:  # a panic of Rust is no Exception, nor is an exit
        if is_ctrl_c(error):
            raise
        raise BrokenRuleError(rule, call_raised(error)) from error
