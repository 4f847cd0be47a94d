"""How the tests of a repository are built and run, by what its files say."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from loopty.features.setup.builds import BUILD_FOLDER, cmake_configure, configure_line, jobs_option
from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.features.setup.causes.results import TEST_TIMER, command_with_timer
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.kit.records import Record, replace


class RepositoryTests(Record):
    """The command that runs the tests, and what has to be done before."""

    line: str
    setup: str = ""
    """What has to be done before."""
    warm_up: str = ""
    """What builds the tests, so that their time does not have it."""
    writable_copy: bool = False
    """Whether the build writes beside the sources."""
    is_part: bool = False
    """Whether these are only some of the tests."""
    says_its_time: bool = False
    """Whether what runs them can say what they take without their start."""

    @property
    def gate_line(self) -> str:
        """Return everything that the tests need, as one command."""
        return " && ".join(filter(None, (self.setup, self.line)))

    @property
    def line_with_timer(self) -> str:
        """Write the command whose score is the CPU time of the tests alone."""
        return command_with_timer(self.line, " && ".join(filter(None, (self.setup, self.warm_up))))

    @property
    def line_without_start(self) -> str:
        """Write the command whose score is the CPU time of the tests without their start."""
        return command_with_timer(self.line, self.setup, TEST_TIMER)


_NO_TESTS_THEMSELVES = re.compile(
    r"\b(?:lint\w*|eslint|tslint|standard|standardx|xo|prettier|tsc|tsd|dtslint|biome|oxlint|flow|jshint|jscs|semistandard"
    r"|typecheck|check-types|format|depcheck|publint|attw|aud|audit|evalmd|ls-lint|size-limit|markdownlint)\b|:types?\b"
)
"""What scripts of package.json run beside the tests: linters, type checkers, audits."""
_ONLY_TESTS = re.compile(
    r"^(?:tests?[-:](?:only|esm|cjs)|(?:tests?[-:])?(?:unit|node|mocha|jest|tape)|mocha|jest|(?:unit|api)[-:_]?tests?)$"
)
_BUILDS = ("compile", "build", "build:dev", "build:node", "build:cjs", "bundle", "prepare", "prepublish")
"""Scripts that make what the tests import, the most common names first."""
_BUILD_SCRIPT = re.compile(r"\bnpm (?:run|run-script) (compile|build)\b")
_MOST_PARTS = 4
_CALL = re.compile(r"\b(?:npm(?: run| run-script)|yarn(?: run)?|pnpm(?: run)?)(?: -s| --silent)? ([\w:.-]+)")
_INSTALL = re.compile(r"\b(?:npm|pnpm|yarn) (?:i|install|ci|link|add)\b|\bnpx (?!--no)|\bbower install\b")
"""What needs the network, which trials do not have."""
_DEEPEST = 4


def node_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """Yield the test script without its linters, as it is, after a build, and each of its parts alone."""
    scripts = runnable_scripts(facts)
    setup = build_line(facts)
    builds_itself = _BUILD_SCRIPT.search(facts.node_scripts.get("test", "")) is not None
    for line in dict.fromkeys(_test_lines(facts.node_scripts, scripts)):
        if not (setup and builds_itself):
            yield RepositoryTests(line, says_its_time=True)
        if setup:
            yield RepositoryTests(line, setup, writable_copy=True, says_its_time=True)


def runnable_scripts(facts: RepositoryFacts) -> dict[str, str]:
    """Return the scripts that install nothing, nor do those that they call."""
    return {
        name: line
        for name, line in facts.node_scripts.items()
        if not any(_INSTALL.search(one) for one in _with_called(line, facts.node_scripts, 0))
    }


def _with_called(line: str, scripts: Mapping[str, str], depth: int) -> Iterator[str]:
    """Yield a script, and those of package.json that it calls."""
    yield line
    for name in _CALL.findall(line) if depth < _DEEPEST else ():
        if name in scripts:
            yield from _with_called(scripts[name], scripts, depth + 1)


def _test_lines(named: Mapping[str, str], scripts: Mapping[str, str]) -> Iterator[str]:
    """List lines that run tests, the most telling first. Programs of node_modules are on the trials' path."""
    parts = [part.strip() for part in named.get("test", "").split("&&")]
    tests = [part for part in parts if part and _is_test(part, named, scripts)]
    is_linted = _NO_TESTS_THEMSELVES.search(named.get("pretest", "")) is not None  # npm runs that before the tests
    if tests and (len(tests) < len(parts) or is_linted):
        yield " && ".join(tests)
    if "test" in scripts:
        yield "npm test --silent"
    for name in sorted(scripts):
        if _ONLY_TESTS.search(name):
            yield f"npm run --silent {shlex.quote(name)}"
    if len(tests) > 1:
        yield from tests[:_MOST_PARTS]


