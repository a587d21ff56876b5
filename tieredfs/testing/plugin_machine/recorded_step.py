"""The steps of a machine: recorded as they are made, so that a failure can be pasted.

Hypothesis prints the steps of the failure that it has made shortest. A verdict needs
them as data, one failure for each broken promise, also where a plugin fails only now
and then, so the machine records them itself.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from hypothesis.errors import HypothesisException, StopTest

from tieredfs.testing.plugin_machine.limited_search import Failure, Search
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.step import Step
from tieredfs.testing.stuck import call_raised, is_ctrl_c

__all__ = ["StepByStep", "TimeUpError", "recorded"]


class TimeUpError(BaseException):
    """The time for a search is up; hypothesis does not take it for a failure."""


class StepByStep(Protocol):
    """A machine whose steps are recorded.

    Attributes:
        search: Where failures are noted, and which says whether the time is up.
        steps: The steps so far.
        is_outage_ignored: Whether the current step went on as if no request had failed.
    """

    search: Search
    steps: list[Step]
    is_outage_ignored: bool

    def check(self) -> None:
        """Raise BrokenPromiseError unless everything is as it has to be."""


_Machine = TypeVar("_Machine", bound=StepByStep)
_Arguments = ParamSpec("_Arguments")


def recorded(
    method: Callable[Concatenate[_Machine, _Arguments], None],
) -> Callable[Concatenate[_Machine, _Arguments], None]:
    """Turn a method into a step: it is recorded, and the state is checked after it.

    Whatever it raises is raised as BrokenPromiseError, caused by what the plugin raised
    if it raised anything. When the time is up, the step is not made, and TimeUpError
    ends the search.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def made(
        self: _Machine, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> None:
        if self.search.is_over():
            raise TimeUpError
        given = [*signature.bind(self, *args, **kwargs).arguments.items()]
        self.steps.append(Step(method.__name__, tuple(given[1:])))
        self.search.failures.current = tuple(self.steps)
        self.is_outage_ignored = False
        try:
            method(self, *args, **kwargs)
            self.check()
        except (HypothesisException, StopTest, GeneratorExit):
            raise
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            broken = _broken(error, is_outage=self.is_outage_ignored)
            self.search.failures.add(Failure(broken, tuple(self.steps)))
            if broken is error:
                raise
            raise broken from broken.__cause__

    return made


def _broken(error: BaseException, *, is_outage: bool) -> BrokenPromiseError:
    """Return which promise an error breaks."""
    if isinstance(error, BrokenPromiseError) and not is_outage:
        return error
    promise = Promise.OUTAGES_ARE_REPORTED if is_outage else Promise.CALLS_SUCCEED
    if isinstance(error, BrokenPromiseError):
        sentence = error.sentence
    elif isinstance(error, AssertionError) and str(error):
        sentence = str(error)
    else:
        broken = BrokenPromiseError(promise, call_raised(error))
        broken.__cause__ = error
        return broken
    # In its place, so that a traceback does not say the sentence twice.
    broken = BrokenPromiseError(promise, sentence)
    broken.__cause__ = error.__cause__
    return broken.with_traceback(error.__traceback__)
