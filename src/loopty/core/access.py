"""Who may change and see what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loopty.core import globs
from loopty.core.option import option

TASK_FILE = "loopty.toml"
_OURS = (".git", "**/.git", ".loopty", TASK_FILE)


@dataclass(frozen=True, slots=True)
class Access:
    """Rules over repository paths; a rule is a file, a directory or a glob."""

    write: tuple[str, ...] = option("What a proposal may change, add or delete.", (), glob=True)
    read: tuple[str, ...] = option(
        "What a trial sees, besides what it may write and the benchmark's files.", ("**",), glob=True
    )
    hidden: tuple[str, ...] = option(
        "What no proposer and no trial sees; the benchmark's own files stay visible to it.", (), glob=True
    )

    def writable(self, path: str) -> bool:
        return (
            globs.matches(path, self.write)
            and not globs.matches(path, self.hidden)
            and not globs.matches(path, _OURS)
        )

    def visible(self, path: str) -> bool:
        """Whether a proposer may see this file."""
        return not globs.matches(path, self.hidden) and (
            globs.matches(path, self.read) or globs.matches(path, self.write)
        )

    def refusal(self, changed: Iterable[str]) -> str | None:
        """Why a change of these paths is refused, or None."""
        forbidden = sorted(path for path in changed if not self.writable(path) or not clean(path))
        if not forbidden:
            return None
        named = ", ".join(forbidden[:3]) + (f" and {len(forbidden) - 3} more" if len(forbidden) > 3 else "")
        allowed = ", ".join(self.write) or "nothing"
        return f"may not change {named} (writable: {allowed})"


def clean(path: str) -> bool:
    """Whether this is a plain relative path with no way out of the repository."""
    parts = path.split("/")
    return bool(path) and not any(part in ("", ".", "..") for part in parts) and "\0" not in path
