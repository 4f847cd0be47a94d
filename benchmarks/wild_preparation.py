"""What a developer has installed before optimising a package: one recipe for each language."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

RECIPES = {
    "Python": "`.venv` with `pip install -e .`, pytest, and what its build and its tests require by its own words",
    "JavaScript and TypeScript": "`npm ci` or `npm install`, with `--ignore-scripts`",
    "Go": "`go mod download`",
    "Rust": "`cargo fetch`",
}
"""For the page; other languages need nothing."""
_TESTS = re.compile(r"(?:^|[-_/])(?:tests?|testing|dev|devel|develop)(?:[-_.]|$)")
_SECONDS = 400


class PreparationError(Exception):
    """The repository or its dependencies cannot be had on this machine."""


def run_bounded(line: str, folder: Path) -> None:
    """Run a shell line; PreparationError when it fails or takes too long."""
    process = subprocess.Popen(
        ["sh", "-c", line],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, output = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise PreparationError(f"`{line}` took more than {_SECONDS} s") from None
    if process.returncode:
        errors = [text for text in output.splitlines() if re.search(r"error|ERR|host", text)]
        raise PreparationError(f"`{line}` failed: {' '.join(errors[-2:]) or output[-200:]}")


def prepare(checkout: Path, language: str) -> None:
    """Install what the package needs and what its tests need."""
    if language == "Python":
        run_bounded("python3 -m venv .venv && .venv/bin/pip install -q -e . pytest", checkout)
        for words in test_requirements(checkout):
            try:
                run_bounded(f".venv/bin/pip install -q {words}", checkout)
            except PreparationError:
                continue  # a developer would go on without the linter that cannot be had
    elif language in ("JavaScript", "TypeScript") and (checkout / "package.json").exists():
        has_lock = (checkout / "package-lock.json").exists()
        line = "npm ci" if has_lock else "npm install --no-package-lock"
        run_bounded(f"{line} --loglevel error --ignore-scripts --legacy-peer-deps", checkout)
    elif language == "Go":
        run_bounded("go version", checkout)  # a developer has it
        if (checkout / "go.mod").exists():
            run_bounded("go mod download", checkout)
    elif language == "Rust":
        run_bounded("cargo fetch", checkout)
    run_bounded("git checkout -q -- .", checkout)  # what was built stays, as in a developer's checkout


def test_requirements(checkout: Path) -> list[str]:
    """What pip is told to install for the tests: extras, dependency groups and requirement files named so."""
    try:
        project: dict[str, Any] = tomllib.loads((checkout / "pyproject.toml").read_text())
    except (OSError, ValueError):
        project = {}
    builds = project.get("build-system", {}).get("requires", ())
    extras = project.get("project", {}).get("optional-dependencies", {})
    found = [shlex.join(builds)] if builds and (checkout / "setup.py").exists() else []
    found += [f"-e '.[{name}]'" for name in extras if _TESTS.search(name)]
    dependencies = project.get("dependency-groups", {})
    members = [_group_members(dependencies, name, 0) for name in dependencies if _TESTS.search(name)]
    found += [shlex.join(words) for words in members if words]
    files = (
        path.relative_to(checkout)
        for pattern in ("*.txt", "requirements/*.txt")
        for path in checkout.glob(pattern)
    )
    names = sorted(str(path) for path in files)
    found += [f"-r {shlex.quote(name)}" for name in names if "require" in name and _TESTS.search(name)]
    return found


def _group_members(dependencies: dict[str, Any], name: str, depth: int) -> list[str]:
    members: list[str] = []
    for item in dependencies.get(name, ()) if depth < 5 else ():
        members += (
            [item] if isinstance(item, str) else _group_members(dependencies, item["include-group"], depth + 1)
        )
    return members
