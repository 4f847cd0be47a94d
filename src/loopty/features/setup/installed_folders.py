"""Folders that a tool filled: environments with packages, and builds. None of their files is a source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ENVIRONMENT = re.compile(r"^(?:(.+)/)?(?:pyvenv\.cfg|conda-meta/[^/]+)$")
_NODE = re.compile(r"^((?:.+?/)?node_modules)/")
_BUILT = re.compile(
    r"^(.+)/(?:CACHEDIR\.TAG|\.rustc_info\.json|CMakeCache\.txt|(?:lib|temp|bdist)\.[\w.-]+/.*|meson-info/.*)$"
)
"""What a tool leaves in a folder of its own: cargo, CMake, setuptools, meson."""


def environment_folders(files: Sequence[str]) -> list[str]:
    """List the outermost folders with installed packages among these files: of Python, conda and Node."""
    return _outermost(
        found[1]
        for path in files
        for pattern in (_ENVIRONMENT, _NODE)
        if (found := pattern.match(path)) and found[1]
    )


def without_installed(files: Sequence[str]) -> Sequence[str]:
    """Leave out files of environments and of builds."""
    built = (found[1] for path in files if (found := _BUILT.match(path)))
    folders = _outermost((*environment_folders(files), *built))
    if not folders:
        return files
    starts = tuple(f"{folder}/" for folder in folders)
    return [path for path in files if not path.startswith(starts)]


def _outermost(folders: Iterator[str] | Sequence[str]) -> list[str]:
    found: list[str] = []
    for folder in sorted(set(folders), key=len):
        if not any(folder.startswith(f"{above}/") for above in found):
            found.append(folder)
    return sorted(found)
