"""The programs and servers that a repository's own configuration would have git use.

A clone brings no configuration, but a repository that came as an archive, or that somebody else set up, does.
Hooks, monitors, pagers and diff programs are always off. Filters (git-lfs, git-crypt) and the server of a partial
clone have honest uses, so the user decides about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
