# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headless Chromium (profile browser of bindep.txt), spoken to over two pipes: its DevTools protocol without a library.

It looks at pages of this machine only: no proxy, no profile that lasts, no component that is fetched.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # a container's root has no right to make one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--remote-debugging-pipe",
)
# How wide a page is: a desk, a phone.
DESK, PHONE = 1280, 390


class Browser:
    """A browser with one tab."""

    def __init__(self, directory: Path, seconds: float = 120.0) -> None:
        """directory: for its profile; seconds: how long any answer may take."""
        self.seconds = seconds
        self.events: list[Json] = []
        self._number = 0
        self._buffer = b""
        self._answers: dict[int, Json] = {}
        program = shutil.which("chromium")
        assert program, "chromium is missing: tools/apt-install --profile browser"
        self._in, theirs_in = os.pipe()
        theirs_out, self._out = os.pipe()

        # The protocol has the descriptors 3 and 4, whatever the numbers are here. A shell moves them: nothing runs between fork and exec.
        command = [program, *_FLAGS, f"--user-data-dir={directory / 'profile'}", "about:blank"]
        moved = f'exec 8<&{theirs_out} 9>&{theirs_in}; exec 3<&8 4>&9 8<&- 9>&-; exec "$@"'
        self._log = (directory / "chromium.log").open("wb")
        self.process = subprocess.Popen(
            ["bash", "-c", moved, "bash", *command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(theirs_in, theirs_out),
            start_new_session=True,
            env={**os.environ, "HOME": str(directory)},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """Ends the browser and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for descriptor in (self._in, self._out):
            os.close(descriptor)
        self._log.close()

    def call(self, method: str, **params: Any) -> Json:
        """The result of a command of the protocol."""
        self._number += 1
        number = self._number
        request: Json = {"id": number, "method": method, "params": params}
        if hasattr(self, "_session"):
            request["sessionId"] = self._session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        until = time.monotonic() + self.seconds
        while number not in self._answers:
            self._read(until, method)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Json = answer["result"]
        return result

    def _read(self, until: float, what: str) -> None:
        ready, _writable, _failed = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"chromium has not answered in {self.seconds:g} s: {what}"
        data = os.read(self._in, 1 << 20)
        assert data, f"chromium has ended: {what}"
        *messages, self._buffer = (self._buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)

    def wait_for(self, method: str) -> Json:
        """The next event of that name."""
        until = time.monotonic() + self.seconds
        while True:
            for position, event in enumerate(self.events):
                if event["method"] == method:
                    return self.events.pop(position)
            self._read(until, method)

    def look(self, dark: bool = False, width: int = DESK, medium: str = "screen") -> None:
        """How the page is shown from now on."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844 if phone else 900,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def open(self, page: Path) -> float:
        """Opens a page; how many seconds it took until all of it was loaded, laid out and painted."""
        self.events.clear()
        started = time.monotonic()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("Page.loadEventFired")
        # what is seen first is drawn when a second frame is asked for
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.monotonic() - started

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console has said since the page was opened."""
        said = []
        for event in self.events:
            if event["method"] == "Log.entryAdded":
                said.append(event["params"]["entry"]["text"])
            elif event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                said.append(json.dumps(event["params"]))
        return said

    def screenshot(self, path: Path, most: int = 16_000, sort: str = "png") -> None:
        """All of the page as a picture (png or webp), but no more than that many pixels of its height."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        data = self.call("Page.captureScreenshot", format=sort, captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def printed(self, path: Path) -> None:
        """The page as it is printed, as PDF on A4."""
        data = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def a_browser(directory: Path, seconds: float = 120.0) -> Iterator[Browser]:
    """A browser that is gone afterwards."""
    browser = Browser(directory, seconds)
    try:
        yield browser
    finally:
        browser.close()
