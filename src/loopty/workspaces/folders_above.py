"""The folders above a file of the repository."""

from __future__ import annotations


def folders_above(path: str) -> list[str]:
    """Its folder and those above that, the closest first, without the top. The path is as git writes it."""
    folders = []
    while path := path.rpartition("/")[0]:
        folders.append(path)
    return folders
