"""What a write, a create and a miss may end in."""

from collections.abc import Callable, Mapping

from tieredfs.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from tieredfs.model import ByteRange
from tieredfs.objects import ObjectStore, StoreCapability
from tieredfs.testing.object_store_machine.state import ObjectStoreState
from tieredfs.testing.rule import expect_error

__all__ = ["Outcomes"]


class Outcomes(ObjectStoreState):
    """A machine that knows how its calls may end; the model keeps to what they did."""

    def expect_write(
        self, said: str, key: str, content: bytes, put: Callable[[], object]
    ) -> None:
        """Make a call that writes an object, whatever is there.

        Only a store with folders may refuse it. The model holds the object afterwards,
        unless it was refused.

        Args:
            said: What is called, for an error.
            key: The object.
            content: What is written.
            put: The call.
        """
        try:
            put()
        except AlreadyExistsError as error:
            if not self.model.may_refuse(key):
                text = f"an overwrite replaces the object: {said} raised {error!r}"
                raise AssertionError(text) from error
        else:
            self.model.put(key, content)

    def expect_create(
        self, said: str, key: str, content: bytes, put: Callable[[], object]
    ) -> None:
        """Make a call that writes an object which must not exist: else it is refused.

        Args:
            said: What is called, for an error.
            key: The object.
            content: What is written.
            put: The call.
        """
        if key in self.model.objects:
            said = f"a create does not overwrite: {said}"
            expect_error(put, AlreadyExistsError, said)
            return
        try:
            put()
        except AlreadyExistsError as error:
            if not self.model.may_refuse(key):
                text = f"a create of a missing object succeeds: {said} raised {error!r}"
                raise AssertionError(text) from error
        else:
            self.model.put(key, content)

    def expect_failure(self, said: str, put: Callable[[], object]) -> None:
        """Make a call that writes what cannot be read to its end: it has to fail."""
        if StoreCapability.WHOLE_OBJECTS not in self.capabilities:
            return
        try:
            put()
        except (InvalidArgumentError, AlreadyExistsError):
            return
        raise AssertionError(f"a source that fails ends the put: {said} returned")

    def expect_miss(self, key: str, store: ObjectStore) -> None:
        """Ask for an object that does not exist: every verb has to say so."""
        asked: Mapping[str, Callable[[], object]] = {
            "get": lambda: store.get(key),
            "get_range": lambda: store.get_range(key, 0, 1),
            "get_ranges": lambda: store.get_ranges(key, [ByteRange(0, 1)]),
            "head": lambda: store.head(key),
        }
        state = "deleted" if self.model.was_deleted(key) else "missing"
        for verb, call in asked.items():
            said = self.after(f"{verb} of {key!r}")
            expect_error(call, NotFoundError, f"a {state} object is not found: {said}")
