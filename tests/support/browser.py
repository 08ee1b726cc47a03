"""A headless Chromium that tests share. Every wait has an end."""

import os
import shutil
import time
from pathlib import Path

import pytest

TIMEOUT = 60.0
"""Longest wait for anything [s]: a busy computer without a graphics card draws slowly."""
_HARMLESS = "Unable to preventDefault inside passive event listener"
"""What Chromium says about viser's way to listen to a mouse that drags."""
_CANDIDATES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium():
    """The browser's file; None if there is none. SAP_WARP_CHROMIUM names another one."""
    named = os.environ.get("SAP_WARP_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _CANDIDATES)), None)
    return found if found and Path(found).exists() else None


class Session:
    """A page and what its console said."""

    def __init__(self, page):
        self.page, self.errors = page, []
        page.set_default_timeout(1e3 * TIMEOUT)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _hear(self, message):
        if message.type == "error" and _HARMLESS not in message.text:
            self.errors.append(message.text)

    def open(self, viewer):
        """Show a viewer's page, and wait until its panel and its scene are there."""
        self.errors.clear()
        self.page.goto(viewer.url, wait_until="load")
        self.until(lambda: viewer._server.get_clients(), "the page to connect")
        self.button("Play").wait_for()

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def until(self, condition, what, timeout=TIMEOUT):
        """Wait for a condition; what the browser sends arrives meanwhile."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                pytest.fail(f"waited {timeout:g} s for {what}")
            self.page.wait_for_timeout(20)

    def picture(self):
        """What the page shows now, shape (height, width, 3), after frames that are under way."""
        import io

        import numpy as np
        from PIL import Image

        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        data = self.page.locator("canvas").first.screenshot()
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def open_session():
    """A generator for a fixture: a session in a fresh browser; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium here (SAP_WARP_CHROMIUM can name one)")
    # Mesa's software renderer is several times as fast as the browser's own
    drawing = ["--ignore-gpu-blocklist", "--use-gl=angle", "--use-angle=gl-egl"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", *drawing])
        try:
            yield Session(browser.new_page(viewport={"width": 640, "height": 480}))
        finally:
            browser.close()
