"""Build the dashboard's page before a wheel or an sdist is made, if it is missing or older than its sources.

LOOPTY_WITHOUT_PAGE=1 leaves it out on purpose. An sdist has the built page, so a wheel from it needs no Node.
"""

import os
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "scripts"))
import page

_WAY_OUT = "LOOPTY_WITHOUT_PAGE=1 installs loopty without its dashboard"


class PageHook(BuildHookInterface):
    """Builds the page where hatchling builds loopty."""

    def dependencies(self) -> list[str]:
        """Name Node's package if the build needs it and this machine has no Node: pip fetches it for the build."""
        is_needed = not _is_left_out() and not page.is_built() and page.find_node() is None
        return [f"{page.NODE_PACKAGE}>=24"] if is_needed else []

    def initialize(self, version: str, _build_data: dict[str, object]) -> None:
        """Build the page. An editable install goes on without it: the dashboard says what is missing."""
        if _is_left_out():
            return
        try:
            page.build_page()
        except page.PageError as failure:
            text = f"the dashboard's page is not built: {failure}. {_WAY_OUT}"
            if version != "editable":
                self.app.abort(text)
            self.app.display_warning(text)


def _is_left_out() -> bool:
    return os.environ.get("LOOPTY_WITHOUT_PAGE", "0") not in ("", "0")
