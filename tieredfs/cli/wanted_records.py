"""The options that choose records, and the scan that reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

import click

from tieredfs.cli.live_options import LiveOptions
from tieredfs.cli.numbers import Integer
from tieredfs.cli.output.records import FORMATS
from tieredfs.cli.output.text_encoder import DECODINGS, ENCODINGS
from tieredfs.cli.positions import (
    End,
    Place,
    PositionType,
    check_order,
    time_hints,
)
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.records.schema import COLUMNS, project
from tieredfs.log.follow.follow import Follow
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.scan import Isolation, OnGap, Scan
from tieredfs.tier import Tier

__all__ = ["KEY", "WantedRecords", "format_option", "record_options"]

KEY = "key"

format_option = click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), help="Default: text."
)

_JSON_NAMES = {"timestamp_type": "timestampType"}


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """Which records of a topic are asked for.

    Attributes:
        topic: The topic's name.
        topic_id: Which of several topics of this name; None for the newest.
        partitions: The partitions; empty for all.
        start: Where to begin.
        end: Where to end.
        keys: The keys of the records; empty for all.
        columns: The columns to show; None for the default.
        on_gap: What to do about offsets that no segment holds.
        limit: Maximum number of records; None for all.
        encoding: How keys and values become text.
        committed: Whether the records of aborted and of open transactions are left out.
    """

    topic: str
    topic_id: str | None
    partitions: tuple[int, ...]
    start: Place
    end: End
    keys: tuple[bytes, ...]
    columns: tuple[str, ...] | None
    on_gap: OnGap
    limit: int | None
    encoding: str
    committed: bool

    def scan(self, tier: Tier, shown: Sequence[str]) -> Scan:
        """Plan the reading of the records, whatever their keys are.

        Args:
            tier: Where the topic is.
            shown: The columns to show; the key is read as well if it is filtered by.

        Raises:
            OffsetOutOfRangeError: An offset is outside the log; the message has a hint
                if it looks like a time.
            TieredFSError: As in ``Topic.scan``.
        """
        opened = tier.topic(self.topic, topic_id=self.topic_id)
        numbers = self.partitions or opened.partitions
        with time_hints(self.start, self.end):
            return opened.scan(
                numbers,
                self.start,
                self.end,
                columns=self._read(shown),
                on_gap=self.on_gap,
                isolation=self._isolation,
            )

    def follow(self, tier: Tier, shown: Sequence[str], live: LiveOptions) -> Follow:
        """Begin to follow the records, whatever their keys are.

        Args:
            tier: Where the topic is.
            shown: The columns to show; the key is read as well if it is filtered by.
            live: How to reach the brokers.

        Raises:
            TieredFSError: As in ``Topic.follow``.
        """
        opened = tier.topic(self.topic, topic_id=self.topic_id)
        return opened.follow(
            self.partitions or None,
            self.start,
            bootstrap=live.bootstrap,
            config=live.config,
            columns=self._read(shown),
            isolation=self._isolation,
        )

    def _read(self, shown: Sequence[str]) -> Sequence[str]:
        return shown if not self.keys or KEY in shown else (*shown, KEY)

    @property
    def _isolation(self) -> Isolation:
        return "read_committed" if self.committed else "read_uncommitted"


class ColumnNames(click.ParamType[tuple[str, ...]]):
    """Names of columns with commas between them; jsonl's own names do as well."""

    name = "columns"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """Reject a name that no column has."""
        given = [name.strip() for name in str(value).split(",")]
        names = tuple(_JSON_NAMES.get(name, name) for name in given)
        try:
            project(names)
        except InvalidArgumentError as error:
            also = ", ".join(f"{ours} is {name}" for ours, name in _JSON_NAMES.items())
            self.fail(f"{error}; {also}", param, ctx)
        return names


def record_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options that choose records to a command, as ``wanted``."""

    @click.argument("topic")
    @click.option(
        "--partition",
        "partitions",
        type=Integer(min=0),
        multiple=True,
        metavar="N",
        help="Only this partition; may be given several times.",
    )
    @click.option(
        "--from",
        "start",
        type=PositionType(
            {"earliest": None, "latest": LastRecords(0)}, takes_last=True
        ),
        default=None,
        metavar="OFFSET|-N|TIME|earliest|latest",
        help="Where to begin: an offset, -5 for the last five records of each "
        "partition, or a time such as 2026-11-01T00:00:00Z or @1793491200000 "
        "(milliseconds). A time is not a filter: it stands for the first offset whose "
        "record is as late, and records at later offsets may be older.",
    )
    @click.option(
        "--to",
        "end",
        type=PositionType({"latest": None}),
        default=None,
        metavar="OFFSET|TIME|latest",
        help="Where to end; the record there is not shown. A time is looked up as by "
        "--from.",
    )
    @click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="Only records with this key, in --encoding; may be given several times.",
    )
    @click.option(
        "--columns",
        type=ColumnNames(),
        metavar="NAMES",
        help="Only these columns, in the order given, with commas between them: "
        f"{', '.join(COLUMNS)}.",
    )
    @click.option(
        "--on-gap",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="Whether offsets that no segment holds are an error or left out.",
    )
    @click.option(
        "--committed",
        is_flag=True,
        help="Leave out the records of aborted transactions, and end before one that "
        "is still open: Kafka's read_committed.",
    )
    @click.option("--limit", type=Integer(min=0), metavar="N", help="At most N.")
    @click.option(
        "--encoding",
        type=click.Choice(list(ENCODINGS)),
        default="utf8",
        show_default=True,
        help="How keys and values become text, and how --key is given.",
    )
    @click.option(
        "--topic-id", metavar="ID", help="Which of several topics of one name."
    )
    @wraps(command)
    def wrapped(  # noqa: PLR0913 - one parameter for each option
        *,
        topic: str,
        topic_id: str | None,
        partitions: tuple[int, ...],
        start: Place,
        end: End,
        keys: tuple[str, ...],
        columns: tuple[str, ...] | None,
        on_gap: OnGap,
        limit: int | None,
        encoding: str,
        committed: bool,
        **rest: object,
    ) -> object:
        check_order(start, end)
        wanted = WantedRecords(
            topic,
            topic_id,
            partitions,
            start,
            end,
            tuple(_decoded(key, encoding) for key in keys),
            columns,
            on_gap,
            limit,
            encoding,
            committed,
        )
        return command(wanted=wanted, **rest)

    return wrapped


def _decoded(key: str, encoding: str) -> bytes:
    try:
        return DECODINGS[encoding](key)
    except ValueError as error:
        msg = f"--key {key!r} is not {encoding}: {error}"
        raise click.UsageError(msg) from error
