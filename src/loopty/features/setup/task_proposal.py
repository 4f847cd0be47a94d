"""From facts about a repository to a task that may work: `loopty init` checks it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from loopty.features.setup.builds import GO_MODULE, RepositoryBuild, repository_builds, scripts_of_command
from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.features.setup.causes.results import command_with_timer
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.features.setup.repository_tests import (
    build_line,
    common_paths,
    compile_line,
    native_benchmark,
    repository_tests,
    runnable_scripts,
)
from loopty.features.setup.task_draft import BUILD_TIMEOUT, FIRST_TIMEOUT, GateDraft, TaskDraft
from loopty.kit.paths import literal, matches
from loopty.kit.records import Record, replace

_LOAD, _BUILD = "how long the package takes to load", "how long the build takes"
_LIBRARY = "how long the build of one of its libraries takes"
_HEADERS = "how long its headers take to compile"
_MOST_NAMES = 3
_NO_PACKAGES = ("setup", "conftest", "docs", "doc", "examples", "noxfile", "tasks")
_HEADER = {"c": (".h",), "c++": (".hpp", ".hh", ".hxx", ".h")}


class LastResort(Record):
    """A command that nearly always works, and what its CPU time says."""

    line: str
    measures: str
    """What the score is, in words."""
    setup: str = ""
    writable_copy: bool = False
    is_part: bool = False
    """Whether only a part of the repository is built."""

    @property
    def line_with_timer(self) -> str:
        return command_with_timer(self.line, self.setup)

    @property
    def is_build(self) -> bool:
        return self.measures in (_BUILD, _LIBRARY)


def last_resorts(facts: RepositoryFacts) -> list[LastResort]:
    """List the commands to fall back on, the most telling first."""
    return [
        *_load_of_the_top(facts),
        *(
            LastResort(line, _LOAD, BUILD_EXTENSIONS, writable_copy=True)
            if line.startswith("python3 ") and facts.is_mostly_extensions
            else LastResort(line, _LOAD)
            for line in dict.fromkeys(_lines_that_load(facts))
        ),
        *_node_loads_after_a_build(facts),
        *(_build_resort(build) for build in repository_builds(facts)),
        *(LastResort(line, _HEADERS) for line in _lines_that_compile_headers(facts)),
    ]


def _build_resort(build: RepositoryBuild) -> LastResort:
    measures = _LIBRARY if build.is_part else _BUILD
    return LastResort(build.line, measures, build.setup, build.writable_copy, build.is_part)


def _lines_that_load(facts: RepositoryFacts) -> Iterator[str]:
    """Yield commands that only load the package, in the language that most of it is written in."""
    main = facts.languages[0] if facts.languages else ""
    if facts.node_entry and main not in ("python", "perl"):
        yield f"node {shlex.quote(facts.node_entry)}"
    if main == "python" or facts.has_extensions:
        yield from (f'python3 -c "import {name}"' for name in _python_packages(facts)[:_MOST_NAMES])
    if main == "perl":
        yield from _perl_lines(facts)


def _node_loads_after_a_build(facts: RepositoryFacts) -> Iterator[LastResort]:
    """Yield the same for a package that is not complete before its build."""
    entry = facts.node_entry or facts.built_node_entry
    for build in filter(None, (build_line(facts), compile_line(facts)) if entry else ()):
        yield LastResort(f"node {shlex.quote(entry)}", _LOAD, build, writable_copy=True)


def _load_of_the_top(facts: RepositoryFacts) -> Iterator[LastResort]:
    """Load the package whose folder is the repository's top: Python finds it by a link with its name."""
    if name := facts.root_package:
        *folders, last = name.split(".")
        folder = "/".join(("$TMPDIR/packages", *folders))
        setup = f'mkdir -p "{folder}" && ln -s "$PWD" "{folder}/{last}"'
        path = 'export PYTHONPATH="$TMPDIR/packages:$PYTHONPATH"'
        yield LastResort(f'python3 -c "import {name}"', _LOAD, f"{setup} && {path}")


def _python_packages(facts: RepositoryFacts) -> list[str]:
    """List the packages and modules at the places where Python projects keep them."""
    if facts.root_package:
        return []  # what is at the top are its parts
    aside = {*facts.tests, *facts.benchmarks, *facts.evaluators}
    paths = [PurePosixPath(path) for path in facts.files if path.endswith(".py") and path not in aside]
    names = [
        path.parent.name
        for root in ("src", "lib", ".")
        for path in paths
        if path.name == "__init__.py" and str(path.parent.parent) == root
    ]
    names += [path.stem for root in ("src", ".") for path in paths if str(path.parent) == root]
    return [
        name
        for name in dict.fromkeys(names)
        if name.isidentifier() and name not in _NO_PACKAGES and not re.search(r"(?:^|_)tests?(?:_|$)", name)
    ]


