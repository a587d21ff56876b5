"""Run a machine of the kit inside of a test."""

from typing import Any, Final

from hypothesis import Phase, settings

__all__ = ["run_machine", "run_once"]

_EXAMPLES: Final = 100


def run_machine(machine: Any) -> None:  # noqa: ANN401 - hypothesis adds attributes
    """Run a test case as its runner would."""
    machine("runTest").runTest()


def run_once(machine: Any) -> None:  # noqa: ANN401 - hypothesis adds attributes
    """Run a test case, always the same way; what fails is not made shorter.

    As many examples are tried as hypothesis tries by default, whatever the profile.
    """
    machine.settings = settings(
        machine.settings,
        max_examples=max(_EXAMPLES, machine.settings.max_examples),
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
    )
    run_machine(machine)
