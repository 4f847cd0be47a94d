"""A browser, and a dashboard for it to open."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopty.kit.installation import working_program
from loopty.web.server import STATIC, Address, DashboardServer, PageAccess

from .story import HostileStory, make_page_repository, tell_run

WAIT_MS = 120_000
"""How long an event may take on a machine that is busy with other tests."""
LAPTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


CHROMIUM = next(filter(None, map(working_program, ("chromium", "chromium-browser", "google-chrome"))), None)


def missing() -> str:
    """Why no page can be opened here; empty: it can."""
    if not (STATIC / "index.html").exists():
        return "the page is not built: make page"
    if CHROMIUM is None:
        return "Chromium is missing, or does not run: install the package chromium of your system"
    return ""


@pytest.fixture(scope="module")
def browser():
    if reason := missing():
        pytest.skip(reason)
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
            timeout=WAIT_MS,
        )
        yield browser
        browser.close()


class Site:
    """A dashboard on a port of its own, in a thread of its own; it can end and begin again."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self.access: PageAccess | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/#token={self.access.token}"

    def start(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self.access = self.access or PageAccess(Address("127.0.0.1", self.port))
        ready = threading.Event()

        async def serve() -> None:
            server = DashboardServer(self.top, self.access)
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            ready.set()
            with contextlib.suppress(asyncio.CancelledError):
                await server.serve([listener])

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        assert ready.wait(60)

    def stop(self) -> None:
        if self._loop and self._task and self._thread and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(60)
            assert not self._thread.is_alive(), "the server does not end"


@contextlib.contextmanager
def serve_site(top: Path) -> Iterator[Site]:
    site = Site(top)
    site.start()
    try:
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Iterator[tuple[Site, HostileStory]]:
    """A run that is only looked at: all tests of a module share it."""
    top = tmp_path_factory.mktemp("page") / "work"
    make_page_repository(top)
    story = tell_run(top)
    with serve_site(top) as site:
        yield site, story


@contextlib.contextmanager
def open_page(browser, site: Site, size=None, theme="light", path=""):
    """A page that is logged in; what it complains of, and what it asks of other hosts, fails the test."""
    context = browser.new_context(viewport=size or LAPTOP, color_scheme=theme, reduced_motion="reduce")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if is_foreign(request.url, site) else None)
    page.on(
        "console",
        lambda message: complaints.append(message.text) if "Content Security Policy" in message.text else None,
    )
    try:
        page.goto(site.url)
        if path:
            page.goto(f"{site.origin}/{path}")
        yield page
        assert page.evaluate("() => window.hacked") is None
        assert complaints == []
    finally:
        context.close()


def is_foreign(url: str, site: Site) -> bool:
    return not url.startswith((site.origin, "data:", "about:"))
