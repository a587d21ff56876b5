"""What is produced into the topics that a broker tiers: a bit of everything."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from confluent_kafka import Producer

from tieredfs.format.compression.codec import Codec

__all__ = ["Traffic"]

_FIRST_MS = 1_600_000_000_000
_STEP_MS = 50
_JITTER_MS = 1_000
_SECONDS = 60

_SETTINGS = {
    "batch.num.messages": 8,  # small batches: then even small segments have many
    "linger.ms": 5,
    "message.timeout.ms": 1000 * _SECONDS,
    "transaction.timeout.ms": 1000 * _SECONDS,
}

_Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class _Record:
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: _Headers


class Traffic:
    """A topic's records, of a plain producer and of two with transactions.

    Attributes:
        committed: Records that were produced and stay.
        aborted: Records whose transaction was aborted.
    """

    def __init__(self, topic: str, codec: Codec) -> None:
        """Begin with the first record.

        Args:
            topic: Where to produce.
            codec: How the client compresses the batches.
        """
        self._topic = topic
        self._settings = {**_SETTINGS, "compression.type": codec.name.lower()}
        self._records = _records(topic)
        self.committed = self.aborted = 0

    def produce(self, address: str) -> None:
        """Produce to a broker: plain records, transactions that overlap and abort.

        The second time the same producers come back, under another epoch.
        """
        settings = {**self._settings, "bootstrap.servers": address}
        plain = Producer({**settings, "enable.idempotence": True})
        long, short = (
            Producer({**settings, "transactional.id": f"{self._topic}-{number}"})
            for number in range(2)
        )
        long.init_transactions(_SECONDS)
        short.init_transactions(_SECONDS)
        self._send(plain, 1000)
        self.committed += 1000
        for number in range(6):
            self._transaction(short, 30, abort=number % 2 == 0)
        long.begin_transaction()
        self._send(long, 40)
        # Meanwhile more than a segment of others: the abort lies far from the records.
        for number in range(4):
            self._transaction(short, 60, abort=number % 2 == 1)
            self._send(plain, 60)
            self.committed += 60
        self._send(long, 40)
        long.abort_transaction(_SECONDS)
        self.aborted += 80
        self._transaction(long, 40, abort=False)

    def _transaction(self, producer: Producer, records: int, *, abort: bool) -> None:
        producer.begin_transaction()
        self._send(producer, records)
        if abort:
            producer.abort_transaction(_SECONDS)
            self.aborted += records
        else:
            producer.commit_transaction(_SECONDS)
            self.committed += records

    def _send(self, producer: Producer, records: int) -> None:
        """Produce so many records, and return when the broker has them."""
        for record in islice(self._records, records):
            producer.produce(
                self._topic,
                partition=0,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp,
                headers=record.headers,
                on_delivery=_taken,
            )
        if left := producer.flush(_SECONDS):
            raise TimeoutError(f"{self._topic}: {left} records not taken")


def _taken(error: object, _: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not taken: {error}")


def _records(topic: str) -> Iterator[_Record]:
    """Yield records whose times go back and forth while they rise."""
    for number in count():
        hashed = hashlib.shake_256(f"{topic} {number}".encode())
        seed = hashed.digest(8)
        value = (
            2 * hashed.hexdigest(seed[6]).encode()
        )  # which every codec makes smaller
        jitter = int.from_bytes(seed[:4]) % (2 * _JITTER_MS) - _JITTER_MS
        headers: _Headers = [("n", str(number).encode()), ("n", None), ("é", b"")]
        yield _Record(
            key=[None, b"", seed[:1], seed][seed[4] % 4],
            value=[None, b"", value, value][seed[5] % 4],
            timestamp=_FIRST_MS + _STEP_MS * number + jitter,
            headers=headers[: seed[7] % 4],
        )
