"""A plugin's class, and all that is checked before it becomes a storage.

A plugin is foreign code and may do anything: exit the process while it is imported,
change its arguments, return nonsense. Each such fault becomes an error that names it.
"""

import inspect
import traceback
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint
from inspect import Parameter
from numbers import Real
from typing import Final, Self

from tieredfs.errors import InvalidArgumentError, PluginError, TieredFSError
from tieredfs.objects import ObjectStore
from tieredfs.objects.errors_map import text_of
from tieredfs.objects.redact import redact_text, redact_url, secret_values
from tieredfs.storage.contract import Capability, RemoteStorageManager

__all__ = ["PluginClass"]

_ANY: Final = Parameter.VAR_KEYWORD
_NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class PluginClass:
    """The class of a usable plugin.

    Attributes:
        name: Name of the plugin.
        kind: Its class.
        capabilities: Those of the class; a single storage may have others.
    """

    name: str
    kind: type[RemoteStorageManager]
    capabilities: frozenset[Capability]

    @classmethod
    def load(cls, name: str, point: EntryPoint, distribution: str) -> Self:
        """Import a plugin's class and check it.

        Raises:
            PluginError: It cannot be imported, is not a RemoteStorageManager, lacks one
                of its methods, or its capabilities are invalid.
        """
        source = f" of {distribution}" if distribution else ""
        with _guarded(f"plugin {name!r}{source} cannot be imported"):
            kind = point.load()
            is_layout = inspect.isclass(kind) and issubclass(kind, RemoteStorageManager)
        where = "" if name == point.value else f" ({point.value})"
        if not is_layout:
            msg = f"plugin {name!r}{where} is not a RemoteStorageManager"
            raise PluginError(msg)
        if inspect.isabstract(kind):
            missing = ", ".join(sorted(kind.__abstractmethods__))
            msg = f"plugin {name!r}{where} lacks the methods {missing}"
            raise PluginError(msg)
        return cls(name, kind, _capabilities(name, kind))

    def recognises(self, keys: tuple[str, ...]) -> float:
        """Return how likely a page of keys is of this layout, from 0 to 1.

        Raises:
            PluginError: The recogniser fails, or does not return a number from 0 to 1.
        """
        with _guarded(f"plugin {self.name!r}: its recogniser fails"):
            answer: object = self.kind.recognises(keys)
            score = float(answer) if isinstance(answer, Real) else -1.0
            shown = repr(answer)
        if 0 <= score <= 1:  # so it is not NaN
            return score
        msg = f"plugin {self.name!r}: its recogniser answers {shown}, not 0 to 1"
        raise PluginError(msg)

    @property
    def has_recogniser(self) -> bool:
        """Whether the class can tell its layout from others."""
        ours = RemoteStorageManager.recognises
        theirs = self.kind.recognises
        return getattr(theirs, "__func__", theirs) is not getattr(
            ours, "__func__", ours
        )

    def takes(self, option: str) -> bool:
        """Return whether the layout has an option.

        Raises:
            PluginError: Its class cannot be inspected.
        """
        parameters = self._parameters()
        return any(
            p.kind is _ANY or (p.kind in _NAMED and p.name == option)
            for p in parameters
        )

    def open(
        self, store: ObjectStore, options: Mapping[str, object]
    ) -> RemoteStorageManager:
        """Return a storage of this layout.

        Raises:
            InvalidArgumentError: An option is missing, unknown or wrong.
            PluginError: The class fails for another reason.
        """
        parameters = self._parameters()
        known = [p.name for p in parameters if p.kind in _NAMED]
        takes_any = any(p.kind is _ANY for p in parameters)
        listed = ", ".join(known) or "none"
        for name in options:
            if name not in known and not takes_any:
                msg = f"plugin {self.name!r} has no option {name!r}"
                raise InvalidArgumentError(f"{msg}; its options: {listed}")
        for parameter in parameters:
            is_needed = parameter.default is Parameter.empty
            if is_needed and parameter.name in set(known).difference(options):
                msg = f"plugin {self.name!r} needs the option {parameter.name!r}"
                raise InvalidArgumentError(f"{msg}; its options: {listed}")
        with _guarded(f"plugin {self.name!r} cannot be opened", options):
            made = self.kind(store, **options)
            problem = _problem_of(made)
        if problem:
            raise PluginError(f"plugin {self.name!r} cannot be opened: {problem}")
        return made

    def _parameters(self) -> list[Parameter]:
        """Return the parameters of the class, without the store."""
        with _guarded(f"plugin {self.name!r} cannot be opened"):
            return list(inspect.signature(self.kind).parameters.values())[1:]


def _problem_of(made: object) -> str:
    """Return why a new object is not a usable storage; empty if it is."""
    is_storage = isinstance(made, RemoteStorageManager)
    if not is_storage:
        return f"its class makes a {type(made).__name__}, not a RemoteStorageManager"
    if not hasattr(made, "store"):
        return "it keeps no store: its __init__ has to call super().__init__(store)"
    return ""


@contextmanager
def _guarded(doing: str, options: Mapping[str, object] | None = None) -> Iterator[None]:
    """Run a plugin's code, and translate its exceptions into our errors.

    Args:
        doing: Description of the failure, for the error message.
        options: The user's options, if the code takes them. Then our own errors pass
            unchanged, and a TypeError or a ValueError is attributed to the options.
    """
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if options is not None and isinstance(error, TieredFSError):
            if _is_without_secrets(error, secret_values(options)):
                raise
            raise error from None
        kind: type[TieredFSError] = PluginError
        if options and isinstance(error, TypeError | ValueError):
            kind = InvalidArgumentError
            doing = f"{doing} with the options {', '.join(map(str, options))}"
        hidden = _may_hold_secrets(options or {})
        text = type(error).__name__ if hidden else redact_url(text_of(error))
        if isinstance(error, ModuleNotFoundError):
            text += " (one in the current directory is found by python -m tieredfs)"
        # What is hidden in the message must not be in the traceback below it.
        is_safe = not hidden and _is_without_secrets(error)
        raise kind(f"{doing}: {text}") from (error if is_safe else None)


def _may_hold_secrets(options: Mapping[str, object]) -> bool:
    """Return whether an error's text may show a secret, in part or escaped."""
    names = dict.fromkeys(map(str, options), "hidden")
    plain = all(isinstance(v, str | int | float | None) for v in options.values())
    return bool(secret_values(names)) or not plain


def _is_without_secrets(
    error: BaseException, secrets: frozenset[str] = frozenset()
) -> bool:
    """Return whether an error's traceback is free of these and of URL secrets."""
    lines = "".join(traceback.format_exception(error))
    return redact_text(lines, secrets) == lines


def _capabilities(name: str, kind: type[RemoteStorageManager]) -> frozenset[Capability]:
    with _guarded(f"plugin {name!r}: its capabilities are wrong"):
        declared: object = kind.capabilities
        if isinstance(declared, property | cached_property):
            return frozenset()  # known only for a storage
        if isinstance(declared, AbstractSet):
            return frozenset(Capability(each) for each in declared)
        shown = repr(declared)
    raise PluginError(f"plugin {name!r}: its capabilities are not a set, but {shown}")
