"""Trials run the same programs as the user's shell: its `python3`, what their commands call, and the caches of
package tools.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loopty.domain.access import is_clean_path
from loopty.kit.kept_files import ProgramAnswers
from loopty.kit.records import Record, field
from loopty.sandboxes.installations import (
    installation_of,
    interpreter_installations,
    is_virtual_environment,
    steps_to,
)

# Every sandbox shows these anyway.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")


class Toolchain(Record):
    """Directories outside the system's that trials need, and the trials' search path and variables."""

    prefixes: tuple[Path, ...]
    path: str
    variables: Mapping[str, str] = field(default_factory=dict)
    installations: tuple[str, ...] = ()
    """Names of the installations that the commands need besides Python."""


def user_toolchain(
    programs: Collection[str] = (),
    top: Path | None = None,
    environments: Sequence[Path] = (),
    answers: ProgramAnswers | None = None,
) -> Toolchain:
    """Find the user's Python with its environment, and what the called programs need, except the system's.

    `top` is the repository. `environments` are inside it and shown there, so they are no part of the toolchain;
    their interpreters are. `answers` are what programs have said about themselves.
    """
    home = _home()
    python = _user_python(answers or ProgramAnswers())
    caches = list(tool_caches(programs, top, home, os.environ))
    found = [
        *(path for name in sorted(programs) for path in _program_installations(name, home)),
        *(path for cache in caches for path in cache.folders),
        *(path for folder in environments for path in interpreter_installations(folder, home)),
    ]
    # A tool may be an environment itself, whose interpreter is elsewhere.
    found += [
        path
        for folder in found
        if is_virtual_environment(folder)
        for path in interpreter_installations(folder, home)
    ]
    extra = [path for path in found if not _is_below(path, environments)]
    needed = list(_outermost((*(python.prefixes if python else ()), *extra), environments))
    shown = [*map(Path, _SYSTEM), *needed, *environments]
    active = next((cache.variables["VIRTUAL_ENV"] for cache in caches if "VIRTUAL_ENV" in cache.variables), None)
    first = [*([f"{active}/bin"] if active else []), *([str(python.executable.parent)] if python else [])]
    rest = [
        entry
        for entry in os.environ.get("PATH", "").split(":")
        if entry and (_is_below(Path(entry), shown) or any(path.parent == Path(entry) for path in needed))
    ]
    return Toolchain(
        tuple(needed),
        ":".join(dict.fromkeys([*first, *rest, "/usr/bin", "/bin"])),
        {name: value for cache in caches for name, value in cache.variables.items()},
        tuple(sorted({str(path.resolve()).removeprefix(f"{home}/") for path in extra})),
    )


def _home() -> Path:
    """Return the user's home; a user without an entry in the list of users may have none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _outermost(prefixes: Iterable[Path], environments: Sequence[Path]) -> Iterator[Path]:
    """Yield the prefixes that neither the system, nor an environment, nor another prefix shows."""
    needed, known = [*map(Path, _SYSTEM), *environments], list(prefixes)
    # Under both its own and its resolved name: links in an environment point at either.
    for prefix in dict.fromkeys((*known, *(prefix.resolve() for prefix in known))):
        if not _is_below(prefix, needed):
            needed.append(prefix)
            yield prefix


def _program_installations(name: str, home: Path) -> Iterator[Path]:
    """Yield the installations in the user's home to which a program of the user's search path leads."""
    if (program := shutil.which(name)) is None:
        return
    for step in steps_to(Path(program)):
        if (found := installation_of(step, home)) and found.exists():
            yield found


def is_shown_by_default(path: Path, prefixes: tuple[Path, ...]) -> bool:
    """Say whether every sandbox shows this path, given the prefixes of the user's toolchain."""
    return _is_below(path, [*map(Path, _SYSTEM), *prefixes])


class _Python(Record):
    executable: Path
    prefixes: tuple[Path, ...]


def _user_python(answers: ProgramAnswers) -> _Python | None:
    python = shutil.which("python3")
    if python is None:
        return None
    if Path(python).resolve() == Path(sys.executable).resolve():
        if Path(python).parent == Path(sys.prefix, "bin"):
            return _Python(Path(python), (Path(sys.base_prefix), Path(sys.prefix)))
        if not any((folder / "pyvenv.cfg").exists() for folder in Path(python).parents[:2]):
            return _Python(Path(python), (Path(sys.base_prefix),))
    # It may be a shim that picks the real interpreter by its own rules, so we ask it.
    script = "import sys; print(sys.executable, sys.base_prefix, sys.prefix, sep='\\n')"
    try:
        executable, *prefixes = answers.output(python, "-I", "-c", script).splitlines()
    except ValueError:
        return None
    return _Python(Path(executable), tuple(map(Path, prefixes)))


def _is_below(path: Path, prefixes: Sequence[Path]) -> bool:
    return any(path == prefix or prefix in path.parents for prefix in prefixes)


_TEMPORARY = "/tmp"


class ToolCache(Record):
    """Folders to show, and variables to set."""

    folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def tool_caches(
    programs: Collection[str], top: Path | None, home: Path, environ: Mapping[str, str]
) -> Iterator[ToolCache]:
    """Yield the caches of those tools that are among the programs."""
    for names, find in _TOOLS.items():
        if any(name in programs for name in names):
            yield find(top, home, environ)


