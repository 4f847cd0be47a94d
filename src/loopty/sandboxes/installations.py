"""Installations that trials may see, never settings or keys: in the user's home, Python environments, and those
that git ignores.

A task file may come from anybody, and its command decides which of these are shown. So only folders of this list
are shown, each of which a tool fills with programs and published packages.
"""

from __future__ import annotations

import ast
import fnmatch
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopty.kit.records import Record

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
    """Find the folder or file to show for a program in the user's home; None if no installation is known.

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
    """Yield the path and, link by link, what it leads to."""
    for _ in range(16):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    yield path.resolve()


_MAPPING = re.compile(r"^MAPPING\b[^=\n]*= (\{.*\})$", re.MULTILINE)


def is_virtual_environment(folder: Path) -> bool:
    """Say whether this folder is a virtual or a conda environment."""
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def interpreter_installations(folder: Path, home: Path) -> Iterator[Path]:
    """Yield the installations in the user's home to which the environment's interpreter leads.

    An environment may come with a stranger's repository, so it cannot name any other folder.
    """
    for step in steps_to(folder / "bin" / "python"):
        if not step.is_relative_to(folder) and (found := installation_of(step, home)):
            yield found


def editable_folders(folder: Path, top: Path) -> Iterator[str]:
    """Yield the folders of the repository, from its top, that the environment imports from: editable installs."""
    for packages in sorted(folder.glob("lib/python*/site-packages")):
        lines = [line.strip() for file in sorted(packages.glob("*.pth")) for line in _text(file).splitlines()]
        named = [Path(line) for line in lines if line.startswith("/")]
        finders = sorted(packages.glob("__editable___*_finder.py"))
        for path in dict.fromkeys((*named, *(root for finder in finders for root in _finder_roots(finder)))):
            if path.is_relative_to(top):
                yield str(path.relative_to(top))


def _finder_roots(finder: Path) -> Iterator[Path]:
    """Yield the folders that hold the packages which a finder of setuptools maps to their paths."""
    found = _MAPPING.search(_text(finder))
    try:
        mapping = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    for name, place in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(name, str) and isinstance(place, str) and Path(place).name == name:
            yield Path(place).parent


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")


def package_list(folder: Path) -> list[str]:
    """List the packages of the environment with their versions, by the names of their folders."""
    if (folder / "conda-meta").is_dir():
        return sorted(file.name for file in (folder / "conda-meta").glob("*.json"))
    return sorted(found.name for found in folder.glob("lib/python*/site-packages/*-info"))


_MAX_ENVIRONMENTS = 32
_NODE = "node_modules"
_NODE_RECORDS = (".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml")
"""Where npm, pnpm and yarn record what they installed."""


class RepositoryEnvironment(Record):
    """A folder of packages that the trial sees at its own place in the tree, read-only."""

    path: str
    """From the top of the repository."""
    folder: Path

    @property
    def programs(self) -> str:
        """Return its folder of programs, from the top of the repository."""
        return f"{self.path}/{'.bin' if self.folder.name == _NODE else 'bin'}"

    @property
    def digest(self) -> str:
        """Tell what is installed, from the installer's records: cheap, and the same after another install."""
        if self.folder.name == _NODE:
            records = [self.folder / name for name in _NODE_RECORDS]
            known = next((record.read_bytes() for record in records if record.is_file()), None)
            installed = (
                known if known is not None else "\n".join(sorted(e.name for e in self.folder.iterdir())).encode()
            )
        else:
            installed = "\n".join(package_list(self.folder)).encode()
        return hashlib.sha256(installed).hexdigest()[:8]


def repository_environments(top: Path, paths_that_git_ignores: Iterable[str]) -> list[RepositoryEnvironment]:
    """List the environments among the paths that git ignores. A link is none: it could lead anywhere."""
    return list(_environments(top, paths_that_git_ignores))[:_MAX_ENVIRONMENTS]


def _environments(top: Path, paths_that_git_ignores: Iterable[str]) -> Iterator[RepositoryEnvironment]:
    for path in paths_that_git_ignores:
        folder = top / path
        is_environment = folder.name == _NODE or is_virtual_environment(folder)
        if is_environment and folder.is_dir() and folder.resolve() == folder:
            yield RepositoryEnvironment(path, folder)


_PACKAGES = "node_modules"


def program_folders(program: Path, home: Path) -> Iterator[Path]:
    """Yield the folders and files that this program needs, link by link, wherever it is installed.

    For programs that the user chose: a task file cannot name a path here.
    """
    for step in steps_to(program):
        if (packages := _outermost_packages(step)) is not None:
            yield packages
        elif (environment := next(filter(is_virtual_environment, step.parents), None)) is not None:
            yield environment
            yield from interpreter_installations(environment, home)
        else:
            yield installation_of(step, home) or step


def _outermost_packages(path: Path) -> Path | None:
    """Find the outermost folder of npm packages around this path: packages load others beside them."""
    return next((above for above in reversed(path.parents) if above.name == _PACKAGES), None)
