"""What a plugin's constructor refuses, and what is said then."""

import traceback
from collections.abc import Callable, Mapping

import pytest

from tieredfs import (
    Capability,
    ClosedError,
    InvalidArgumentError,
    ObjectStore,
    PluginError,
    TieredFSError,
    open_storage,
)

Distribute = Callable[..., str]

NEEDS_A_BUCKET = """
class P(Base):
    def __init__(self, store, *, bucket, chunk=7):
        super().__init__(store)
        self.bucket = bucket
"""

TAKES_ANY = """
class P(Base):
    def __init__(self, store, **options):
        super().__init__(store)
        self.options = options
"""

RAISES = """
class Ended(BaseException): pass

class P(Base):
    def __init__(self, store, *, chunk=7, api_token="", more=None):
        {statement}
"""


@pytest.fixture
def refused(
    distribute: Distribute, memory: ObjectStore
) -> Callable[[str, Mapping[str, object]], TieredFSError]:
    """Open a plugin whose constructor does what the test says; return its error."""

    def opened(statement: str, options: Mapping[str, object]) -> TieredFSError:
        distribute("mine", RAISES.format(statement=statement))
        with pytest.raises(TieredFSError) as caught:
            open_storage(memory, "mine", options)
        return caught.value

    return opened


Refused = Callable[[str, Mapping[str, object]], TieredFSError]


def test_an_option_that_is_missing_is_named(
    distribute: Distribute, memory: ObjectStore
) -> None:
    module = distribute("mine", NEEDS_A_BUCKET)
    message = "'{}' needs the option 'bucket'; its options: bucket, chunk"
    for name in ("mine", f"{module}:P"):
        for options in ({}, {"chunk": 1}):
            with pytest.raises(InvalidArgumentError, match=message.format(name)):
                open_storage(memory, name, options)
    assert vars(open_storage(memory, "mine", {"bucket": "b"}))["bucket"] == "b"


def test_an_option_that_is_unknown_is_named_with_the_plugin(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("mine", NEEDS_A_BUCKET)
    with pytest.raises(InvalidArgumentError, match=r"'mine' has no option 'buckte'"):
        open_storage(memory, "mine", {"buckte": "b"})


def test_a_constructor_that_takes_any_option_gets_them_by_their_names(
    distribute: Distribute, memory: ObjectStore
) -> None:
    distribute("mine", TAKES_ANY)
    for options in ({}, {"chunk": 1, "depth": 2}, {"options": 1}):
        assert vars(open_storage(memory, "mine", options))["options"] == options
    with pytest.raises(InvalidArgumentError, match=r"'mine'.* options store"):
        open_storage(memory, "mine", {"store": 1})


@pytest.mark.parametrize("statement", ["int(chunk)", "chunk + 1", "raise ValueError"])
def test_a_wrong_option_is_the_giver_s_mistake(
    refused: Refused, statement: str
) -> None:
    error = refused(statement, {"chunk": "many"})
    assert type(error) is InvalidArgumentError
    assert "'mine' cannot be opened with the options chunk: " in str(error)
    assert isinstance(error.__cause__, ValueError | TypeError)


def test_what_is_wrong_with_an_option_is_told(refused: Refused) -> None:
    assert "base 10: 'many'" in str(refused("int(chunk)", {"chunk": "many"}))


@pytest.mark.parametrize(
    "options",
    [
        {"api_token": "hunter2"},
        {"api_token": 42, "chunk": "hunter2"},
        {"more": ["hunter2"]},
        {"more": {"pem": "hunter2"}},
        {"chunk": "https://me:hunter2@example.org/"},
    ],
)
@pytest.mark.parametrize("error", ["ValueError", "RuntimeError"])
def test_no_secret_is_told(
    refused: Refused, options: Mapping[str, object], error: str
) -> None:
    raised = refused(f"raise {error}(f'{{chunk}} {{api_token}} {{more}}')", options)
    assert error in str(raised)
    assert "42" not in str(raised)
    assert "hunter2" not in _traceback(raised)


@pytest.mark.parametrize("where", ["from ValueError(api_token)", ""])
def test_what_an_error_of_ours_was_raised_from_tells_no_secret_either(
    refused: Refused, where: str
) -> None:
    statement = f"""
        import tieredfs
        try:
            raise ValueError(api_token)
        except ValueError:
            raise tieredfs.InvalidArgumentError("mine own") {where}"""
    error = refused(statement, {"api_token": "hunter2"})
    assert (type(error), str(error)) == (InvalidArgumentError, "mine own")
    assert "hunter2" not in _traceback(error)


def _traceback(error: TieredFSError) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("statement", "options"),
    [
        ("raise ValueError('none given')", {}),
        ("raise RuntimeError('no reason')", {"chunk": 1}),
        ("raise FileNotFoundError('no file')", {"chunk": 1}),
        ("raise SystemExit(3)", {"chunk": 1}),
        ("raise Ended", {}),
    ],
)
def test_what_else_a_constructor_raises_is_the_plugin_s_mistake(
    refused: Refused, statement: str, options: Mapping[str, object]
) -> None:
    error = refused(statement, options)
    assert type(error) is PluginError
    assert "plugin 'mine' cannot be opened: " in str(error)
    assert type(error.__cause__).__name__ in statement


@pytest.mark.parametrize("kind", [ClosedError, InvalidArgumentError])
def test_an_error_of_ours_passes_as_it_is(
    refused: Refused, kind: type[TieredFSError]
) -> None:
    name = kind.__name__
    statement = f"import tieredfs; raise tieredfs.{name}('mine own')"
    error = refused(statement, {"chunk": 1})
    assert (type(error), str(error)) == (kind, "mine own")


@pytest.mark.parametrize("statement", ["return self.args[5]", "exit()", "return 5"])
def test_an_error_that_cannot_say_what_it_is_is_named_by_its_class(
    distribute: Distribute, memory: ObjectStore, statement: str
) -> None:
    source = f"""
class Mute(Exception):
    def __str__(self):
        {statement}

class P(Base):
    def __init__(self, store):
        raise Mute
"""
    distribute("mine", source)
    with pytest.raises(PluginError, match=r"'mine' cannot be opened: Mute$"):
        open_storage(memory, "mine")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def __new__(cls, *arguments): return None", "makes a NoneType, not a Remote"),
        ("def __init__(self, store): pass", "keeps no store"),
    ],
)
def test_a_class_that_makes_no_storage_is_a_plugin_error(
    distribute: Distribute, memory: ObjectStore, body: str, said: str
) -> None:
    distribute("mine", f"class P(Base):\n    {body}\n")
    with pytest.raises(PluginError, match=f"'mine' cannot be opened: .*{said}"):
        open_storage(memory, "mine")


def test_an_interrupt_passes(distribute: Distribute, memory: ObjectStore) -> None:
    distribute("mine", RAISES.format(statement="raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        open_storage(memory, "mine")


def test_capabilities_may_be_those_of_one_storage(
    distribute: Distribute, memory: ObjectStore
) -> None:
    source = "    @property\n    def capabilities(self): return {Capability.WRITE}\n"
    head = "from tieredfs import Capability\nclass P(Base):\n"
    distribute("mine", head + source)
    assert open_storage(memory, "mine").capabilities == {Capability.WRITE}