def _is_test(part: str, named: Mapping[str, str], scripts: Mapping[str, str]) -> bool:
    """Say whether a part of the test script tests something here: no linter, no build, no install."""
    if re.search(r"\bbench", part):
        return False  # it measures, and often for minutes
    called = [name for name in _CALL.findall(part) if name in named]
    if any(name not in scripts for name in called) or _INSTALL.search(part) or _BUILD_SCRIPT.search(part):
        return False
    return not any(_NO_TESTS_THEMSELVES.search(line) for line in (part, *(named[name] for name in called)))


def build_line(facts: RepositoryFacts) -> str:
    """Find the line that builds what the tests import: the script that they call, or one named as a build."""
    scripts = runnable_scripts(facts)
    called = _BUILD_SCRIPT.search(facts.node_scripts.get("test", ""))
    names = (called[1], *_BUILDS) if called else _BUILDS
    name = next((name for name in names if name in scripts), "")
    return f"npm run --silent {shlex.quote(name)}" if name else ""


_C = ("c", "c++")
_MOST_PROGRAMS = 12


def native_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """Yield tests that a Makefile runs, there or written by a tool; each once before it is timed."""
    files = frozenset(facts.files)
    for target in facts.make_tests:
        yield RepositoryTests(f"make {target}", warm_up=f"make {target}")
    if not facts.languages or facts.languages[0] not in _C:
        return
    if "configure" not in files:  # tests that do not build what they need
        for target in facts.make_tests:
            yield RepositoryTests(f"make {target}", f"make {jobs_option()}", f"make {target}", writable_copy=True)
    yield from _configured_tests(facts, files)
    if "CMakeLists.txt" in files:
        yield from _cmake_tests(facts)
    if "meson.build" in files:
        build = f"meson setup {BUILD_FOLDER} --buildtype release && meson compile -C {BUILD_FOLDER}"
        yield RepositoryTests(f"meson test -C {BUILD_FOLDER}", build)


def _configured_tests(facts: RepositoryFacts, files: frozenset[str]) -> Iterator[RepositoryTests]:
    """Yield tests of a Makefile that configure writes: Automake's `check`, or what its template has."""
    if not (configure := configure_line(files)):
        return
    setup = f"{configure} && make {jobs_option()}"
    # Automake builds the programs of the tests with the tests, and runs none where TESTS is empty.
    warm_up = "make check TESTS=" if "Makefile.am" in files else "make check"
    yield RepositoryTests("make check", setup, warm_up, writable_copy=True)
    for target in facts.template_tests:
        if target != "check":
            yield RepositoryTests(f"make {target}", setup, f"make {target}", writable_copy=True)


def _cmake_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    """Yield CTest if it knows the tests, then targets that run them, then the programs themselves."""
    cmake = facts.cmake
    configure = cmake_configure(facts, with_tests=True)
    build = f"{configure} && cmake --build {BUILD_FOLDER} {jobs_option()}"
    if cmake.is_known_to_ctest or not (cmake.test_targets or cmake.test_programs):
        yield RepositoryTests(f"ctest --no-tests=error --test-dir {BUILD_FOLDER}", build)
    for target in cmake.test_targets:
        line = f"cmake --build {BUILD_FOLDER} --target {shlex.quote(target)}"
        yield RepositoryTests(line, build, line)
    if cmake.test_programs and not cmake.is_known_to_ctest:
        yield RepositoryTests(" && ".join(map(_built_program, cmake.test_programs[:_MOST_PROGRAMS])), build)
    if cmake.test_programs:
        # For where the whole takes too long, or one of the tests does not compile.
        name = cmake.test_programs[0]
        yield RepositoryTests(_built_program(name), f"{build} --target {shlex.quote(name)}", is_part=True)


def native_benchmark(facts: RepositoryFacts) -> RepositoryTests | None:
    """Find the first program that CMake builds and that is named as a benchmark, built alone."""
    names = facts.cmake.benchmark_programs
    if not names or facts.languages[:1] not in (("c",), ("c++",)):
        return None
    configure = cmake_configure(facts, with_tests=False, with_benchmarks=True)
    build = f"cmake --build {BUILD_FOLDER} {jobs_option()} --target {shlex.quote(names[0])}"
    return RepositoryTests(_built_program(names[0]), f"{configure} && {build}", is_part=True)


