"""A real browser without a window, which says what a page looks like to a person.

Chromium speaks its DevTools protocol over two pipes: JSON, with a zero byte at the end
of each message.
"""

import base64
import itertools
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from servers.process import executable

__all__ = ["Browser", "OpenPage", "browser_running"]

_INSTALL: Final = "on Debian, apt-get install chromium"
_SECONDS: Final = 60
_OPTIONS: Final = (
    "--headless",
    "--no-sandbox",  # which root has not
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    # Nothing of its own goes to a network.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--remote-debugging-pipe",
)


class Browser:
    """A browser that opens pages, one after the other."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._numbers = itertools.count(1)
        self._received = b""

    def open(
        self, path: Path, *, width: int = 1180, height: int = 800, dark: bool = False
    ) -> "OpenPage":
        """Open a file in a tab of its own, in which no script runs.

        Args:
            path: The file.
            width: Of the window, in pixels.
            height: Of the window, in pixels.
            dark: Whether the user prefers dark colours.
        """
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        page = OpenPage(self, target, session["sessionId"])
        for domain in ("Page", "Network", "Log", "Accessibility"):
            page.ask(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.ask("Emulation.setEmulatedMedia", features=[scheme])
        page.ask("Emulation.setScriptExecutionDisabled", value=True)
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        page.ask("Emulation.setDeviceMetricsOverride", **size, mobile=False)
        page.ask("Page.navigate", url=path.absolute().as_uri())
        while not any(m["method"] == "Page.loadEventFired" for m in page.events):
            self._keep(self._receive(), page)
        return page

    def ask(
        self,
        method: str,
        page: "OpenPage | None" = None,
        **parameters: Any,  # noqa: ANN401 - the protocol's own
    ) -> dict[str, Any]:
        """Return the browser's answer; what happens meanwhile is kept for the page."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if page is not None:
            message["sessionId"] = page.session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while (found := self._receive()).get("id") != number:
            self._keep(found, page)
        assert "error" not in found, found
        answer: dict[str, Any] = found["result"]
        return answer

    def _keep(self, message: dict[str, Any], page: "OpenPage | None") -> None:
        if page is not None and message.get("sessionId") == page.session:
            page.events.append(message)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._received:
            left = end - time.monotonic()
            ready, _, _ = select.select([self._from_browser], [], [], max(0, left))
            assert ready, "the browser does not answer"
            data = os.read(self._from_browser, 1 << 16)
            assert data, "the browser has ended"
            self._received += data
        line, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@dataclass
class OpenPage:
    """A page in a browser.

    Attributes:
        browser: The browser.
        target: Its tab.
        session: Of the protocol.
        events: What has happened to it.
    """

    browser: Browser
    target: str
    session: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401
        """Ask the browser something about the page."""
        return self.browser.ask(method, self, **parameters)

    def value(self, expression: str) -> Any:  # noqa: ANN401 - what the page says
        """Return what an expression of ours is in the page."""
        asked = {"expression": expression, "returnByValue": True}
        answer = self.ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """Return a PNG of the whole page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def accessible(self) -> Iterator[tuple[str, str]]:
        """Yield the role and the name of what a screen reader would read."""
        for node in self.ask("Accessibility.getFullAXTree")["nodes"]:
            if not node["ignored"]:
                yield node["role"]["value"], node.get("name", {}).get("value", "")

    @property
    def requests(self) -> list[str]:
        """The URLs that the page has asked for."""
        return [
            message["params"]["request"]["url"]
            for message in self.events
            if message["method"] == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """What the browser has said against the page."""
        return [
            message["params"]["entry"]["text"]
            for message in self.events
            if message["method"] == "Log.entryAdded"
        ]

    def close(self) -> None:
        """Close the tab."""
        self.browser.ask("Target.closeTarget", targetId=self.target)


@contextmanager
def browser_running() -> Iterator[Browser]:
    """Start a browser that has never been used, and end it.

    Raises:
        NotInstalledError: There is none on this machine.
    """
    program = executable("chromium", _INSTALL)
    with ExitStack() as stack:
        # It may still write to it while it is removed.
        profile = stack.enter_context(
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        )
        its_end, to_browser = os.pipe()
        from_browser, its_other_end = os.pipe()
        stack.callback(os.close, to_browser)
        stack.callback(os.close, from_browser)
        # The protocol has its pipes at the numbers 3 and 4.
        script = f'exec "$@" 3<&{its_end} 4>&{its_other_end}'
        words = [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(  # noqa: S603 - a program of this machine
            ["/bin/bash", "-c", script, "bash", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(its_end, its_other_end),
            env={**os.environ, "HOME": profile},
        )
        os.close(its_end)
        os.close(its_other_end)
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield Browser(to_browser, from_browser)
