"""How a repository is built, by what its files say, and which scripts a command starts."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator

from loopty.features.setup.causes.results import CPU_TIMER, TEST_TIMER
from loopty.features.setup.repository_facts import RepositoryFacts

_FEWEST_JOBS, _MOST_JOBS = 4, 8
"""Compilers at the same time: of more, the memory of a trial would not be enough."""
BUILD_FOLDER = '"$TMPDIR/build"'


def jobs_option() -> str:
    """Return the option of make and CMake that uses all cores of this machine."""
    return f"-j {min(max(os.cpu_count() or 1, _FEWEST_JOBS), _MOST_JOBS)}"


def configure_line(files: frozenset[str]) -> str:
    """Find the line that writes the Makefile from its template; empty if nothing does."""
    if script := next((name for name in ("configure", "configure.sh") if name in files), None):
        return f"sh ./{script}"
    has_source = "configure.ac" in files or "configure.in" in files
    return "autoreconf -fi && ./configure" if has_source else ""


def cmake_configure(facts: RepositoryFacts, with_tests: bool, with_benchmarks: bool = False) -> str:
    """Write the line that configures a build in a temporary folder: what a release may lack is off."""
    names = ["BUILD_TESTING", *facts.cmake.test_options]
    switches = {
        **dict.fromkeys(names, "ON" if with_tests else "OFF"),
        **dict.fromkeys(facts.cmake.aside_options, "OFF"),
    }
    if with_benchmarks:  # some are among the examples
        wanted = [name for name in facts.cmake.aside_options if re.search("BENCH|EXAMPLE", name, re.IGNORECASE)]
        switches |= dict.fromkeys(wanted, "ON")
    options = "".join(f" -D{name}={value}" for name, value in switches.items())
    return f"cmake -S . -B {BUILD_FOLDER} -DCMAKE_BUILD_TYPE=Release{options}"


_SCRIPT = re.compile(r".*\.(?:py|[cm]?js|ts|sh|bash|pl|rb|lua|jl|php|[rR]|tcl)")
_TIMERS = frozenset(("time", "hyperfine", "perf"))
"""What measures a program from outside: the script that comes after it is the program."""
_MAKE = re.compile(r"\b(?:make|gmake)\b([^&;|]*)")
_NODE_SCRIPT = re.compile(r"\b(?:npm|yarn|pnpm)(?: (?:run|run-script|--silent|-s))* ([\w:.-]+)")
_DEEPEST = 4


def scripts_of_command(facts: RepositoryFacts, command: str) -> tuple[str, ...]:
    """Name the files of the repository that a shell line starts, through make and package.json, too.

    A program that marks what may change is none: its text outside the blocks stays as it is.
    """
    found = dict.fromkeys(_scripts(facts, command, 0))
    return tuple(path for path in found if path not in facts.programs)


def _scripts(facts: RepositoryFacts, line: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or CPU_TIMER in line or TEST_TIMER in line:
        return
    for part in re.split(r"&&|\|\||[;|\n]", line):
        words = _words(part)
        started = (path for word in words if (path := _script(facts, word)))
        if not set(words[:2]) & _TIMERS and (first := next(started, "")):
            yield first  # those after it are its arguments
    for targets in _MAKE.findall(line):
        for name in targets.split():
            yield from _scripts(facts, facts.recipes.get(name, ""), depth + 1)
    for name in _NODE_SCRIPT.findall(line):
        yield from _scripts(facts, facts.node_scripts.get(name, ""), depth + 1)


def _script(facts: RepositoryFacts, word: str) -> str:
    """Name the script that a word of a command means: a path, or a module after `-m`; empty where it is none."""
    path = posixpath.normpath(word)
    if path in facts.files:
        return path if _SCRIPT.fullmatch(path) else ""
    module = f"{word.replace('.', '/')}.py"
    return module if re.fullmatch(r"[A-Za-z_][\w.]*", word) and module in facts.files else ""


def _words(part: str) -> list[str]:
    """Split a command into words; a recipe may begin with signs of make."""
    try:
        return shlex.split(part.strip().lstrip("@-+"))
    except ValueError:
        return part.split()
