"""Which paths a proposal may change, which it may see, and which names git may be given."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from loopty.domain.errors import Misuse
from loopty.kit import paths
from loopty.kit.paths import name_as_read
from loopty.kit.tables import Table, option

TASK_FILE = "loopty.toml"
_NEVER_WRITABLE = (".git", "**/.git", ".loopty", TASK_FILE, "__pycache__", "**/__pycache__")
"""An interpreter would load byte code from the last two without a look at the source beside it."""
_LONGEST_PART, _LONGEST_PATH = 255, 1024  # in bytes, as file systems count
_KEY_NAMES = frozenset(
    {
        *(".env", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".aws", ".ssh"),
        *("id_rsa", "id_ecdsa", "id_ed25519"),
    }
)
_KEY_ENDINGS = (".pem", ".key", ".p12", ".pfx")
"""Trials see these: tests of network code have certificates of their own, and fail without them."""


class Access(Table):
    """Rules over repository paths; a rule is a file, a directory or a glob."""

    write: tuple[str, ...] = option("Files that a proposal may change, add or delete.", (), glob=True)
    read: tuple[str, ...] = option(
        "Files that a trial sees, besides the writable files and the benchmark's files. Files like `.env` and "
        "`id_rsa` only if a rule names them, too.",
        ("**",),
        glob=True,
    )
    hidden: tuple[str, ...] = option(
        "Files that no proposer and no trial sees; the benchmark still sees its own files.", (), glob=True
    )

    def is_writable(self, path: str) -> bool:
        return (
            is_clean_path(path)
            and paths.matches(path, self.write)
            and not self.is_hidden(path)
            and not _is_never_writable(path)
        )

    def is_visible(self, path: str) -> bool:
        """Say whether a proposer may see this file."""
        return (paths.matches(path, self.read) or paths.matches(path, self.write)) and not self.is_hidden(path)

    def is_hidden(self, path: str) -> bool:
        """Say whether no trial may see this: the task says so, or it is named as secrets are and no rule is."""
        if paths.matches(path, self.hidden):
            return True
        return _is_named_like_a_secret(path) and not paths.matches(
            path, filter(_is_named_like_a_secret, (*self.read, *self.write))
        )

    def is_hidden_from_tries(self, path: str) -> bool:
        """Say whether commands that a proposer chooses may not see it; a trial may, and shows it to no one."""
        return self.is_hidden(path) or (is_named_like_a_key(path) and not self.is_writable(path))

    def refusal(self, changed: Iterable[str]) -> str | None:
        """Tell why a change to these paths is refused, or None."""
        forbidden = sorted(path for path in changed if not self.is_writable(path))
        if not forbidden:
            return None
        named = ", ".join(forbidden[:3]) + (f" and {len(forbidden) - 3} more" if len(forbidden) > 3 else "")
        if all(map(_is_never_writable, forbidden)):
            never = f".git, .loopty, {TASK_FILE} or __pycache__"
            return f"may not change {named} (no rule allows {never}: leave them out)"
        allowed = ", ".join(self.write) or "nothing"
        if all(map(_is_named_like_a_secret, forbidden)):
            allowed += "; a file named like a secret only if a rule names it"
        return f"may not change {named} (writable: {allowed})"


def _is_never_writable(path: str) -> bool:
    return paths.matches(name_as_read(path), _NEVER_WRITABLE)


def is_named_like_a_key(path: str) -> bool:
    """Say whether a file here usually holds a key, even if no one meant to add it to the repository."""
    return _is_named_like_a_secret(path) or any(name.endswith(_KEY_ENDINGS) for name in path.lower().split("/"))


def _is_named_like_a_secret(path: str) -> bool:
    return any(name in _KEY_NAMES or name.startswith(".env.") for name in path.lower().split("/"))


@functools.lru_cache(maxsize=256)  # the same few files are changed again and again
def is_clean_path(path: str) -> bool:
    """Say whether git and every file system accept this as a plain relative path that stays inside."""
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return False
    return (
        len(raw) <= _LONGEST_PATH
        and b"\0" not in raw
        and all(len(part) <= _LONGEST_PART for part in raw.split(b"/"))
        and all(map(_is_plain, path.split("/")))
    )


def _is_plain(part: str) -> bool:
    """Say whether no file system reads this part as empty, `.`, `..` or git's own directory."""
    read = name_as_read(part).split(":")[0].rstrip(" .")
    return read not in ("", ".git", "git~1")


_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class ObjectName(str):
    """The name of a commit or a tree."""

    __slots__ = ()

    @classmethod
    def from_record(cls, text: str) -> ObjectName:
        """Return the name that a record holds. Raises Misuse for anything that is not 40 or 64 hex digits."""
        if not _OBJECT.fullmatch(text):
            raise Misuse(f"the record names the commit {text[:80]!r}, which no git made: it was changed by hand")
        return cls(text)


class TreePath(str):
    """The path of a file in the repository."""

    __slots__ = ()

    @classmethod
    def from_record(cls, text: str) -> TreePath:
        """Return the path that a record holds. Raises Misuse for one that is not relative or leads outside."""
        if not is_clean_path(text):
            raise Misuse(
                f"the record names the file {text[:80]!r}, which no commit can hold: it was changed by hand"
            )
        return cls(text)