def _perl_lines(facts: RepositoryFacts) -> Iterator[str]:
    """Load the module nearest to the top of lib, as Perl names it."""
    modules = [path for path in facts.sources if path.endswith(".pm")]
    if modules:
        path = min(modules, key=lambda path: (path.count("/"), len(path), path))
        root = "lib" if path.startswith("lib/") else "."
        yield f"perl -I{root} {shlex.quote(path)}"


def _lines_that_compile_headers(facts: RepositoryFacts) -> Iterator[str]:
    """Compile the header that is nearest to the top: for a library of headers alone, its users wait for that."""
    main = facts.languages[0] if facts.languages else ""
    headers = [path for path in facts.sources if path.endswith(_HEADER.get(main, ("/",)))]
    if headers and len(headers) == len(facts.sources):  # of others, no header has what takes time
        path = min(headers, key=lambda path: (path.count("/"), len(path), path))
        compiler = f"{'cc -x c' if main == 'c' else 'c++ -x c++'} -fsyntax-only"
        folders = dict.fromkeys((".", "include", "src", path.partition("/")[0] if "/" in path else "."))
        yield f"{compiler} {' '.join(f'-I{shlex.quote(folder)}' for folder in folders)} {shlex.quote(path)}"


_BENCHMARK_NAMES = ("bench", "benchmark", "benchmarks", "perf")
_MAX_FILES = 12
"""Writable files that are named one by one; of more, their folders are named."""
_EVALUATE = "python3 -m loopty_sdk.evaluate_program"
_FASTER = "the code should be faster, and still do the same"


class BenchmarkProposal(Record):
    """A benchmark that the repository seems to have."""

    command: str
    result: str
    direction: str
    files: tuple[str, ...]
    """The files of the benchmark, which no proposal may change."""
    why: str
    scratch: tuple[str, ...] = ()
    times_the_tests: bool = False
    """Whether the tests themselves are measured, so that they need no gate."""
    writable_copy: bool = False
    timeout_seconds: float = FIRST_TIMEOUT
    last_resort: str = ""
    """What is measured where nothing better works; empty for a benchmark or tests of the repository."""
    is_part: bool = False
    """Whether it builds or tests only a part of the repository."""
    program: str = ""
    """The only file that proposals may change, where the benchmark scores one program."""


def benchmark_proposals(facts: RepositoryFacts) -> list[BenchmarkProposal]:
    """List the benchmarks that the repository seems to have, the most certain first."""
    return list(_benchmarks(facts))


def propose_tasks(facts: RepositoryFacts) -> list[TaskDraft]:
    """Make a draft for each benchmark that was found, the most certain first."""
    return [_draft(facts, found) for found in benchmark_proposals(facts)]


def propose_task(facts: RepositoryFacts, command: str) -> TaskDraft:
    """Make a draft around this command; with what is known about it if it was found."""
    found = next((one for one in benchmark_proposals(facts) if one.command == command), None)
    if found:
        return _draft(facts, found)
    write = writable_files(facts, command)
    # A glob may also name what scores: then all that scores is sealed by name.
    loose = [path for path in facts.evaluators if matches(path, write)]
    scripts = scripts_of_command(facts, command)
    files = files_to_seal(facts, tuple(map(literal, scripts))) if loose else ()
    draft = TaskDraft(command, write, files=files, gates=gates_from_tests(facts), package=facts.node_package)
    return replace(draft, direction="min", statement=_FASTER) if draft.is_cpu_time else draft


def _draft(facts: RepositoryFacts, found: BenchmarkProposal) -> TaskDraft:
    draft = TaskDraft(
        found.command,
        (literal(found.program),) if found.program else writable_files(facts, found.command, found.files),
        statement=_FASTER if found.direction == "min" else "",
        direction=found.direction,
        result=found.result,
        files=files_to_seal(facts, found.files),
        scratch=found.scratch,
        writable_copy=found.writable_copy,
        timeout_seconds=found.timeout_seconds,
        package=facts.node_package,
        gates=() if found.times_the_tests else gates_from_tests(facts),
        times_the_tests=found.times_the_tests,
        last_resort=found.last_resort,
        is_part=found.is_part,
        has_build=found.timeout_seconds == BUILD_TIMEOUT,
    )
    return draft.with_note("command", found.why)


