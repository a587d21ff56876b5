"""The steps of a machine: recorded as they are made, so that a failure can be pasted.

Hypothesis prints the steps of the failure that it has made shortest. A verdict needs
them as data, one failure for each broken promise, also where a plugin fails only now
and then, so the machine records them itself.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from hypothesis.errors import HypothesisException, StopTest

from tieredfs.testing.promise import BrokenPromiseError, Promise

__all__ = [
    "Failure",
    "Failures",
    "Step",
    "StepByStep",
    "TimeUpError",
    "recorded",
]

_MAX_ZEROS: Final = 8
"""More bytes that are 0 are written as their number."""


class TimeUpError(BaseException):
    """The time for a search is up; hypothesis does not take it for a failure."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a machine's method.

    Attributes:
        name: The method.
        arguments: Its arguments by their names.
    """

    name: str
    arguments: tuple[tuple[str, object], ...]

    @property
    def code(self) -> str:
        """Python that makes the call of ``state``."""
        given = ", ".join(f"{name}={_code(value)}" for name, value in self.arguments)
        return f"state.{self.name}({given})"

    @property
    def imports(self) -> set[tuple[str, str]]:
        """Modules and the names in them that the code needs."""
        return set().union(*(_imports(value) for _, value in self.arguments))


@dataclass(frozen=True, slots=True)
class Failure:
    """A sequence of steps that breaks a promise.

    Attributes:
        error: How the last step breaks it.
        steps: The steps.
    """

    error: BrokenPromiseError
    steps: tuple[Step, ...]

    @property
    def raised(self) -> type[BaseException] | None:
        """The class of the error that the plugin raised; None if it raised none."""
        cause = self.error.__cause__
        if isinstance(cause, AssertionError) and cause.__cause__ is not None:
            cause = cause.__cause__  # the kit's own says which call raised it
        return None if isinstance(cause, AssertionError | None) else type(cause)

    @property
    def size(self) -> tuple[int, int]:
        """What is to be small: the number of steps, and how long their code is."""
        return len(self.steps), sum(len(step.code) for step in self.steps)


@dataclass(slots=True)
class Failures:
    """The failures of a search.

    Attributes:
        shortest: The shortest sequence that breaks each broken promise.
        sequences: How many sequences were begun.
        current: The steps of the sequence that is being made, another tuple with each.
    """

    shortest: dict[Promise, Failure] = field(default_factory=dict)
    sequences: int = 0
    current: tuple[Step, ...] = ()

    def add(self, failure: Failure) -> None:
        """Note a failure."""
        promise = failure.error.promise
        known = self.shortest.get(promise)
        if known is None or failure.size < known.size:
            self.shortest[promise] = failure


class StepByStep(Protocol):
    """A machine whose steps are recorded.

    Attributes:
        failures: Where failures are noted.
        steps: The steps so far.
        is_over: Whether the time is up.
        is_outage_ignored: Whether the current step went on as if no request had failed.
    """

    failures: Failures
    steps: list[Step]
    is_over: Callable[[], bool]
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
        if self.is_over():
            raise TimeUpError
        given = [*signature.bind(self, *args, **kwargs).arguments.items()]
        self.steps.append(Step(method.__name__, tuple(given[1:])))
        self.failures.current = tuple(self.steps)
        self.is_outage_ignored = False
        try:
            method(self, *args, **kwargs)
            self.check()
        except (HypothesisException, StopTest, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            broken = _broken(error, is_outage=self.is_outage_ignored)
            self.failures.add(Failure(broken, tuple(self.steps)))
            if broken is error:
                raise
            raise broken from broken.__cause__

    return made


def _broken(error: BaseException, *, is_outage: bool) -> BrokenPromiseError:
    """Return which promise an error breaks."""
    if isinstance(error, BrokenPromiseError):
        if not is_outage or error.promise is Promise.OUTAGES_ARE_REPORTED:
            return error
        broken = BrokenPromiseError(Promise.OUTAGES_ARE_REPORTED, error.sentence)
        broken.__cause__ = error.__cause__
        return broken.with_traceback(error.__traceback__)
    promise = Promise.OUTAGES_ARE_REPORTED if is_outage else Promise.CALLS_SUCCEED
    is_ours = isinstance(error, AssertionError)
    broken = BrokenPromiseError(
        promise, f"{error}" if is_ours else f"A call raised {error!r}"
    )
    broken.__cause__ = error
    return broken


def _code(value: object) -> str:
    """Return Python for a value; fields that have their default are left out."""
    if isinstance(value, Enum):
        code = f"{type(value).__name__}.{value.name}"
    elif is_dataclass(value) and not isinstance(value, type):
        given = (
            f"{one.name}={_code(getattr(value, one.name))}"
            for one in fields(value)
            if one.default is MISSING or getattr(value, one.name) != one.default
        )
        code = f"{type(value).__name__}({', '.join(given)})"
    elif isinstance(value, bytes) and len(value) > _MAX_ZEROS and not any(value):
        code = f"bytes({len(value)})"
    elif isinstance(value, tuple):
        code = f"({''.join(f'{_code(one)}, ' for one in value).strip()})"
    elif isinstance(value, list):
        code = f"[{', '.join(map(_code, value))}]"
    elif isinstance(value, set) and value:
        code = f"{{{', '.join(sorted(map(_code, value)))}}}"
    else:
        code = repr(value)
    return code


def _imports(value: object) -> set[tuple[str, str]]:
    """Return what Python for a value needs to import."""
    found: set[tuple[str, str]] = set()
    if isinstance(value, Enum):
        return {(type(value).__module__, type(value).__name__)}
    if is_dataclass(value) and not isinstance(value, type):
        found.add((type(value).__module__, type(value).__name__))
        for one in fields(value):
            found |= _imports(getattr(value, one.name))
    elif isinstance(value, Collection) and not isinstance(value, str | bytes):
        for one in value:
            found |= _imports(one)
    return found
