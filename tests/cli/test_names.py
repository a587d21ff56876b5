"""Names of paths, topics and records, which may hold any character, as shown."""

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.commands import Run, ours, run_process, run_with_terminal
from servers.process import executable
from tieredfs.cli.output.escapes import escape, escape_field, to_json

STDERR = frozenset({"stderr"})
TOPIC = "two-partitions"

# What rich would take for its markup, for an emoji or for a field to fill in.
MARKUP = [
    "a[bold]b",
    "a[/]b",
    "a:warning:b",
    "x{y}",
    "{0}{task.nosuch}",
    "%s%(x)s",
    "[link=file:x]",
    "two  spaces",
]
JOINERS = "\u200c\u200d"
ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "utf-8:strict"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]
in_every_encoding = pytest.mark.parametrize(
    "env", ENCODINGS, ids=lambda env: next(iter(env.values()))
)
names_like_markup = pytest.mark.parametrize("name", MARKUP)


def steers(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char not in JOINERS


@pytest.fixture
def copied(three: str, tmp_path: Path) -> Path:
    """A folder for copies of a tier, with one of the name ``tier``."""
    shutil.copytree(three, tmp_path / "tier")
    return tmp_path


class TestNamesThatLookLikeMarkup:
    @names_like_markup
    @pytest.mark.parametrize("verb", ["verify", "pull"])
    def test_a_bar_shows_a_path_as_it_is(
        self,
        verb: str,
        name: str,
        copied: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(copied)  # for a long path is cut
        Path(name).parent.mkdir(exist_ok=True)
        Path("tier").rename(name)
        target = ["back"] if verb == "pull" else []
        done, seen = run_with_terminal(verb, name, *target, on=STDERR)
        assert done.code == 0, seen
        assert name in seen

    @names_like_markup
    def test_a_table_shows_a_path_as_it_is(
        self, name: str, run: Run, tmp_path: Path
    ) -> None:
        done = run("cache", "show", "--cache-dir", str(tmp_path / name))
        assert (done.code, done.err) == (0, [])
        assert str(tmp_path / name) in done.text

    @names_like_markup
    def test_an_error_shows_a_path_as_it_is(
        self, name: str, run: Run, tmp_path: Path
    ) -> None:
        done = run("ls", str(tmp_path / name))
        assert done.code == 3
        assert str(tmp_path / name) in done.err[0]


class TestEncodings:
    @in_every_encoding
    def test_json_is_utf_8_whatever_the_locale(
        self, env: dict[str, str], copied: Path
    ) -> None:
        url = copied / "é日"
        (copied / "tier").rename(url)
        done = run_process("ls", str(url), "--json", env=env)
        assert (done.code, done.err) == (0, [])
        assert json.loads(done.out) == {"url": str(url), "topics": [TOPIC]}
        assert "é日" in done.out.decode()

    @in_every_encoding
    def test_what_the_encoding_does_not_have_is_escaped_in_a_table(
        self, env: dict[str, str], tmp_path: Path
    ) -> None:
        done = run_process(
            "cache", "show", "--cache-dir", str(tmp_path / "日"), env=env
        )
        assert (done.code, done.err) == (0, [])
        assert len(done.out.splitlines()) == 2

    @pytest.mark.parametrize("how", [[], ["--json"]], ids=str)
    def test_a_path_in_no_encoding_is_shown_by_its_bytes(
        self, how: list[str], copied: Path
    ) -> None:
        # Where the locale is a language's, what is written has to be text.
        env = ours({"PYTHONIOENCODING": "utf-8:strict"})
        directory = os.fsencode(copied) + b"/x\xff"
        command = "cache", "show", "--cache-dir", os.fsdecode(directory), *how
        done = subprocess.run(  # noqa: S603 - our own script
            [executable("tieredfs"), *command],
            capture_output=True,
            env=env,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"/x\\udcff" in done.stdout
        if how:
            said = json.loads(done.stdout)["directory"]
            assert os.fsencode(said) == directory

    def test_a_program_that_has_put_a_text_in_the_place_of_stdout_gets_json(
        self, three: str
    ) -> None:
        program = (
            "import contextlib, io, sys\n"
            "from tieredfs.cli import main\n"
            "out = io.StringIO()\n"
            "with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):\n"
            "    main(sys.argv[1:])\n"
            "print(out.getvalue(), end='')\n"
        )
        arguments = ["ls", three, "--json"]
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", program, *arguments], capture_output=True, check=True
        )
        assert done.stdout == run_process(*arguments).out


class TestEscapes:
    @given(st.text())
    @example("\x1b[2J\x9b31m \u202egnp.exe\u2028x\x7f\xad\ufeff\U000e0001")
    def test_nothing_that_is_shown_steers_a_terminal(self, text: str) -> None:
        for shown in (escape(text), escape_field(text), to_json({text: [text]})):
            assert [char for char in shown if steers(char)] == []

    @given(st.text(st.characters(codec="utf-8")))
    @example("\x7f\u202e\U000e0001")
    def test_json_holds_what_was_put_in_whatever_it_is(self, text: str) -> None:
        shown = to_json({"a": text})
        assert json.loads(shown.encode()) == {"a": text}

    @given(st.text(st.characters(codec="utf-8"), max_size=5))
    @example("नर\u200dनर\u200c")
    @example("👨\u200d👩 日本\u3000語 ünï")
    def test_letters_and_spaces_of_every_script_stay_as_they_are(
        self, text: str
    ) -> None:
        if not any(map(steers, text)):
            assert escape(text) == text

    def test_every_character_of_unicode_that_steers_is_escaped(self) -> None:
        every = "".join(map(chr, range(sys.maxunicode + 1)))
        kept = {char for char in every if not steers(char)}
        assert set(escape_field(every)) == kept
