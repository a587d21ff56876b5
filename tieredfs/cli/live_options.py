"""The options with which ``cat`` goes on at a topic's brokers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Final

import click
from click.core import ParameterSource

__all__ = ["LiveOptions", "live_options"]

_CONTRADICTING: Final = {"end": "--to", "on_gap": "--on-gap"}
"""What is not for an answer without an end, and for reading each record once."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How to reach the brokers of a topic.

    Attributes:
        bootstrap: Some brokers, ``HOST:PORT`` with commas between them.
        config: Settings of the Kafka client.
    """

    bootstrap: str
    config: Mapping[str, str] = field(repr=False)


class _Property(click.ParamType[tuple[str, str]]):
    """A setting of the Kafka client and its value, with ``=`` between them."""

    name = "property"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, str]:
        """Reject what has no name; the error omits the value, which may be secret."""
        name, equals, setting = str(value).partition("=")
        if not (name and equals):
            self.fail("not KEY=VALUE", param, ctx)
        return name, setting


def live_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options for following a topic, as ``live``: None if it is not followed.

    The command has the options of ``record_options`` as well, and those of them that
    contradict an endless answer are refused.
    """

    @click.option(
        "--follow",
        is_flag=True,
        help="Go on with what is produced, from the brokers of --bootstrap, until "
        "interrupted; needs pip install 'tieredfs[live]'.",
    )
    @click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="With --follow, some of the topic's brokers, with commas between them.",
    )
    @click.option(
        "--consumer-property",
        "properties",
        type=_Property(),
        multiple=True,
        metavar="KEY=VALUE",
        help="With --follow, a setting of the Kafka client, named as librdkafka names "
        "it, such as security.protocol=SSL; may be given several times.",
    )
    @wraps(command)
    def wrapped(
        *,
        follow: bool,
        bootstrap: str | None,
        properties: tuple[tuple[str, str], ...],
        **rest: object,
    ) -> object:
        live = _checked(bootstrap, dict(properties), is_followed=follow)
        return command(live=live, **rest)

    return wrapped


def _checked(
    bootstrap: str | None, config: Mapping[str, str], *, is_followed: bool
) -> LiveOptions | None:
    """Return the options, if the topic is followed and all of them go together.

    Raises:
        UsageError: They do not.
    """
    if not is_followed:
        for name, given in (("bootstrap", bootstrap), ("consumer-property", config)):
            if given:
                raise click.UsageError(f"--{name} is only for --follow")
        return None
    if bootstrap is None:
        msg = "--follow needs --bootstrap HOST:PORT, where the topic's brokers are"
        raise click.UsageError(msg)
    for parameter, option in _CONTRADICTING.items():
        if _is_given(parameter):
            raise click.UsageError(f"{option} is not for --follow")
    return LiveOptions(bootstrap, config)


def _is_given(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in {None, ParameterSource.DEFAULT}
