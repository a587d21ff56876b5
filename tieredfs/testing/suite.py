"""Example suite: a class of tests, one for each rule, for pytest to run.

Importing it imports no pytest. The fixture that its tests take is in the module
``pytest_tieredfs``, which pytest finds by itself.
"""

import difflib
from collections.abc import Callable, Mapping
from inspect import getattr_static
from typing import Final
from unittest import SkipTest

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.raw import RawAccess
from tieredfs.testing.rule import Check, NotApplicableError
from tieredfs.testing.rules import CHECKS

__all__ = ["RemoteStorageTests", "replaces_rule"]

_Test = Callable[..., object]
_REASON: Final = "__replaces_rule_because__"


class RemoteStorageTests(RawAccess):
    """Tests of a plugin, one for each rule of ``CHECKS``; subclass it as ``Test…``.

    ``test_copy_is_idempotent`` tests the rule of ``check_copy_is_idempotent``, and so
    on; a rule that says nothing about the plugin is skipped, with the reason. Each is
    tested on an empty store of its own, of those that the fixture ``tieredfs_store``
    gives: one in memory and one in a local folder. A fixture of that name in the class,
    or in a ``conftest.py``, gives others.

    A plugin that stores its objects elsewhere than in the given store overrides the
    four methods of ``RawAccess``, too.
    """

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        """Return a new storage of the plugin over a store.

        If the plugin is read only, put segments into an empty store first.

        Args:
            store: Any; the same one in several calls of a test.
        """
        raise InvalidArgumentError(
            f"{type(self).__qualname__} has no method make_storage, which is to return "
            f"a storage over {store.url}"
        )

    def __init_subclass__(cls) -> None:
        """Refuse to replace the test of a rule unknowingly.

        Raises:
            InvalidArgumentError: A test of a rule was replaced without
                ``replaces_rule``, or what it decorates replaces none.
        """
        super().__init_subclass__()
        for name, test in _TESTS.items():
            found = getattr_static(cls, name)
            if found is not test and not hasattr(found, _REASON):
                raise InvalidArgumentError(
                    f"{cls.__qualname__}.{name} replaces the test of a rule: name it "
                    "otherwise, or decorate it with replaces_rule and say why"
                )
        for name, found in vars(cls).items():
            if hasattr(found, _REASON) and name not in _TESTS:
                near = difflib.get_close_matches(name, _TESTS, n=1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise InvalidArgumentError(
                    f"{cls.__qualname__}.{name} replaces no test of a rule{hint}"
                )

    def _apply(self, check: Check, store: ObjectStore) -> None:
        try:
            check.apply(self.make_storage, store, self)
        except NotApplicableError as error:
            raise SkipTest(f"not applicable: {error}") from None


def replaces_rule(reason: str) -> Callable[[_Test], _Test]:
    """Mark a method that replaces the test of a rule on purpose.

    Args:
        reason: Why the rule is not tested as it stands.

    Raises:
        InvalidArgumentError: ``reason`` is not a text, or has nothing in it.
    """
    given: object = reason  # the method itself where the parentheses are missing
    if not isinstance(given, str) or not given.strip():
        raise InvalidArgumentError(
            'replaces_rule needs a reason: decorate with @replaces_rule("…")'
        )

    def mark(test: _Test) -> _Test:
        setattr(test, _REASON, reason)
        return test

    return mark


def _test_of(check: Check) -> Callable[[RemoteStorageTests, ObjectStore], None]:
    def test(self: RemoteStorageTests, tieredfs_store: ObjectStore) -> None:
        self._apply(check, tieredfs_store)

    test.__name__ = check.__name__.replace("check_", "test_", 1)
    test.__qualname__ = f"{RemoteStorageTests.__qualname__}.{test.__name__}"
    test.__doc__ = check.__doc__
    return test


_TESTS: Final[Mapping[str, Callable[..., None]]] = {
    test.__name__: test for test in map(_test_of, CHECKS)
}
for _name, _test in _TESTS.items():
    setattr(RemoteStorageTests, _name, _test)
