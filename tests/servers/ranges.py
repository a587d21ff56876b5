"""Files over HTTP, ranges included, to be read only."""

import functools
import http.server
import re
from pathlib import Path
from typing import Any

from typing_extensions import override

from servers.places import Bucket
from servers.web import Handler, WebThread


class RangeHTTP(WebThread):
    """The files of a folder, over HTTP; folders answer with a page of links."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(functools.partial(_RangeHandler, directory=str(root)))

    def storage_options(self, endpoint: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what fsspec's HTTP filesystem needs: the URL says it all."""
        return {}

    def make_bucket(self, name: str) -> None:
        """Make a folder."""
        (self.root / name).mkdir()

    def bucket(self, name: str, endpoint: str | None = None) -> Bucket:
        """Return how to get at a folder, through another endpoint if given."""
        return Bucket(f"{endpoint or self.endpoint}/{name}", {})


class _RangeHandler(Handler, http.server.SimpleHTTPRequestHandler):
    """Understands one range, half of which may be left out."""

    @override
    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            super().do_GET()
            return
        content = path.read_bytes()
        start = int(asked[1])
        end = min(int(asked[2] or len(content)) + 1, len(content))
        if start >= end:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(content[start:end])

    @override
    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()
