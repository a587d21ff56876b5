"""Numbers in a range, as options of the command."""

import math

import click

__all__ = ["Integer", "Number"]


class Integer(click.IntRange):
    """An integer in a range."""

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Reject what is not an integer, or outside the range."""
        try:
            number = int(value)  # type: ignore[call-overload] # text, as a rule
        except ValueError:
            self.fail(f"{value!r} is not an integer.", param, ctx)
        found: int = super().convert(number, param, ctx)
        return found


class Number(click.FloatRange):
    """A number in a range, which ``nan`` is not."""

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Reject what is not a number, or outside the range."""
        try:
            number = float(value)  # type: ignore[arg-type] # text, as a rule
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        found: float = super().convert(number, param, ctx)
        return found
