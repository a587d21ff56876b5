"""The conformance kit at length: it finds what is broken, and blames nothing else.

Each of the plugins that have a bug which authors make is asked by the quick profile:
the rule that names the bug has to find it, with code that breaks it again. Correct
plugins are asked with many seeds, and no rule is ever said to be broken.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product

import pytest

from proofs.extent import WHOLE, extent
from testing.broken import BUGS
from testing.layouts import LAYOUTS
from testing.pasted import run_test
from tieredfs.testing import MakeStorage
from tieredfs.testing.plugin_machine.promise import Promise
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.verdict import PRODUCERS, Outcome, Recipe, Subject, rule_verdicts

RECIPE = Recipe(("ObjectStore",), "make_storage = PLUGIN", "ObjectStore()")
PRODUCED = PRODUCERS if WHOLE else (rule_verdicts,)
FOUND = list(BUGS)[:: extent(1, 8)]

CORRECT = ("single-object", "single-object-zstd", "kafka-local")
ASKED = list(product(CORRECT, range(20)))[:: extent(1, 60)]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def subject_of(make: MakeStorage, opened: ExitStack, seed: int = 0) -> Subject:
    """Return a plugin to be asked in memory."""
    return Subject(
        make,
        lambda: opened.enter_context(scratch_store()),
        lambda _: None,
        RECIPE,
        seed=seed,
    )


@pytest.mark.parametrize("bug", FOUND)
def test_a_bug_is_found_by_the_rule_that_names_it(bug: str, opened: ExitStack) -> None:
    broken = BUGS[bug]
    subject = subject_of(broken.make, opened)
    verdicts = [verdict for ask in PRODUCED for verdict in ask(subject)]
    found = {v.name: v for v in verdicts if v.outcome is Outcome.BROKEN}
    code = found[broken.check.__name__].code
    with pytest.raises(AssertionError):
        run_test(code, {"PLUGIN": broken.make})


@pytest.mark.parametrize(("layout", "seed"), ASKED)
def test_a_correct_plugin_breaks_no_rule_with_any_seed(
    layout: str, seed: int, opened: ExitStack
) -> None:
    subject = subject_of(LAYOUTS[layout], opened, seed)
    verdicts = [verdict for ask in PRODUCERS for verdict in ask(subject)]
    wrong = {Outcome.BROKEN, Outcome.UNDECIDED}
    assert not [verdict for verdict in verdicts if verdict.outcome in wrong]
    held = {verdict.name for verdict in verdicts if verdict.outcome is Outcome.HELD}
    assert held >= {promise.rule for promise in Promise}
    assert len(held) > 2 * len(verdicts) // 3
