"""Take the screenshots of ``tieredfs report`` that the documentation shows.

    cd tests && python -m release.draw_reports

Each is what Chromium shows of the page of a topic in ``tests/data``. A PNG has the
digest of its page as a comment, so that a test sees when the page is another by now.
"""

import struct
import tempfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Final

from support.browser import browser_running
from support.kafka_data import KAFKA, LOCAL, REMOTE
from tieredfs import open_tier
from tieredfs.cli.picture.page import Page
from tieredfs.log.report.topic_report import report_topic

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = {
    ROOT / "docs" / "how-to" / "report-leader-changes.png": ("leader-changes", REMOTE),
    ROOT / "docs" / "how-to" / "report-compacted.png": ("compacted", LOCAL),
}
"""The files, and the topic and folder that each is of."""

_URL: Final = "s3://bucket/kafka-tier"
"""What the pages call the tier: a reader has no folder of tests."""

_WIDTH: Final = 1100
_KEYWORD: Final = b"tieredfs-page"
_HEADER_END: Final = 33  # the signature, and the chunk with the size of the picture


def page_of(topic: str, folder: str) -> bytes:
    """Return the page of a topic."""
    with open_tier(str(KAFKA / topic / folder)) as tier:
        opened = tier.topic(topic)
        readers = [opened.reader(number) for number in opened.partitions]
        report = report_topic(opened.name, str(opened.topic_id), readers)
    page = Page(_URL)
    page.add(report)
    return page.finish([])


def digest_of(page: bytes) -> bytes:
    """Return what a picture of the page contains."""
    return _KEYWORD + b"\0" + sha256(page).hexdigest().encode()


def _with_digest(png: bytes, page: bytes) -> bytes:
    """Return the picture with a chunk of text after its header."""
    body = b"tEXt" + digest_of(page)
    chunk = (
        struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    )
    return png[:_HEADER_END] + chunk + png[_HEADER_END:]


def main() -> None:
    """Write the pictures."""
    with browser_running() as browser, tempfile.TemporaryDirectory() as folder:
        for path, source in PICTURES.items():
            page = page_of(*source)
            file = Path(folder) / "page.html"
            file.write_bytes(page)
            # The window is low: the picture is as high as the page.
            shown = browser.open(file, width=_WIDTH, height=200)
            path.write_bytes(_with_digest(shown.picture(), page))
            shown.close()


if __name__ == "__main__":
    main()
