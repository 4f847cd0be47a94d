"""Take the pictures of docs/pictures anew, from the dashboard of a repository that has a record.

Called as `python scripts/page_pictures.py REPOSITORY`; that of `make demo` will do (build/demo). It needs the
built page, Playwright and Chromium, which `make test` installs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from small_png import shrink_png

PICTURES = Path(__file__).parent.parent / "docs/pictures"
LAPTOP, LOW, PHONE = (1280, 800), (1280, 600), (390, 844)
WAIT_MS = 180_000
VIEWS = {
    "overview": ("#/overview", LAPTOP, "light"),
    "tree": ("#/tree", LOW, "dark"),
    "phone": ("#/overview", PHONE, "light"),
}


def main(repository: Path) -> None:
    command = [str(Path(sys.executable).with_name("loopty")), "dashboard", "--json"]
    PICTURES.mkdir(exist_ok=True)
    with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            take_pictures(json.loads(server.stdout.readline())["url"])
        finally:
            server.terminate()


def take_pictures(url: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (path, (width, height), theme) in VIEWS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
            )
            context.set_default_timeout(WAIT_MS)
            page = context.new_page()
            page.goto(url)
            page.goto(f"{url.partition('?')[0]}{path}")
            wait_for_drawing(page)
            page.screenshot(path=PICTURES / f"{name}.png")
            shrink_png(PICTURES / f"{name}.png")
            context.close()
        browser.close()


def wait_for_drawing(page: Page) -> None:
    """Until the main view is there and nothing of it is still on its way."""
    page.locator("main .card:visible").first.wait_for()
    page.wait_for_function("() => !document.querySelector('.bone, [aria-busy=true]')")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
