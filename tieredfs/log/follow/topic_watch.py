"""Watch that a topic's brokers answer, and that the topic is still the same one.

A client goes on by name when a topic was deleted and created again, so what it gives
then is of another log. And where nothing is produced, it does not say that no broker
answers. So a broker is asked now and then for the topic's id.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from tieredfs.errors import NotFoundError, StorageUnavailableError, TieredFSError
from tieredfs.log.follow.kafka_errors import error_of, is_refusal, is_transient
from tieredfs.model import UNKNOWN_TOPIC_ID
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS

__all__ = ["Clock", "Described", "TopicWatch"]

_CHECK_SECONDS: Final = 5.0
"""How long a topic may be another one, or its brokers silent, before that is noticed.
"""

_ELSEWHERE_SECONDS: Final = 1.0
"""Between two checks: the caller did something else, and no answer was waited for."""


class Clock(NamedTuple):
    """The time, and waiting.

    Attributes:
        now: Returns a time in seconds that only grows.
        sleep: Waits some seconds.
    """

    now: Callable[[], float]
    sleep: Callable[[float], object]


@dataclass(frozen=True, slots=True)
class Described:
    """A topic as its brokers describe it.

    Attributes:
        topic_id: Its id; all ``A`` where the brokers have none.
        partitions: The numbers of its partitions, sorted.
    """

    topic_id: str
    partitions: tuple[int, ...]


class TopicWatch:
    """Asks for the description of a topic, at first and every few seconds."""

    def __init__(
        self,
        describe: Callable[[], "Future[Described]"],
        *,
        where: str,
        topic_id: str,
        deadline: float,
        clock: Clock,
    ) -> None:
        """Begin without a question.

        Args:
            describe: Asks a broker; the future raises KafkaException.
            where: What messages call brokers and topic.
            topic_id: The id that the topic has to have; all ``A`` for any.
            deadline: Seconds after which brokers that do not answer are unavailable.
            clock: The time.
        """
        self._describe = describe
        self._where = where
        self._topic_id = topic_id
        self._deadline = deadline
        self._clock = clock
        self._asked: Future[Described] | None = None
        self._unanswered_since: float | None = None
        self._next_at = self._checked_at = clock.now()
        self._found: Described | None = None
        self._failure: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Remember why a connection failed, to say it when no broker has answered."""
        known = self._failure
        is_summary = error.name() == "_ALL_BROKERS_DOWN"
        if known is None or not (is_summary or is_refusal(known)):
            self._failure = error

    def ask_soon(self) -> None:
        """Ask with the next check: the topic may be gone."""
        self._next_at = self._clock.now()

    @property
    def found(self) -> Described | None:
        """The last description; None if there was no answer yet."""
        return self._found

    @property
    def is_answering(self) -> bool:
        """Whether the last question has its answer."""
        return self._unanswered_since is None

    def forget(self) -> None:
        """Ask anew: the topic may be another one by now."""
        self._found = self._asked = None
        self.ask_soon()

    def wait(self) -> None:
        """Wait for an answer, or for a moment."""
        if self._asked is None:
            self._clock.sleep(SIGNAL_CHECK_SECONDS)
        else:
            wait([self._asked], SIGNAL_CHECK_SECONDS)

    def check(self) -> None:
        """Ask if it is time to, and look at the answer; return without waiting for it.

        Raises:
            NotFoundError: There is no such topic, or it has another id. One that was
                there may be missing until the deadline: brokers that start may not know
                it yet.
            PermissionDeniedError: The brokers refuse the credentials.
            StorageUnavailableError: No broker has answered until the deadline.
        """
        now = self._clock.now()
        elsewhere, self._checked_at = now - self._checked_at, now
        if self._unanswered_since is not None and elsewhere > _ELSEWHERE_SECONDS:
            self._unanswered_since += elsewhere
        if self._asked is None:
            if now < self._next_at:
                return
            self._asked = self._describe()
            if self._unanswered_since is None:
                self._unanswered_since = now
        if self._asked.done():
            asked, self._asked = self._asked, None
            try:
                self._accept(asked.result())
            except KafkaException as error:
                self._failed(error.args[0], now)
        elif self._failure is not None and is_refusal(self._failure):
            raise error_of(self._failure, self._where)
        if self._is_late(now):
            raise self._unavailable()

    def _accept(self, found: Described) -> None:
        known, other = self._topic_id, found.topic_id
        if UNKNOWN_TOPIC_ID not in {known, other} and known != other:
            msg = (
                f"{self._where}: the topic has the id {other} there, not {known}: it "
                "was deleted and created again, or is another one of that name"
            )
            raise NotFoundError(msg)
        if known == UNKNOWN_TOPIC_ID:
            self._topic_id = other
        self._found, self._failure = found, None
        self._unanswered_since = None
        pause = min(_CHECK_SECONDS, self._deadline / 2)
        self._next_at = self._clock.now() + pause

    def _failed(self, error: KafkaError, now: float) -> None:
        is_new = self._found is None and not is_transient(error)
        if is_new or is_refusal(error):
            raise error_of(error, self._where)
        if self._failure is None or not is_transient(error):
            self._failure = error
        self._next_at = now + SIGNAL_CHECK_SECONDS

    def _is_late(self, now: float) -> bool:
        since = self._unanswered_since
        return since is not None and now - since >= self._deadline

    def _unavailable(self) -> TieredFSError:
        if self._failure is not None and not is_transient(self._failure):
            return error_of(self._failure, self._where)
        why = "" if self._failure is None else f": {self._failure.str()}"
        msg = f"{self._where}: no answer in {self._deadline:g} s{why}"
        return StorageUnavailableError(msg)
