"""The error tree is what its docstring draws, and crosses processes whole."""

import inspect
import pickle
import re

import pytest

import tieredfs
from tieredfs import errors
from tieredfs.errors import ErrorKind, StorageUnavailableError, TieredFSError

_LINE = re.compile(r"^ {4}([│ ├└─]*)(\w+Error)(?: +\(also (\w+)\))?", re.MULTILINE)


def _all_errors() -> list[type[TieredFSError]]:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    return [cls for cls in classes if issubclass(cls, TieredFSError)]


def _drawn() -> dict[str, set[str]]:
    """Read from the drawing the bases of each class."""
    assert errors.__doc__ is not None
    drawn: dict[str, set[str]] = {}
    path: list[str] = []
    for branch, name, also in _LINE.findall(errors.__doc__):
        depth = len(branch) // 4
        path[depth:] = [name]
        bases = {path[depth - 1] if depth else "Exception", also} - {""}
        drawn[name] = bases
    return drawn


_every_error = pytest.mark.parametrize("cls", _all_errors())


def test_the_tree_is_the_one_that_is_drawn() -> None:
    found = {
        cls.__name__: {base.__name__ for base in cls.__bases__} for cls in _all_errors()
    }
    assert found == _drawn()


def test_the_tree_is_the_one_that_was_promised() -> None:
    assert _drawn() == {
        "TieredFSError": {"Exception"},
        "NotFoundError": {"TieredFSError", "FileNotFoundError"},
        "OffsetOutOfRangeError": {"NotFoundError"},
        "AlreadyExistsError": {"TieredFSError", "FileExistsError"},
        "PermissionDeniedError": {"TieredFSError", "PermissionError"},
        "InvalidArgumentError": {"TieredFSError", "ValueError"},
        "CorruptDataError": {"TieredFSError"},
        "CorruptIndexError": {"CorruptDataError"},
        "CorruptBatchError": {"CorruptDataError"},
        "CorruptObjectError": {"CorruptDataError"},
        "UnsupportedFormatError": {"TieredFSError"},
        "UnsupportedOperationError": {"TieredFSError"},
        "StorageUnavailableError": {"TieredFSError"},
        "StorageFullError": {"TieredFSError"},
        "DeadlineExceededError": {"TieredFSError", "TimeoutError"},
        "FencedError": {"TieredFSError"},
        "ClosedError": {"TieredFSError"},
        "InvalidTransitionError": {"TieredFSError"},
        "PluginError": {"TieredFSError"},
        "UnknownPluginError": {"PluginError"},
        "PluginNotInstalledError": {"PluginError"},
    }


def test_every_error_has_a_kind_of_its_own_and_every_kind_an_error() -> None:
    kinds = [cls.kind for cls in _all_errors()]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) == set(ErrorKind)


@_every_error
def test_a_kind_is_the_name_of_its_class(cls: type[TieredFSError]) -> None:
    if cls is TieredFSError:
        assert cls.kind == "error"
        return
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Error"))
    assert cls.kind == words.lower()


def test_only_an_unavailable_store_is_worth_another_try() -> None:
    retryable = {cls for cls in _all_errors() if cls.retryable}
    assert retryable == {StorageUnavailableError}


@_every_error
def test_an_error_is_pickled_with_its_type_and_message(
    cls: type[TieredFSError],
) -> None:
    message = "s3://bucket/key [0, 5): 100 % wrong"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(cls(message), protocol))  # noqa: S301 - ours
        assert type(back) is cls
        assert str(back) == message
        assert (back.kind, back.retryable) == (cls.kind, cls.retryable)


@_every_error
def test_an_error_is_exported(cls: type[TieredFSError]) -> None:
    assert cls.__name__ in errors.__all__
    assert cls.__name__ in tieredfs.__all__
    assert getattr(tieredfs, cls.__name__) is cls


def test_a_warning_is_not_an_error() -> None:
    assert issubclass(tieredfs.TieredFSWarning, UserWarning)
    assert not issubclass(tieredfs.TieredFSWarning, TieredFSError)


def test_names_are_exported_once_and_in_order() -> None:
    assert sorted(set(tieredfs.__all__)) == list(tieredfs.__all__)
    assert all(hasattr(tieredfs, name) for name in tieredfs.__all__)
