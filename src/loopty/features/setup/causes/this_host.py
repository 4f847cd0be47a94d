"""Facts of this machine and of this working tree, for the rules that explain a failure."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.task import Task
from loopty.domain.trial import Ending
from loopty.executors.this_machine import this_capacity
from loopty.features.setup.build_facts import PythonBuild
from loopty.features.setup.causes.failure import Failure, Submodule
from loopty.features.setup.causes.known_causes import explain_failure
from loopty.git.repository import Repository
from loopty.kit.untrusted_files import source_text
from loopty.sandboxes.installations import is_virtual_environment
from loopty.sandboxes.toolchain import is_shown_by_default, user_toolchain
from loopty.sandboxes.trial_view import find_devices
from loopty.show.explanation import Cause
from loopty.taskfile.read import load

_TOOL_FOLDERS = (
    "~/.cargo/bin",
    "~/.local/bin",
    "~/go/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.volta/bin",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.pyenv/shims",
    "~/miniconda3/bin",
    "~/anaconda3/bin",
    "~/miniforge3/bin",
)
"""Where installers put programs that only an interactive shell knows."""
_LIBRARY_FOLDERS = ("/usr/local/lib", "/usr/local/cuda/lib64", "/opt/*/lib", "~/miniconda3/lib", "~/anaconda3/lib")
_SOURCE_FOLDERS = ("src", "lib", "python", "", "tests", "test")
_KEYS_OF_STAGES = {"command", "timeout_seconds", "result", "direction"}


def known_cause(
    top: Path, reason: str, lines: Sequence[str], task: Task | None = None, output: str = ""
) -> Cause | None:
    """Find the known cause of a failure of the user's own code, or None."""
    try:
        task = task or load(top)
    except Misuse:
        return None
    # The verdict of a baseline says how its trial ended before it says why.
    plain = reason.removeprefix(f"{Ending.FAILED}: ").removeprefix(f"{Ending.TIMED_OUT}: ")
    cause = explain_failure(Failure(plain, tuple(lines), task, output), ThisHost(Repository.open(top)))
    is_of_stage = any(plain.startswith(f"stage {stage.name}: ") for stage in task.benchmark.cascade)
    if cause and is_of_stage and any(setting.key in _KEYS_OF_STAGES for setting in cause.settings):
        return None  # the remedy would change the benchmark, and a stage has these keys itself
    return cause


class ThisHost:
    """HostFacts of the machine and the repository around a working tree."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._top = repository.top

    def program(self, name: str) -> str | None:
        found = shutil.which(name)
        for folder in () if found else (*self._environment_programs(), *_folders(_TOOL_FOLDERS)):
            if (folder / name).is_file() and os.access(folder / name, os.X_OK):
                found = str(folder / name)
                break
        if found is None:
            return None
        path = Path(found)
        return str(path.relative_to(self._top)) if path.is_relative_to(self._top) else found

    def is_shown(self, path: str) -> bool:
        return is_shown_by_default(Path(path), self._prefixes)

    def has_path(self, path: str) -> bool:
        return (self._top / path).exists()

    def memory_mb(self) -> int:
        return this_capacity().memory_mb

    def has_gpu(self) -> bool:
        try:
            return bool(find_devices(("gpu",)).units)
        except Misuse:
            return False

    def is_executable(self, path: str) -> bool:
        return os.access(self._top / path, os.X_OK)

    def outermost_ignored(self, path: str) -> str | None:
        return next((name for name in self._git_ignored if path == name or path.startswith(f"{name}/")), None)

    def has_tracked_files(self, folder: str) -> bool:
        return any(path == folder or path.startswith(f"{folder}/") for path in self._files)

    def is_environment(self, folder: str) -> bool:
        return folder == "node_modules" or folder in self._environments

    def environment_with(self, module: str) -> str | None:
        for environment in self._environments:
            patterns = (f"{module}", f"{module}.py", f"{module}.*.so")
            packages = (self._top / environment).glob("lib/python*/site-packages")
            if any(any(folder.glob(pattern)) for folder in packages for pattern in patterns):
                return environment
        return None

    def source_root(self, module: str) -> str | None:
        for root in _SOURCE_FOLDERS:
            start = f"{root}/{module}" if root else module
            if f"{start}.py" in self._files or f"{start}/__init__.py" in self._files:
                return root
        return None

    def is_node_dependency(self, name: str) -> bool:
        try:
            document = json.loads(source_text(self._top / "package.json"))
        except (ValueError, RecursionError):
            return False
        tables = document.values() if isinstance(document, dict) else ()
        return any(name in table for table in tables if isinstance(table, dict))

    def builds_module(self, name: str) -> bool:
        build = PythonBuild(self._top)
        path = name.replace(".", "/")
        is_source = any(
            f"{root}{path}{end}" in self._files for root in ("", "src/", "lib/") for end in (".py", "/__init__.py")
        )
        return build.has_extensions and not is_source and build.names_module(name)

    def build_requirements(self) -> tuple[str, ...]:
        return PythonBuild(self._top).requirements

    def submodule(self, path: str) -> Submodule | None:
        for inner in self._submodules:
            if path == inner or path.startswith(f"{inner}/"):
                return Submodule(inner, (self._top / inner / ".git").exists())
        return None

    def system_package(self, *names: str) -> str | None:
        plain = [name for name in names if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name)]
        return next((name for name in plain if _is_package_of_apt(name)), None)

    def library(self, name: str) -> str | None:
        named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        conda = [f"{prefix}/lib"] if (prefix := os.environ.get("CONDA_PREFIX")) else []
        for folder in (*map(Path, filter(None, named)), *map(Path, conda), *_folders(_LIBRARY_FOLDERS)):
            if (folder / name).exists():
                return str(folder)
        found = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)$", _known_libraries(), re.MULTILINE)
        return str(Path(found[1]).parent) if found else None

    @functools.cached_property
    def _prefixes(self) -> tuple[Path, ...]:
        return user_toolchain().prefixes

    @functools.cached_property
    def _git_ignored(self) -> list[str]:
        return self._repository.working_tree.paths_that_git_ignores()

    @functools.cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self._repository.working_tree.paths())

    @functools.cached_property
    def _environments(self) -> list[str]:
        """List the virtual environments in the working tree that git ignores."""
        return [path for path in self._git_ignored if is_virtual_environment(self._top / path)]

    @functools.cached_property
    def _submodules(self) -> list[str]:
        text = source_text(self._top / ".gitmodules")
        paths = re.findall(r"^\s*path\s*=\s*(.+?)\s*$", text, re.MULTILINE)
        # A release has the file and not the commits that it belongs to: there git can fetch nothing.
        return [path for path in paths if is_clean_path(path) and path in self._files]

    def _environment_programs(self) -> Iterator[Path]:
        yield self._top / "node_modules/.bin"
        for environment in self._environments:
            yield self._top / environment / "bin"


def _folders(patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        path = Path(pattern).expanduser()
        yield from Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def _is_package_of_apt(name: str) -> bool:
    try:
        shown = subprocess.run(["apt-cache", "show", "--no-all-versions", name], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return shown.returncode == 0 and b"Package:" in shown.stdout


def _known_libraries() -> str:
    """Return what the dynamic linker of the host knows, one library a line."""
    try:
        return subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, errors="replace", timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
