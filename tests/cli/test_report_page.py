"""The page of ``tieredfs report``, read as markup and looked at in a browser."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.commands import Run
from release.draw_reports import PICTURES, digest_of
from release.draw_reports import page_of as page_of_topic
from servers import NotInstalledError
from support.browser import Browser, OpenPage, browser_running
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.prerequisites import miss
from tieredfs.cli.picture.page import Page
from tieredfs.cli.picture.text import BLOCKS, TextPicture
from tieredfs.errors import CorruptDataError
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.report.composition import partition_report
from tieredfs.log.report.partition_report import OffsetRange, PartitionReport
from tieredfs.log.report.topic_report import TopicReport
from tieredfs.model import EpochEntry, SegmentId, SegmentMetadata, TopicIdPartition

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</title></style><script src=//x.invalid/x.js></script>",
    "a&lt;b]]>c<!--",
    "{{7*7}}${7*7}",
    "\u202egnp.exe\x1b[31m\x00\udcff",
]
Written: TypeAlias = Callable[[str, str], Path]
BOX = """(() => {{const box = document.querySelectorAll({selector!r})[{number}]
.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]}})()"""


class Look(Protocol):
    """Open a page in the browser."""

    def __call__(
        self, path: Path, *, width: int = 1180, dark: bool = False
    ) -> OpenPage:
        """Open it in a window of this width."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser of this worker's own."""
    try:
        with browser_running() as browser:
            yield browser
    except NotInstalledError as error:
        miss(str(error))


@pytest.fixture
def written(run: Run, tmp_path: Path) -> Written:
    """Make the page of a topic, and return its path."""

    def write(topic: str, folder: str) -> Path:
        page = tmp_path / f"{topic}.html"
        done = run("report", str(KAFKA / topic / folder), "--html", str(page))
        assert (done.code, done.err) == (0, [])
        return page

    return write


