"""The git configuration of a repository as git lists it, and the programs and servers that it would have git use.

To start git takes longer than to look at these files. Only where we know every file that decides: a configuration
that includes others, or that working trees share, is listed each time.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping

from loopty.kit.kept_files import KeptAnswers

_YOUNG_NS = 2_000_000_000
"""A file that was written just now may be written again without a new time."""
_MOST_KNOWN = 8
_ASKED_FOR = ("gc.auto", "loopty.branches")
_KEPT = KeptAnswers("git-settings", 64)
"""The listings of other processes. Whoever replaces a file can give it any `mtime`, but no former `ctime`."""

State = tuple[tuple[int, ...] | None, ...]
"""Which files there are, and when each was changed."""

_known: dict[tuple[str, ...], tuple[State, str]] = {}
"""The listings, by git directory and the variables that say where the user's files are."""


def settings_listing(git_dir: str, env: Mapping[str, str], ask: Callable[[], str]) -> str:
    """Return the configuration, from `ask` unless it is known."""
    key, state = _key(git_dir, env), settings_state(git_dir, env)
    if (known := _known.get(key)) and known[0] == state:
        return known[1]
    _known.pop(key, None)
    if state is None:
        return ask()
    question = repr((key, state, _file_state(shutil.which("git") or "")))
    listing = _KEPT.find(question)
    if not isinstance(listing, str):
        listing = ask()
        if "\0include" in listing or settings_state(git_dir, env) != state:
            return listing
        if not program_settings(listing):
            _KEPT.keep(question, _without_secrets(listing))
    _known[key] = state, listing
    while len(_known) > _MOST_KNOWN:
        del _known[next(iter(_known))]
    return listing


def _without_secrets(listing: str) -> str:
    """Keep only what loopty asks for: a configuration may hold secrets, which belong in no other file."""
    parts = listing.split("\0")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    kept = (pair for pair in pairs if pair[0] == "command" or pair[1].partition("\n")[0] in _ASKED_FOR)
    return "".join(f"{scope}\0{setting}\0" for scope, setting in kept)


def settings_state(git_dir: str, env: Mapping[str, str]) -> State | None:
    """List the files that decide how git works here; None if others may, or one was written just now."""
    if os.path.lexists(f"{git_dir}/commondir"):
        return None
    home = env.get("HOME", "")
    folder = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = ("config", "config.worktree", "info/attributes", "info/grafts", "shallow", "objects/info/alternates")
    users = ("/etc/gitconfig", "/etc/gitattributes", f"{home}/.gitconfig")
    paths = (*(f"{git_dir}/{name}" for name in own), *users, f"{folder}/git/config", f"{folder}/git/attributes")
    state = tuple(map(_file_state, (git_dir, f"{git_dir}/objects", *paths)))
    files = (one for one in state[2:] if one)
    youngest = max((max(one[-2:]) for one in files), default=0)
    return state if youngest < time.time_ns() - _YOUNG_NS else None


def _file_state(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - many for each piece of work
    except OSError:
        return None
    if os.path.isdir(path):  # noqa: PTH112 - which one it is; its content changes with each object
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _key(git_dir: str, env: Mapping[str, str]) -> tuple[str, ...]:
    names = ("GIT_CONFIG", "HOME", "XDG_")
    return git_dir, *sorted(f"{name}={value}" for name, value in env.items() if name.startswith(names))


# A clone brings no configuration, but a repository that came as an archive, or that somebody else set up, does.
# Hooks, monitors, pagers and diff programs are always off. Filters (git-lfs, git-crypt) and the server of a
# partial clone have honest uses, so the user decides about them.


_OWN_SCOPES = ("local", "worktree")
_FILTER = r"(?s)filter\..+\.(clean|smudge|process)"
_PARTIAL_CLONE = r"(?s)extensions\.partialclone|remote\..+\.(promisor|partialclonefilter)"
_TRANSFER = (
    r"(?s)core\.(sshcommand|gitproxy|askpass)|ssh\.variant|(credential|http|protocol|url)\..+"
    r"|remote\..+\.(url|uploadpack|vcs|proxy)"
)
"""What decides how objects are fetched; it counts in a partial clone, where git fetches whatever is missing."""
LIST_OPTIONS = ("config", "--list", "-z", "--show-scope")


def program_settings(listing: str) -> dict[str, str]:
    """Return the settings that choose programs or servers, by key, from what git prints for `LIST_OPTIONS`."""
    own = dict(_own_settings(listing))
    patterns = [_FILTER]
    if any(re.fullmatch(_PARTIAL_CLONE, key) for key in own):
        patterns += [_PARTIAL_CLONE, _TRANSFER]
    return {key: value for key, value in own.items() if value and any(re.fullmatch(p, key) for p in patterns)}


def settings_text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {value!r}" for key, value in settings.items())


def _own_settings(listing: str) -> Iterable[tuple[str, str]]:
    parts = listing.split("\0")
    for scope, setting in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = setting.partition("\n")
        if scope in _OWN_SCOPES:
            yield key, value