def gates_from_tests(facts: RepositoryFacts) -> tuple[GateDraft, ...]:
    """Make a gate of the test runner of the repository, if there is one."""
    ways = repository_tests(facts)
    if not ways:
        return ()
    tests, *others = ways
    limit = BUILD_TIMEOUT if tests.setup or tests.warm_up else FIRST_TIMEOUT
    smaller = tuple(other.gate_line for other in others if other.is_part)
    return (GateDraft("tests", tests.gate_line, limit, is_proposed=True, smaller=smaller),)


def writable_files(facts: RepositoryFacts, command: str = "", sealed: Sequence[str] = ()) -> tuple[str, ...]:
    """List the sources, as few globs: files at the top by name, folders as a whole.

    Of a repository whose programs mark what may change, these alone. Never what scores others, nor the script that
    the command starts, which prints the result.
    """
    first = scripts_of_command(facts, command)
    aside = {*sealed, *first, "conftest.py"}
    sources = [path for path in facts.programs or facts.sources if path not in aside]
    if len(sources) <= _MAX_FILES:
        return tuple(map(literal, sources))
    suffixes = sorted({PurePosixPath(path).suffix for path in sources})
    folders = sorted({path.partition("/")[0] if "/" in path else "" for path in sources})
    return tuple(
        f"{literal(folder)}/**/*{suffix}" if folder else f"*{suffix}"
        for folder in folders
        for suffix in suffixes
        if any(
            path.endswith(suffix) and (path.startswith(f"{folder}/") if folder else "/" not in path)
            for path in sources
        )
    )


def files_to_seal(facts: RepositoryFacts, own: tuple[str, ...]) -> tuple[str, ...]:
    """List the benchmark's files, with tests and evaluators: what judges a candidate must not be its own."""
    tests = sorted({_folder_glob(path) for path in facts.tests})
    return tuple(dict.fromkeys((*own, *tests, *map(literal, facts.evaluators))))