class Markup(HTMLParser):
    """What a page has, as a browser would read it."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self._open == [], "every element that is opened is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        """Return the values of an attribute."""
        return [value for found, value in self.attributes if found == name]


def report_of(name: str, *spans: tuple[int, int], partitions: int = 1) -> TopicReport:
    """Return the report of a topic whose partitions have segments of these offsets."""
    made = (partition_of("t", number, *spans) for number in range(partitions))
    return TopicReport(name, "id", tuple(made))


def two(name: str) -> TopicReport:
    """Return the report of a topic that has a table of its partitions."""
    return report_of(name, (0, 10), (5, 30), partitions=2)


def partition_of(
    name: str, number: int, *spans: tuple[int, int], count: int | None = -1
) -> PartitionReport:
    """Return the report of a partition of segments, half of whose offsets are empty.

    Args:
        name: The topic.
        number: The partition.
        spans: The offsets of the segments.
        count: The number of records of each, or None, where it is not a half.
    """
    partition = TopicIdPartition(name, number)
    segments = [
        SegmentMetadata(
            partition,
            SegmentId.from_bytes((at + 1).to_bytes(16, "big")),
            start,
            end - 1,
            1_700_000_000_000 + end,
            (EpochEntry(0, 0),),
            100,
            record_count=(end - start) // 2 if count == -1 else count,
        )
        for at, (start, end) in enumerate(sorted(spans))
    ]
    tiles: list[Tile] = []
    reached = 0
    for one in segments:
        end = (one.end_offset or 0) + 1
        if end > reached:
            tiles.append(Tile(one, max(reached, one.start_offset), end))
            reached = end
    return partition_report(partition, segments, tiles, stored_sizes={}, profiles={})


def page_of(
    *reports: TopicReport, url: str = "memory://tier", errors: tuple[str, ...] = ()
) -> bytes:
    page = Page(url)
    for report in reports:
        page.add(report)
    return page.finish([CorruptDataError(error) for error in errors])


class TestMarkup:
    def test_it_needs_nothing_but_itself(self, written: Written) -> None:
        data = written("leader-changes", REMOTE).read_bytes()
        markup = Markup(data)
        assert not {"script", "link", "img", "iframe", "object"} & markup.tags.keys()
        assert markup.values("src") == []
        assert all(href.startswith("#") for href in markup.values("href"))
        assert re.findall(rb"url\((?!#hatch\))|@import", data) == []
        (policy,) = (v for v in markup.values("content") if "default-src" in v)
        assert policy.startswith("default-src 'none'; style-src 'sha256-")

    def test_its_ids_are_unique_and_all_that_are_named_exist(self) -> None:
        reports = [report_of(f"t{n}", (0, 10), (5, 30)) for n in range(3)]
        markup = Markup(page_of(*reports))
        ids = markup.values("id")
        named = [
            *markup.values("aria-labelledby"),
            *markup.values("aria-describedby"),
            *(href.removeprefix("#") for href in markup.values("href")),
        ]
        assert len(ids) == len(set(ids))
        assert len(named) >= 9
        assert set(named) <= set(ids)

    @given(st.text(st.characters(), min_size=1))
    @example(HOSTILE[0])
    @example(HOSTILE[1])
    @example(HOSTILE[2])
    @example(HOSTILE[3])
    @example(HOSTILE[5])
    def test_a_name_adds_no_markup_whatever_it_is(self, name: str) -> None:
        plain, named = (
            Markup(page_of(two(n), url=n, errors=(n,))) for n in ("t", name)
        )
        assert named.tags == plain.tags
        names = [name for name, _ in named.attributes]
        assert names == [name for name, _ in plain.attributes]

    @given(
        st.lists(
            st.tuples(st.integers(0, 2**62), st.integers(1, 2**61)),
            min_size=1,
            max_size=20,
        )
    )
    def test_whatever_segments_there_are_everything_is_inside_the_chart(
        self, spans: list[tuple[int, int]]
    ) -> None:
        data = page_of(report_of("t", *((start, start + n) for start, n in spans)))
        for left, width in re.findall(
            rb'x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', data
        ):
            assert 0 <= float(left) <= float(left) + float(width) <= 1000

    def test_what_is_not_known_is_drawn_unlike_what_is_full(self) -> None:
        full, unknown = (
            page_of(TopicReport("t", "id", (partition_of("t", 0, (0, 10), count=n),)))
            for n in (10, None)
        )
        text = "not known how many of its offsets have a record"
        for page, count in ((full, 0), (unknown, 1)):
            blocks = [
                kinds
                for kinds in Markup(page).values("class")
                if kinds.startswith("block") and "uncounted" in kinds
            ]
            assert len(blocks) == 1 + count  # one is in the legend
            assert text in Markup(page).texts
        assert b".uncounted .fill{fill-opacity:" in unknown
        assert b"holes: not known" in unknown

    def test_the_legend_says_that_missing_is_what_cannot_be_read(self) -> None:
        texts = Markup(page_of(report_of("t", (0, 10)))).texts
        assert "missing: in no segment that can be read" in texts

    def test_a_size_that_is_not_known_is_said_to_be(self) -> None:
        whole = partition_of("t", 0, (0, 10))
        (one,) = whole.segments
        unknown = replace(
            whole, segments=(replace(one, segment=replace(one.segment, size=None)),)
        )
        report = TopicReport("t", "id", (unknown,))
        text = "\n".join(line.plain for line in TextPicture(80, BLOCKS).draw(report))
        for shown in (page_of(report).decode(), text):
            assert shown.count("size of the log not known") >= 2
            assert "- of log" not in shown

    def test_a_partition_of_which_nothing_can_be_read_is_a_gap(self) -> None:
        nothing = partition_report(
            TopicIdPartition("t", 0),
            [],
            [],
            left_out=[OffsetRange(5, 20)],
            stored_sizes={},
            profiles={},
        )
        data = page_of(TopicReport("t", "id", (nothing,)))
        assert b"<title>missing: 5 to 19</title>" in data
        assert "offsets 5 to 19 · no segment that can be read".encode() in data

    def test_it_stays_small_however_many_segments_there_are(self) -> None:
        one = page_of(report_of("t", *((at, at + 10) for at in range(0, 300_000, 10))))
        assert len(one) < 200_000
        said = re.search(rb"a block has up to (\d+) segments", one)
        assert said is not None
        # 30,000 of the same size in blocks of at least 3 of 894.
        assert int(said[1]) == pytest.approx(30_000 * 3 / 894, rel=0.1)

    def test_of_many_partitions_those_with_gaps_are_drawn(self) -> None:
        whole = [partition_of("t", number, (0, 10)) for number in range(500)]
        whole[321] = partition_of("t", 321, (0, 10), (20, 30))
        data = page_of(TopicReport("t", "id", tuple(whole)))
        assert len(data) < 500_000
        assert b"60 of 500 partitions drawn" in data
        assert b"<h3>t-321</h3>" in data
        assert b"<h3>t-499</h3>" not in data


def box(page: OpenPage, selector: str, number: int = 0) -> list[float]:
    """Return left and upper edge, width and height of what a person sees."""
    found: list[float] = page.value(BOX.format(selector=selector, number=number))
    return found


@pytest.fixture
def looked_at(browser: Browser) -> Iterator[Look]:
    """Open pages in the browser, and close them."""
    opened: list[OpenPage] = []

    def look(path: Path, *, width: int = 1180, dark: bool = False) -> OpenPage:
        opened.append(browser.open(path, width=width, dark=dark))
        return opened[-1]

    yield look
    for page in opened:
        page.close()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_of_the_documentation_is_that_of_the_page(picture: Path) -> None:
    shown = digest_of(page_of_topic(*PICTURES[picture])) in picture.read_bytes()
    assert shown, "take it again: cd tests && python -m release.draw_reports"


class TestInABrowser:
    def test_the_overlap_of_leader_changes_is_where_its_offsets_are(
        self, written: Written, looked_at: Look
    ) -> None:
        page = looked_at(written("leader-changes", REMOTE))
        left, top, width, height = box(page, ".scroll .overlap")
        axis_left, _, axis_width, _ = box(page, "line.axis")
        per_offset = axis_width / (4704 - 4291)
        assert left - axis_left == pytest.approx(48 * per_offset, abs=2)
        assert width == pytest.approx(205 * per_offset, abs=2)
        served = box(page, ".scroll .block.served .hull")
        unserved = box(page, ".scroll .block.unserved .hull")
        # One below the other, and both inside of the overlap.
        assert served[1] + served[3] <= unserved[1]
        assert top <= served[1]
        assert unserved[1] + unserved[3] <= top + height
        assert unserved[2] == pytest.approx(width, abs=2)

    def test_the_holes_of_compacted_are_most_of_its_bar(
        self, written: Written, looked_at: Look
    ) -> None:
        page = looked_at(written("compacted", LOCAL))
        # Of each segment, how much of its bar is filled.
        shares = page.value(
            """[...document.querySelectorAll('.scroll .block')].map(block => {
                const hull = block.querySelector('.hull').getBBox();
                const fill = block.querySelector('.fill');
                let inside = 0;
                for (let x = 0.5; x < 50; x++) for (let y = 0.5; y < 20; y++)
                    inside += fill.isPointInFill(new DOMPoint(
                        hull.x + hull.width * x / 50, hull.y + hull.height * y / 20));
                return inside / 1000})"""
        )
        kept = [72 / 386, 82 / 380, 81 / 322, 45 / 158, 39 / 121, 23 / 30, 1]
        assert shares == pytest.approx(kept, abs=0.05)
        assert page.value("document.querySelectorAll('.emptied').length") == 1

    def test_gaps_are_seen_and_hide_nothing_where_they_are_few(
        self, tmp_path: Path, looked_at: Look
    ) -> None:
        path = tmp_path / "page.html"
        spans = [(at, at + 9) for at in range(0, 10_000, 10)]
        path.write_bytes(
            page_of(
                report_of("one", (0, 400), (500, 1000)),
                report_of("tiny", (0, 50_000), (50_001, 100_000)),
                report_of("many", *spans),
            )
        )
        page = looked_at(path)
        one, tiny, many = (box(page, "figure .gap", number) for number in range(3))
        axis_left, _, axis_width, _ = box(page, "line.axis")
        lane = box(page, "figure .block .hull")[3]
        assert one[0] == pytest.approx(axis_left + 0.4 * axis_width, abs=2)
        assert one[2:] == pytest.approx([0.1 * axis_width, lane], abs=2)
        assert tiny[0] == pytest.approx(axis_left + 0.5 * axis_width, abs=3)
        assert tiny[2] >= 3
        assert many[2] == pytest.approx(axis_width, abs=5)
        assert many[3] < lane / 4

    @pytest.mark.parametrize("dark", [False, True])
    def test_text_has_contrast_in_light_and_in_dark(
        self, dark: bool, written: Written, looked_at: Look
    ) -> None:
        page = looked_at(written("leader-changes", REMOTE), dark=dark)
        for selector, behind in (
            ("h1", "body"),
            (".soft", "body"),
            ("figcaption p", "figure"),
            (".findings .overlap", ".findings .overlap"),
            ("svg .tick", "figure"),
            ("summary", "figure"),
        ):
            colour = "fill" if selector.startswith("svg") else "color"
            text = rgb(page, selector, colour)
            assert contrast(text, rgb(page, behind, "background-color")) >= 4.5
        bright = sum(rgb(page, "body", "background-color"))
        assert bright < 150 if dark else bright > 600

    def test_it_asks_for_nothing_and_the_browser_has_no_complaint(
        self, written: Written, looked_at: Look
    ) -> None:
        path = written("leader-changes", REMOTE)
        page = looked_at(path)
        assert page.requests == [path.as_uri()]
        assert page.complaints == []
        # The policy lets its own style in: without it there would be no card.
        assert page.value(
            "getComputedStyle(document.querySelector('figure')).borderRadius"
        )

    def test_hostile_names_are_only_shown(
        self, tmp_path: Path, looked_at: Look
    ) -> None:
        path = tmp_path / "page.html"
        reports = [two(name) for name in HOSTILE]
        path.write_bytes(page_of(*reports, url=HOSTILE[2], errors=tuple(HOSTILE)))
        page = looked_at(path)
        assert page.value("document.title") == f"tieredfs report: {HOSTILE[2]}"
        assert page.value("document.querySelectorAll('script, img').length") == 0
        shown = page.value(
            "[...document.querySelectorAll('h2')].map(h => h.textContent)"
        )
        assert shown[:5] == HOSTILE[:5]
        assert shown[5] == r"\u202egnp.exe\x1b[31m\x00\udcff"
        assert page.requests == [path.as_uri()]

    def test_a_screen_reader_is_told_what_is_drawn(
        self, written: Written, looked_at: Look
    ) -> None:
        found = list(looked_at(written("leader-changes", REMOTE)).accessible())
        assert ("image", "leader-changes-0") in found
        assert (
            "DisclosureTriangle",
            "Segments of leader-changes-0 as a table",
        ) in found
        roles = Counter(role for role, _ in found)
        assert roles["main"] == 1
        assert roles["heading"] == 3
        blocks = [name for role, name in found if name.startswith("segment from")]
        assert sum("not served from here" in name for name in blocks) == 1

    def test_the_keyboard_reaches_the_table_and_opens_it(
        self, written: Written, looked_at: Look
    ) -> None:
        page = looked_at(written("leader-changes", REMOTE))
        reached = []
        for _ in range(2):
            press(page, "Tab", 9)
            reached.append(page.value("document.activeElement.outerHTML.slice(0, 19)"))
        assert reached[0] == '<div class="scroll"'
        assert reached[1].startswith("<summary>")
        assert not page.value("document.querySelector('details').open")
        press(page, "Enter", 13, "\r")
        assert page.value("document.querySelector('details').open")
        rows = page.value("document.querySelectorAll('tbody tr').length")
        assert rows == 3

    def test_a_narrow_window_scrolls_the_chart_and_not_the_page(
        self, written: Written, looked_at: Look
    ) -> None:
        page = looked_at(written("compacted", LOCAL), width=400)
        assert page.value("document.documentElement.scrollWidth") <= 400
        assert box(page, ".scroll svg")[2] > 400
        wide = looked_at(written("compacted", LOCAL), width=1180)
        assert wide.value(
            "[...document.querySelectorAll('.scroll')]"
            ".every(e => e.scrollWidth <= e.clientWidth)"
        )

    def test_no_label_leaves_the_chart_or_covers_its_neighbour(
        self, tmp_path: Path, looked_at: Look
    ) -> None:
        path = tmp_path / "page.html"
        huge = 2**62
        reports = [
            report_of("small", (0, 3)),
            report_of("large", (0, 10**8), (10**8 // 2, 10**8 + 10**6)),
            report_of("huge", (huge, huge + 10**17)),
        ]
        path.write_bytes(page_of(*reports))
        page = looked_at(path)
        outside = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
            const room = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < room.left - 1 || box.right > room.right + 1;
            }).map(text => text.textContent)})"""
        assert page.value(outside) == []
        covered = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('.tick, .label')]
                .map(text => text.getBoundingClientRect());
            return boxes.flatMap((one, n) => boxes.slice(n + 1).filter(other =>
                one.left < other.right - 1 && other.left < one.right - 1
                && one.top < other.bottom - 4 && other.top < one.bottom - 4)
                .map(other => [one.left, one.top, other.left, other.top]))})"""
        assert page.value(covered) == []


def press(page: OpenPage, key: str, code: int, text: str = "") -> None:
    """Press a key as a person does."""
    for kind in ("keyDown", "keyUp"):
        page.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            **({"text": text} if text and kind == "keyDown" else {}),
        )


def rgb(page: OpenPage, selector: str, what: str) -> list[float]:
    """Return a colour of an element, from 0 to 255."""
    said = page.value(
        f"getComputedStyle(document.querySelector({selector!r}))"
        f".getPropertyValue({what!r})"
    )
    return [float(number) for number in re.findall(r"[\d.]+", said)[:3]]


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = [part / 255 for part in colour]
    red, green, blue = (
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
