"""The test that a verdict has for a plugin, run as an author pastes it."""

import ast
from collections.abc import Mapping

__all__ = ["run_test"]


def run_test(code: str, names: Mapping[str, object] | None = None) -> None:
    """Run the one test in some code.

    Args:
        code: Imports, what the test needs, and a function ``test_…``.
        names: What it has besides, such as the class of a plugin.
    """
    space = dict(names or {})
    exec(code, space)  # noqa: S102 - what an author pastes
    defined = [one for one in ast.parse(code).body if isinstance(one, ast.FunctionDef)]
    (test,) = (one.name for one in defined if one.name.startswith("test_"))
    function = space[test]
    assert callable(function)
    function()