def _cargo(top: Path | None, home: Path, environ: Mapping[str, str]) -> ToolCache:
    cargo = Path(environ.get("CARGO_HOME") or home / ".cargo")
    rustup = Path(environ.get("RUSTUP_HOME") or home / ".rustup")
    # Not all of it: it also holds the tokens of registries. Sources from git only where the lock file names one.
    folders = [cargo / "bin", cargo / "registry", rustup]
    if top is not None and "git+" in _text(top / "Cargo.lock"):
        folders.append(cargo / "git")
    variables = {
        "CARGO_HOME": str(cargo),
        "RUSTUP_HOME": str(rustup),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": f"{_TEMPORARY}/cargo-target",
    }
    return ToolCache(tuple(folder for folder in folders if folder.is_dir()), variables)


def _go(_top: Path | None, home: Path, environ: Mapping[str, str]) -> ToolCache:
    path = (environ.get("GOPATH") or str(home / "go")).split(":")[0]
    modules = Path(environ.get("GOMODCACHE") or f"{path}/pkg/mod")
    shown = (modules,) if modules.is_dir() else ()
    return ToolCache(shown, {"GOMODCACHE": str(modules), "GOPROXY": "off", "GOTOOLCHAIN": "local"})


def _uv(_top: Path | None, _home: Path, _environ: Mapping[str, str]) -> ToolCache:
    offline = dict.fromkeys(("UV_OFFLINE", "UV_NO_SYNC", "UV_FROZEN"), "1")
    return ToolCache((), {**offline, "UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": f"{_TEMPORARY}/uv-cache"})


def _poetry(top: Path | None, home: Path, _environ: Mapping[str, str]) -> ToolCache:
    return _outside_environment(top, home / ".cache/pypoetry/virtualenvs", "-py*")


def _pipenv(top: Path | None, home: Path, _environ: Mapping[str, str]) -> ToolCache:
    return _outside_environment(top and top / "Pipfile", home / ".local/share/virtualenvs", "")


def _outside_environment(key: Path | None, folder: Path, end: str) -> ToolCache:
    """Find the environment that such a tool keeps outside: its name ends in a digest of the project's path."""
    import base64  # here, because reading verbs load this module

    if key is None:
        return ToolCache()
    digest = base64.urlsafe_b64encode(hashlib.sha256(str(key).encode()).digest()).decode()[:8]
    found = [path for path in sorted(folder.glob(f"*-{digest}{end}")) if is_virtual_environment(path)]
    # Inside the trial the project has another path; an active environment is used as it is.
    return ToolCache((found[-1],), {"VIRTUAL_ENV": str(found[-1])}) if found else ToolCache()


_TOOLS: Mapping[tuple[str, ...], Callable[[Path | None, Path, Mapping[str, str]], ToolCache]] = {
    ("cargo", "rustc", "rustup", "cross", "maturin"): _cargo,
    ("go",): _go,
    ("uv", "uvx"): _uv,
    ("poetry",): _poetry,
    ("pipenv",): _pipenv,
}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


_WORD = re.compile(r"[A-Za-z0-9_.+/-]+")
_PYTHON = re.compile(r"(?:[^-][^\s]*/)?(?:python|pypy)[0-9.]*")
_LARGEST_SCRIPT = 256 << 10
_NAMED_BY_TOOL = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile"),
    "npm": ("package.json",),
    "yarn": ("package.json",),
    "pnpm": ("package.json",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
}
_FIRST_WORD_OF_TEXT = re.compile(r"[\"'`]([A-Za-z0-9_.+/-]+)")
_PROGRAM_ENDS = (".py", ".js", ".mjs", ".cjs", ".rb")
"""Languages in which a command is the beginning of a text; other words are names and comments."""
_SCRIPT_ENDS = (".sh", ".bash", ".mk", "Makefile", *_PROGRAM_ENDS)


def command_programs(commands: Iterable[str | tuple[str, ...]], top: Path | None) -> frozenset[str]:
    """Collect every word that may be a program, without its directory. Too many words do no harm."""
    words = {word for command in commands for word in _words(command)}
    if top is not None:
        for file in list(_files(words)):
            pattern = _FIRST_WORD_OF_TEXT if file.endswith(_PROGRAM_ENDS) else _WORD
            words |= set(pattern.findall(_script_text(top, file)))
    return frozenset(word.rpartition("/")[2] for word in words)


def python_of(command: str | tuple[str, ...]) -> str | None:
    """Return the interpreter that a command names first, as it names it; None if it names none."""
    return next((word for word in _words(command) if _PYTHON.fullmatch(word)), None)


def _words(command: str | tuple[str, ...]) -> list[str]:
    return _WORD.findall(command if isinstance(command, str) else " ".join(command))


def _files(words: set[str]) -> Iterator[str]:
    for word in sorted(words):
        yield from _NAMED_BY_TOOL.get(word, ())
        if word.endswith(_SCRIPT_ENDS):
            yield word.removeprefix("./")


def _script_text(top: Path, name: str) -> str:
    path = top / name
    try:
        if not is_clean_path(name) or path.resolve() != path or path.stat().st_size > _LARGEST_SCRIPT:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
