"""An age, as an option of the command."""

import re
from datetime import timedelta
from typing import Final

import click

__all__ = ["Age"]

_AGE: Final = re.compile(r"(\d{1,8})([smhd])", re.ASCII)
_MAX_AGE: Final = timedelta(days=36_500)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Age(click.ParamType[timedelta]):
    """A number of seconds, minutes, hours or days, such as ``24h``; or 0."""

    name = "age"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> timedelta:
        """Parse it; a number needs its unit."""
        text = str(value)
        if text == "0":
            return timedelta()
        match = _AGE.fullmatch(text)
        if match is None:
            self.fail(
                f"{text!r} is not an age such as 90m, 24h or 7d, or 0", param, ctx
            )
        age = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if age > _MAX_AGE:
            self.fail(f"{text!r} is more than {_MAX_AGE.days} days", param, ctx)
        return age
