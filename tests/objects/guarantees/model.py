"""The guarantees, and the check whether a place keeps one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import pytest

from objects.subject import Subject
from support.stores import PLACES
from tieredfs import TieredFSError, UnsupportedOperationError
from tieredfs.objects import StoreCapability

__all__ = ["GUARANTEES", "Guarantee", "Outcome", "guarantee"]


class Outcome(StrEnum):
    """The result of a check."""

    HOLDS = "holds"
    """The check passes."""

    OFF = "off"
    """The store does not offer it, and reports that by a capability or an error."""

    NOT_BY_SERVER = "no"
    """The server under test, or its protocol, gives wrong answers."""

    NOT_TRIED = "–"
    """The guarantee does not apply to the place, or cannot be tested there."""


@dataclass(frozen=True)
class Guarantee:
    """One guarantee that is the same on every backend.

    Attributes:
        title: The guarantee in a few words.
        words: Its description.
        check: Fails if the guarantee does not hold.
        places: Places to which the guarantee applies.
        not_by: Places whose server breaks it for every client, which is checked too.
        needs: Capability that the check needs; a store without it has to refuse.
        given: Objects in the place before the check.
    """

    title: str
    words: str
    check: Callable[[Subject], None]
    places: tuple[str, ...]
    not_by: tuple[str, ...]
    needs: StoreCapability | None
    given: Mapping[str, bytes]

    def outcome(self, subject: Subject) -> Outcome:
        """Check the guarantee on a place.

        Raises:
            AssertionError: It does not hold, and the store did not report that.
        """
        if subject.kind not in self.places:
            return Outcome.NOT_TRIED
        if self.needs is not None and not subject.can(self.needs):
            _REFUSALS.get(self.needs, lambda _: None)(subject)
            return Outcome.OFF
        if subject.kind in self.not_by:
            with pytest.raises((AssertionError, TieredFSError)):
                self.check(subject)
            return Outcome.NOT_BY_SERVER
        try:
            self.check(subject)
        except UnsupportedOperationError:
            return Outcome.OFF
        return Outcome.HOLDS


GUARANTEES: list[Guarantee] = []
"""All of them, in the order of the page."""


def guarantee(
    title: str,
    *,
    places: tuple[str, ...] = PLACES,
    not_by: tuple[str, ...] = (),
    needs: StoreCapability | None = None,
    given: Mapping[str, bytes] | None = None,
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Register a function as a guarantee, described by its docstring."""

    def register(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
        words = " ".join((check.__doc__ or "").split())
        GUARANTEES.append(
            Guarantee(title, words, check, places, not_by, needs, given or {})
        )
        return check

    return register


def _refuses_writes(subject: Subject) -> None:
    """Every verb that writes is refused, and nothing is changed."""
    store, before = subject.store, subject.keys()
    source = subject.folder / "source"
    source.write_bytes(b"1")
    key = before[0]
    for overwrite in (False, True):
        with pytest.raises(UnsupportedOperationError):
            store.put(key, b"1", overwrite=overwrite)
        with pytest.raises(UnsupportedOperationError):
            store.put_file("new", source, overwrite=overwrite)
    with pytest.raises(UnsupportedOperationError):
        store.copy(key, "new")
    with pytest.raises(UnsupportedOperationError):
        store.delete([key])
    assert subject.keys() == before
    assert before == sorted(subject.given)


def _refuses_creates(subject: Subject) -> None:
    """A create is refused whether there is an object or not, and nothing is changed."""
    store = subject.store
    with pytest.raises(UnsupportedOperationError):
        store.put("new", b"1", overwrite=False)
    if subject.can(StoreCapability.WRITE):
        store.put("old", b"old", overwrite=True)
        with pytest.raises(UnsupportedOperationError):
            store.put("old", b"new", overwrite=False)
        assert store.get("old") == b"old"
        assert subject.keys() == sorted({*subject.given, "old"})


_REFUSALS = {
    StoreCapability.WRITE: _refuses_writes,
    StoreCapability.EXCLUSIVE_CREATE: _refuses_creates,
}
"""How a store without a capability has to answer, for those that protect data."""
