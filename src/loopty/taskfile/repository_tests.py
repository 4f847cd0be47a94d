"""How the tests of a repository are built and run, by what its files say."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from loopty.causes.absent_results import command_with_timer
from loopty.causes.unbuilt_extensions import BUILD_EXTENSIONS
from loopty.kit.dataclass import dataclass, replace
from loopty.workspaces.repository_facts import RepositoryFacts

_TARGETS = ("test", "check", "tests")
_JOBS = "-j 4"
"""Compilers at the same time: of many, the memory of a trial would not be enough."""
_C = ("c", "c++")
_PYTEST = "python3 -m pytest -q -x -p no:cacheprovider"
_NO_TESTS_THEMSELVES = re.compile(
    r"\b(?:lint\w*|eslint|tslint|standard|standardx|xo|prettier|tsc|tsd|dtslint|biome|oxlint|flow|jshint|jscs|semistandard"
    r"|typecheck|check-types|format|depcheck|publint|attw|aud|audit|evalmd|ls-lint|size-limit|markdownlint)\b|:types?\b"
)
"""What scripts of package.json run beside the tests: linters, type checkers, audits."""
_ONLY_TESTS = re.compile(
    r"^(?:tests?[-:]only|(?:tests?[-:])?(?:unit|node|mocha|jest|tape)|mocha|jest|(?:unit|api)[-:_]?tests?)$"
)
_BUILD_SCRIPT = re.compile(r"\bnpm (?:run|run-script) (compile|build)\b")
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_SCRIPT_FILE = re.compile(r"[\w./*-]+\.[cm]?[jt]sx?")
_TEST_FOLDER = re.compile(r"(?:\./)?(?:tests?|spec|__tests__)/?")


@dataclass(frozen=True, slots=True)
class RepositoryTests:
    """The command that runs the tests, and what has to be done before."""

    line: str
    setup: str = ""
    """What has to be done before."""
    warm_up: str = ""
    """What builds the tests, so that their time does not have it."""
    writable_copy: bool = False
    """Whether the build writes beside the sources."""

    @property
    def gate_line(self) -> str:
        """Everything that the tests need, as one command."""
        return " && ".join(filter(None, (self.setup, self.line)))

    @property
    def line_with_timer(self) -> str:
        """The command whose score is the CPU time of the tests alone."""
        return command_with_timer(self.line, " && ".join(filter(None, (self.setup, self.warm_up))))


def repository_tests(facts: RepositoryFacts) -> list[RepositoryTests]:
    """The ways in which the tests may run, the most certain first."""
    return list(dict.fromkeys(_all_tests(facts)))


def _all_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    files = frozenset(facts.files)
    main = facts.languages[0] if facts.languages else ""
    if main == "python":
        yield from _python_tests(facts)
    elif facts.has_extensions:
        # Most of the code is built: without the build, its edits would change nothing that is measured.
        for tests in _python_tests(facts):
            yield replace(tests, setup=BUILD_EXTENSIONS, writable_copy=True)
    if "Cargo.toml" in files and main in ("rust", ""):
        yield RepositoryTests("cargo test --quiet", warm_up="cargo test --quiet --no-run")
    if any(path.endswith("_test.go") for path in files) and main in ("go", ""):
        yield from _go_tests(files)
    if main == "perl":
        yield from _perl_tests(files)
    if "package.json" in files:
        yield from _node_tests(facts)
    yield from _make_tests(facts, main)


def _python_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    paths = [path for path in facts.tests if path.endswith(".py")]
    if not paths:
        return
    yield RepositoryTests(f"{_PYTEST} {' '.join(map(shlex.quote, common_paths(paths)))}")
    if files := sorted(path for path in paths if _TEST_FILE.search(path)):
        # For a repository whose tests take hours, or stop at one of many: any file will do, but deep ones are
        # often data.
        depth = min(path.count("/") for path in files)
        shallow = [path for path in files if path.count("/") == depth]
        yield RepositoryTests(f"{_PYTEST} {shlex.quote(shallow[len(shallow) // 2])}")
    if facts.uses_unittest:
        yield RepositoryTests(_unittest_line(facts, paths))


def _unittest_line(facts: RepositoryFacts, paths: Sequence[str]) -> str:
    """Unittest on the folder at the top with the most tests."""
    tops = Counter(PurePosixPath(path).parts[0] for path in paths)
    top = tops.most_common(1)[0][0]
    is_package = f"{top}/__init__.py" in facts.files
    where = f"-s {shlex.quote(top)}{' -t .' if is_package else ''} " if not top.endswith(".py") else ""
    pattern = "test*.py" if any(PurePosixPath(path).name.startswith("test") for path in paths) else "*test*.py"
    return f"python3 -m unittest discover -q {where}-p {shlex.quote(pattern)}"


def _go_tests(files: frozenset[str]) -> Iterator[RepositoryTests]:
    warm_up, line = "go test -count=1 -run '^$' ./...", "go test -count=1 ./..."
    if "go.mod" in files:
        yield RepositoryTests(line, warm_up=warm_up)
    else:  # from before modules: its packages import each other, if at all, by a path that only its name tells
        yield RepositoryTests(line, "go mod init loopty.invalid/tests", warm_up, writable_copy=True)


def _perl_tests(files: frozenset[str]) -> Iterator[RepositoryTests]:
    if "Makefile.PL" in files:
        yield RepositoryTests("make test", "perl Makefile.PL && make", writable_copy=True)
    if "Build.PL" in files:
        yield RepositoryTests("./Build test", "perl Build.PL && ./Build", writable_copy=True)
    if any(path.startswith("t/") and path.endswith(".t") for path in files):
        yield RepositoryTests("prove -l t")


def _node_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    files = frozenset(facts.files)
    scripts = {name: line for name, line in facts.node_scripts.items() if names_known_files(line, files)}
    parts = [part.strip() for part in scripts.get("test", "").split("&&")]
    tests = [part for part in parts if not _NO_TESTS_THEMSELVES.search(part)]
    if tests and len(tests) < len(parts):
        # Programs of node_modules are on the search path of trials.
        yield RepositoryTests(" && ".join(tests))
    if "test" in scripts:
        yield RepositoryTests("npm test --silent")
    build = _BUILD_SCRIPT.search(facts.node_scripts.get("test", ""))
    setup = f"npm run --silent {build[1]}" if build else ""
    for name in sorted(scripts):
        if _ONLY_TESTS.search(name):
            line = f"npm run --silent {shlex.quote(name)}"
            yield RepositoryTests(line, setup, writable_copy=bool(setup))


def names_known_files(script: str, files: frozenset[str]) -> bool:
    """Whether the files and test folders that a script of package.json names are there: releases lack many."""
    for part in re.split(r"&&|;|\|\|", script):
        words = [word.strip("'\"") for word in part.split()]
        folders = [posixpath.normpath(word) for word in words[1:] if _TEST_FOLDER.fullmatch(word)]
        if not all(any(path.startswith(f"{folder}/") for path in files) for folder in folders):
            return False
        if not all(_is_known_file(word, files) for word in words if "node_modules/" not in word):
            return False
    return True


def _is_known_file(word: str, files: frozenset[str]) -> bool:
    """Whether a word of a script names a file that is there, or no file at all."""
    braces = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", word)
    spelled = [f"{braces[1]}{choice}{braces[3]}" for choice in braces[2].split(",")] if braces else [word]
    names = [posixpath.normpath(one) for one in spelled if _SCRIPT_FILE.fullmatch(one)]
    return not names or any(name in files or fnmatch.filter(files, name.replace("**/", "*")) for name in names)


def _make_tests(facts: RepositoryFacts, main: str) -> Iterator[RepositoryTests]:
    """Tests that a Makefile runs, one that is there or one that a tool writes; each once before it is timed."""
    files = frozenset(facts.files)
    targets = [name for name in _TARGETS if name in facts.make_targets]
    for target in targets:
        yield RepositoryTests(f"make {target}", warm_up=f"make {target}")
    if main not in _C:
        return
    if targets and "configure" not in files:  # tests that do not build what they need
        yield RepositoryTests(f"make {targets[0]}", f"make {_JOBS}", f"make {targets[0]}", writable_copy=True)
    # Automake builds the programs of the tests with the tests, and runs none where TESTS is empty.
    warm_up = "make check TESTS=" if "Makefile.am" in files else "make check"
    if "configure" in files:
        yield RepositoryTests("make check", f"sh ./configure && make {_JOBS}", warm_up, writable_copy=True)
    elif "configure.ac" in files:
        setup = f"autoreconf -fi && ./configure && make {_JOBS}"
        yield RepositoryTests("make check", setup, warm_up, writable_copy=True)
    if "CMakeLists.txt" in files:
        folder = '"$TMPDIR/build"'
        configure = f"cmake -S . -B {folder} -DCMAKE_BUILD_TYPE=Release{_cmake_options(facts)}"
        build = f"{configure} && cmake --build {folder} {_JOBS}"
        yield RepositoryTests(f"ctest --no-tests=error --test-dir {folder}", build)
    if "meson.build" in files:
        build = 'meson setup "$TMPDIR/build" --buildtype release && meson compile -C "$TMPDIR/build"'
        yield RepositoryTests('meson test -C "$TMPDIR/build"', build)


def _cmake_options(facts: RepositoryFacts) -> str:
    """The options of the project that switch its tests on, and off what may need more than a release has."""
    names = ["BUILD_TESTING", *facts.cmake_test_options]
    switches = {**dict.fromkeys(names, "ON"), **dict.fromkeys(facts.cmake_aside_options, "OFF")}
    return "".join(f" -D{name}={value}" for name, value in switches.items())


def common_paths(paths: Sequence[str]) -> list[str]:
    """The folders at the top that hold these paths; files at the top are named themselves."""
    if len(paths) == 1:
        return list(paths)
    common = os.path.commonpath(paths)
    if common and "." not in PurePosixPath(common).name:
        return [common]
    return sorted({path.partition("/")[0] for path in paths})