def _benchmarks(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    files = frozenset(facts.files)
    for evaluator, program in facts.evaluated_programs:
        yield BenchmarkProposal(
            f"{_EVALUATE} {shlex.quote(evaluator)} {shlex.quote(program)}",
            "file",
            "max",
            (literal(evaluator),),
            f"{evaluator} has evaluate(program_path), and {program} is its program",
            program=program,
        )
    named = tuple(sorted({_folder_glob(path) for path in facts.benchmarks}))
    if target := next((name for name in _BENCHMARK_NAMES if name in facts.make_targets), None):
        yield _make_benchmark(target, target in facts.make_programs, ("Makefile", *named))
    scripts = runnable_scripts(facts)
    if script := next((name for name in _BENCHMARK_NAMES if name in scripts), None):
        why = f"package.json has a script {script}"
        yield BenchmarkProposal(f"npm run --silent {script}", "file", "max", ("package.json", *named), why)
    if facts.fixture_benchmarks:
        paths = common_paths(facts.fixture_benchmarks)
        yield BenchmarkProposal(
            f"python3 -m pytest -q -p no:cacheprovider --benchmark-only {' '.join(map(shlex.quote, paths))}",
            "pytest-benchmark",
            "min",
            tuple(sorted({_folder_glob(path) for path in facts.fixture_benchmarks})),
            "tests use the fixture of pytest-benchmark",
        )
    if "Cargo.toml" in files and any(path.startswith("benches/") for path in files):
        result = "criterion" if facts.uses_criterion else "file"
        sealed = ("benches/**", "Cargo.toml")
        yield BenchmarkProposal(
            "cargo bench",
            result,
            "min",
            sealed,
            "Cargo has benches",
            ("target",),
            timeout_seconds=BUILD_TIMEOUT,
        )
    if facts.go_benchmarks:
        command, has_module = "go test -run '^$' -bench . ./...", "go.mod" in files
        command = command if has_module else f"{GO_MODULE} && {command}"
        why = "tests of Go have benchmarks"
        yield BenchmarkProposal(command, "go-bench", "min", (), why, writable_copy=not has_module)
    for path in facts.benchmarks:
        if line := _script_command(facts, path):
            found = BenchmarkProposal(
                line, "file", "max", (_folder_glob(path),), f"{path} is named as a benchmark"
            )
            yield _after_a_build(found) if path.endswith(".py") and facts.is_mostly_extensions else found
    for tests in repository_tests(facts):
        yield BenchmarkProposal(
            tests.line_with_timer,
            "file",
            "min",
            (),
            "no benchmark was found; this is the CPU seconds of the tests: better measure what matters",
            times_the_tests=True,
            writable_copy=tests.writable_copy,
            timeout_seconds=BUILD_TIMEOUT if tests.setup or tests.warm_up else FIRST_TIMEOUT,
            is_part=tests.is_part,
        )
    if native := native_benchmark(facts):  # after the tests: many want a library, arguments or an hour
        yield BenchmarkProposal(
            native.line_with_timer,
            "file",
            "min",
            named,
            "CMake builds a program that is named as a benchmark; this is the CPU seconds that it takes",
            timeout_seconds=BUILD_TIMEOUT,
            is_part=True,
        )
    for resort in last_resorts(facts):
        yield BenchmarkProposal(
            resort.line_with_timer,
            "file",
            "min",
            (),
            f"this is only {resort.measures}: better measure what matters",
            writable_copy=resort.writable_copy,
            timeout_seconds=BUILD_TIMEOUT if resort.is_build else FIRST_TIMEOUT,
            last_resort=resort.measures,
            is_part=resort.is_part,
        )


def _after_a_build(found: BenchmarkProposal) -> BenchmarkProposal:
    """Build the modules of setup.py before the benchmark, if they are most of the code: edits count then."""
    command = f"{BUILD_EXTENSIONS} && {found.command}"
    return replace(found, command=command, writable_copy=True, timeout_seconds=BUILD_TIMEOUT)


def _make_benchmark(target: str, is_program: bool, sealed: tuple[str, ...]) -> BenchmarkProposal:
    """Make a benchmark of a Makefile's target; one that only links a program is followed by the program."""
    if not is_program:
        return BenchmarkProposal(f"make {target}", "file", "max", sealed, f"the Makefile has a target {target}")
    line = command_with_timer(f"./{target}", f"make {target}")
    why = f"the Makefile builds a program {target}; this is the CPU seconds that it takes"
    return BenchmarkProposal(line, "file", "min", sealed, why, writable_copy=True, timeout_seconds=BUILD_TIMEOUT)


def without_evaluators(draft: TaskDraft, facts: RepositoryFacts) -> TaskDraft:
    """Return the draft that seals no evaluator by its look alone: the user says what may change."""
    looks = frozenset(map(literal, facts.evaluators)) - frozenset(draft.command.split())
    return replace(draft, files=tuple(glob for glob in draft.files if glob not in looks))


def tasks_to_try(facts: RepositoryFacts, drafts: Sequence[TaskDraft]) -> list[TaskDraft]:
    """Choose what may become the task without a question: the benchmarks; without any, the time of the tests.

    Where programs mark what may change, something else scores them: then not the tests.
    """
    benchmarks = [draft for draft in drafts if draft.is_benchmark]
    tests = [] if facts.programs else [draft for draft in drafts if not (draft.is_benchmark or draft.last_resort)]
    return benchmarks or tests


def _script_command(facts: RepositoryFacts, path: str) -> str | None:
    quoted, suffix = shlex.quote(path), PurePosixPath(path).suffix
    if suffix == ".py" and path in facts.python_mains:
        return f"python3 {quoted}"
    if suffix in (".js", ".mjs", ".cjs") and path not in facts.exported_benchmarks:
        return f"node {quoted}"
    if suffix == ".sh":
        return f"{'bash' if path in facts.bash_scripts else 'sh'} {quoted}"
    return None


def _folder_glob(path: str) -> str:
    """Return the folder of a test or benchmark as a glob; a file at the top or beside sources is named itself."""
    parts = PurePosixPath(path).parts
    for count, part in enumerate(parts[:-1], start=1):
        if part.lower().rstrip("s") in ("test", "bench", "benche", "benchmark", "perf", "spec", "__test__"):
            return "/".join((literal("/".join(parts[:count])), "**"))
    if path.endswith("_test.go"):
        return "**/*_test.go"
    return literal(path)


def with_proposer(draft: TaskDraft, has_samplers: bool) -> TaskDraft:
    """Return the draft with the proposer that fits it: for parameters a sampler, for code random edits."""
    if not draft.parameters:
        return replace(draft, proposer="mutate")
    return replace(draft, proposer="tpe" if has_samplers else "random")