def _built_program(name: str) -> str:
    return f'"$(find {BUILD_FOLDER} -type f -name {shlex.quote(name)} | head -n 1)"'


_JAVA = {"pom.xml": "mvn -o -q test", "gradlew": "sh ./gradlew --offline test", "build.xml": "ant -S test"}
"""Trials have no network: what the tests need has to be there."""
_PYTEST = "python3 -m pytest -q -x -p no:cacheprovider"
_PARTS = (2, 1, 3)
"""Which files are tried alone, in quarters of their list."""
_MANY_FILES, _SOME_FILES = 12, 6
"""Of so many files, so many are tried together before any of them alone."""
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


def repository_tests(facts: RepositoryFacts) -> list[RepositoryTests]:
    """List the ways in which the tests may run, the most certain first."""
    return list(dict.fromkeys(_all_tests(facts)))


def _all_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    files = frozenset(facts.files)
    main = facts.languages[0] if facts.languages else ""
    if main == "python":
        yield from _python_tests(facts)
    elif facts.is_mostly_extensions:
        # Most of the code is built: without the build, its edits would change nothing that is measured.
        for tests in _python_tests(facts):
            yield replace(tests, setup=BUILD_EXTENSIONS, writable_copy=True)
    if "Cargo.toml" in files and main in ("rust", ""):
        yield RepositoryTests("cargo test --quiet", warm_up="cargo test --quiet --no-run")
        release = "cargo test --quiet --release --tests"
        yield RepositoryTests(release, f"{release} --no-run", says_its_time=True)
    if "go.mod" in files and any(path.endswith("_test.go") for path in files) and main in ("go", ""):
        warm_up = "go test -count=1 -run '^$' ./..."
        yield RepositoryTests("go test -count=1 ./...", warm_up=warm_up, says_its_time=True)
    if main == "java":
        yield from (RepositoryTests(line) for name, line in _JAVA.items() if name in files)
    if "package.json" in files:
        yield from node_tests(facts)
    yield from native_tests(facts)


def _python_tests(facts: RepositoryFacts) -> Iterator[RepositoryTests]:
    paths = [path for path in facts.tests if path.endswith(".py")]
    if not paths:
        return
    yield _pytest(common_paths(paths))
    if files := sorted(path for path in paths if _TEST_FILE.search(path)):
        # For a repository whose tests take hours, or stop at one of many: any file will do, but deep ones are
        # often data.
        depth = min(path.count("/") for path in files)
        shallow = [path for path in files if path.count("/") == depth]
        if len(shallow) >= _MANY_FILES:
            some = shallow[:: -(-len(shallow) // _SOME_FILES)]
            yield _pytest(some, is_part=True)
        for path in dict.fromkeys(shallow[len(shallow) * part // 4] for part in _PARTS):
            yield _pytest([path], is_part=True)
    if facts.uses_unittest:
        yield RepositoryTests(_unittest_line(facts, paths))


def _pytest(paths: Sequence[str], is_part: bool = False) -> RepositoryTests:
    return RepositoryTests(f"{_PYTEST} {' '.join(map(shlex.quote, paths))}", is_part=is_part, says_its_time=True)


def _unittest_line(facts: RepositoryFacts, paths: Sequence[str]) -> str:
    """Run unittest on the folder at the top with the most tests."""
    tops = Counter(PurePosixPath(path).parts[0] for path in paths)
    top = tops.most_common(1)[0][0]
    is_package = f"{top}/__init__.py" in facts.files
    where = f"-s {shlex.quote(top)}{' -t .' if is_package else ''} " if not top.endswith(".py") else ""
    pattern = "test*.py" if any(PurePosixPath(path).name.startswith("test") for path in paths) else "*test*.py"
    return f"python3 -m unittest discover -q {where}-p {shlex.quote(pattern)}"


def common_paths(paths: Sequence[str]) -> list[str]:
    """List the folders at the top that hold these paths; files at the top are named themselves."""
    if len(paths) == 1:
        return list(paths)
    common = os.path.commonpath(paths)
    if common and "." not in PurePosixPath(common).name:
        return [common]
    return sorted({path.partition("/")[0] for path in paths})
