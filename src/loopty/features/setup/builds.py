"""How a repository is built, by what its files say, and which scripts a command starts."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from loopty.features.setup.causes.results import CPU_TIMER
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.kit.records import Record

_FEWEST_JOBS, _MOST_JOBS = 4, 8
"""Compilers at the same time: of more, the memory of a trial would not be enough."""
BUILD_FOLDER = '"$TMPDIR/build"'
GO_MODULE = "go mod init loopty.invalid/tests"
"""What a repository in Go from before modules needs first."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_C = ("c", "c++")
_MOST_SOURCES = 40


class RepositoryBuild(Record):
    """The command that compiles, and what has to be done before."""

    line: str
    setup: str = ""
    writable_copy: bool = False
    """Whether it writes beside the sources."""
    is_part: bool = False
    """Whether it builds only one of the libraries, for where the whole takes too long or does not work."""


def jobs_option() -> str:
    """Return the option of make and CMake that uses all cores of this machine."""
    return f"-j {min(max(os.cpu_count() or 1, _FEWEST_JOBS), _MOST_JOBS)}"


def repository_builds(facts: RepositoryFacts) -> list[RepositoryBuild]:
    """List the ways in which the repository may be built, the most certain first."""
    return list(_all_builds(facts))


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


def _all_builds(facts: RepositoryFacts) -> Iterator[RepositoryBuild]:
    files = frozenset(facts.files)
    main = facts.languages[0] if facts.languages else ""
    if main == "rust" and "Cargo.toml" in files:
        yield RepositoryBuild("cargo build --release --quiet", writable_copy=True)
    if main == "go":
        setup = "" if "go.mod" in files else GO_MODULE
        yield RepositoryBuild("go build ./...", setup, writable_copy=bool(setup))
    if main in _C:
        yield from _c_builds(facts, files)
        yield from _plain_builds(facts)


def _c_builds(facts: RepositoryFacts, files: frozenset[str]) -> Iterator[RepositoryBuild]:
    make, cmake = f"make {jobs_option()}", f"cmake --build {BUILD_FOLDER} {jobs_option()}"
    configure, setup = configure_line(files), cmake_configure(facts, with_tests=False)
    if configure:
        yield RepositoryBuild(make, configure, writable_copy=True)
    if "CMakeLists.txt" in files:
        yield RepositoryBuild(cmake, setup)
    if "meson.build" in files:
        meson = f"meson setup {BUILD_FOLDER} --buildtype release"
        yield RepositoryBuild(f"meson compile -C {BUILD_FOLDER}", meson)
    for folder in _make_folders(files):
        yield RepositoryBuild(f"make -C {folder} {jobs_option()}" if folder else make, writable_copy=True)
    if "CMakeLists.txt" in files and facts.cmake.libraries:
        library = shlex.quote(facts.cmake.libraries[0])
        yield RepositoryBuild(f"{cmake} --target {library}", setup, is_part=True)
    if any(name in files for name in _MAKEFILES):
        for folder in ("lib", "src"):
            if any(f"{folder}/{name}" in files for name in _MAKEFILES):
                yield RepositoryBuild(f"make -C {folder} {jobs_option()}", writable_copy=True, is_part=True)
    if configure and facts.automake_libraries:
        library = shlex.quote(facts.automake_libraries[0])
        yield RepositoryBuild(f"{make} {library}", configure, writable_copy=True, is_part=True)


def _plain_builds(facts: RepositoryFacts) -> Iterator[RepositoryBuild]:
    """Compile what is there, where no file says how, or a release lacks files that the build makes or wants."""
    compiler, suffixes = ("cc", (".c",)) if facts.languages[0] == "c" else ("c++", (".cc", ".cpp", ".cxx"))
    sources = [shlex.quote(path) for path in facts.sources if path.endswith(suffixes)]
    if 0 < len(sources) <= _MOST_SOURCES:
        line = f"{compiler} -O2 -I. -Iinclude -Isrc -c {' '.join(sources)}"
        yield RepositoryBuild(line, writable_copy=True)


def _make_folders(files: frozenset[str]) -> list[str]:
    """List the top or, if it has no Makefile, the folders just below it that have one."""
    if any(name in files for name in _MAKEFILES):
        return [""]
    paths = sorted(PurePosixPath(path) for path in files)
    found = [str(path.parent) for path in paths if path.name in _MAKEFILES and len(path.parts) == 2]
    return [folder for folder in dict.fromkeys(found) if folder in ("src", "lib", "source", "build", "unix")]


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
    if depth > _DEEPEST or CPU_TIMER in line:
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
