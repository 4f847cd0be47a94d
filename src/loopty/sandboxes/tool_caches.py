"""What package tools need in a trial: their caches of packages, and variables that keep them offline."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from loopty.kit.records import Record, field
from loopty.sandboxes.virtual_environment import is_virtual_environment

_TEMPORARY = "/tmp"


class ToolCache(Record):
    """Folders to show, and variables to set."""

    folders: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def tool_caches(
    programs: Collection[str], top: Path | None, home: Path, environ: Mapping[str, str]
) -> Iterator[ToolCache]:
    """The caches of those tools that are among the programs."""
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
    """The environment that such a tool keeps outside: its name ends in a digest of the project's path."""
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
