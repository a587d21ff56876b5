"""Rules for how the methods of a plugin are called."""

import inspect
from collections.abc import Iterator
from inspect import Parameter, Signature

from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.rule import Case, rule

__all__ = ["check_methods_take_the_parameters_of_the_contract"]


@rule()
def check_methods_take_the_parameters_of_the_contract(case: Case) -> None:
    """Each method can be called as the contract has it, by position and by name.

    Source: the plugin contract, Terms.
    """
    for name, wanted in _methods():
        method = getattr(case.storage, name)
        given = {one.name: one for one in wanted}
        positional = [n for n, one in given.items() if one.kind != one.KEYWORD_ONLY]
        needed = [n for n, one in given.items() if one.default is one.empty]
        for first, named in (
            (needed, []),
            (positional, [n for n in given if n not in positional]),
            ([], [*given]),
        ):
            try:
                inspect.signature(method).bind(*first, **dict.fromkeys(named))
            except TypeError as error:
                call = ", ".join((*first, *(f"{n}={n}" for n in named)))
                raise AssertionError(
                    f"{name}({call}) is not possible: {error}."
                ) from error


def _methods() -> Iterator[tuple[str, list[Parameter]]]:
    """Yield the public methods of the contract, and what each of them takes."""
    for name, method in inspect.getmembers(RemoteStorageManager, inspect.isroutine):
        if not name.startswith("_"):
            taken = [*Signature.from_callable(method).parameters.values()]
            yield name, [one for one in taken if one.name != "self"]
