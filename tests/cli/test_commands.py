"""The command, as a user meets it."""

import json
from pathlib import Path

import pytest

from tieredfs.cli import main
from tieredfs.cli.app import EXIT_CODES
from tieredfs.errors import ErrorKind

TOPIC = "two-partitions"


@pytest.fixture
def url(data: Path) -> str:
    return str(data / "kafka" / TOPIC / "kafka-tiered-storage")


def _run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out, err


def test_ls_lists_topics_and_partitions(
    capfd: pytest.CaptureFixture[str], url: str
) -> None:
    assert _run(capfd, "ls", url) == (0, f"{TOPIC}\n", "")
    code, out, _ = _run(capfd, "ls", url, TOPIC, "--json")
    ends = [row["end_offset"] for row in json.loads(out)["partitions"]]
    assert (code, ends) == (0, [255, 225, 250])


def test_cat_prints_records_as_json_lines(
    capfd: pytest.CaptureFixture[str], url: str
) -> None:
    arguments = ("--partition", "1", "--from", "7", "--to", "9", "--json")
    code, out, _ = _run(capfd, "cat", url, TOPIC, *arguments)
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [record["offset"] for record in records] == [7, 8]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ls",), 2),
        (("cat", "{url}", "../x"), 2),
        (("ls", "nosuch+file:///x"), 2),
        (("ls", "/nowhere/at/all"), 3),
        (("cat", "{url}", "nosuch"), 3),
        (("cat", "{url}", TOPIC, "--from", "999999"), 3),
    ],
)
def test_an_error_is_one_line_and_a_stable_code(
    capfd: pytest.CaptureFixture[str],
    url: str,
    arguments: tuple[str, ...],
    code: int,
) -> None:
    ended, out, err = _run(capfd, *(a.format(url=url) for a in arguments))
    assert (ended, out) == (code, "")
    assert err.startswith("tieredfs: ")
    assert err.count("\n") == 1


def test_every_kind_of_error_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(ErrorKind)
