"""Installations in the user's home that trials may see: programs and packages, never settings or keys.

A task file may come from anybody, and its command decides which of these are shown. So only folders of this list
are shown, each of which a tool fills with programs and published packages.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path

_FOLDERS = (
    ".pyenv/versions/*",
    ".local/share/uv/python/*",
    ".local/share/uv/tools/*",
    ".local/share/pypoetry/venv",
    ".local/share/pipx/venvs/*",
    ".local/pipx/venvs/*",
    ".cache/pypoetry/virtualenvs/*",
    ".local/share/virtualenvs/*",
    ".virtualenvs/*",
    ".rye/py/*",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba/envs/*",
    ".conda/envs/*",
    ".nvm/versions/node/*",
    ".fnm/node-versions/*",
    ".local/share/fnm/node-versions/*",
    ".volta/tools/image/*/*",
    ".asdf/installs/*/*",
    ".local/share/mise/installs/*/*",
    ".sdkman/candidates/*/*",
    ".cargo/bin",
    ".rustup/toolchains/*",
    ".deno/bin",
    ".bun/bin",
    "go/bin",
    "sdk/go*",
    ".ghcup/bin",
    ".juliaup/bin",
)
"""Below the home directory. A star is one part of a path, so no installation shows another."""
_SINGLE_FILES = (".local/bin/*", "bin/*")
"""Folders in which people keep all kinds of programs: only the program itself is shown."""


def installation_of(program: Path, home: Path) -> Path | None:
    """The folder or file to show for a program in the user's home; None where no installation is known.

    The path is not resolved: call it for the path and for what it leads to.
    """
    for patterns, is_file in ((_FOLDERS, False), (_SINGLE_FILES, True)):
        for pattern in patterns:
            wanted = pattern.split("/")
            if not program.is_relative_to(home):
                return None
            parts = program.relative_to(home).parts
            if len(parts) < len(wanted) or (is_file and len(parts) != len(wanted)):
                continue
            if all(fnmatch.fnmatchcase(part, glob) for part, glob in zip(parts, wanted, strict=False)):
                return home.joinpath(*parts[: len(wanted)])
    return None


def steps_to(path: Path) -> Iterator[Path]:
    """The path and, link by link, what it leads to."""
    for _ in range(16):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    yield path.resolve()
