"""From facts about a repository to a task that may work: `loopty init` checks it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from loopty.causes.absent_results import command_with_timer
from loopty.causes.unbuilt_extensions import BUILD_EXTENSIONS
from loopty.kit.globs import literal, matches
from loopty.kit.records import Record, replace
from loopty.taskfile.builds import GO_MODULE
from loopty.taskfile.command_scripts import scripts_of_command
from loopty.taskfile.last_resort import last_resorts
from loopty.taskfile.native_tests import native_benchmark
from loopty.taskfile.node_tests import runnable_scripts
from loopty.taskfile.repository_tests import common_paths, repository_tests
from loopty.taskfile.task_draft import BUILD_TIMEOUT, FIRST_TIMEOUT, GateDraft, TaskDraft
from loopty.workspaces.repository_facts import RepositoryFacts

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
    """The benchmarks that the repository seems to have, the most certain first."""
    return list(_benchmarks(facts))


def propose_tasks(facts: RepositoryFacts) -> list[TaskDraft]:
    """A draft for each benchmark that was found, the most certain first."""
    return [_draft(facts, found) for found in benchmark_proposals(facts)]


def propose_task(facts: RepositoryFacts, command: str) -> TaskDraft:
    """A draft around this command; with what is known about it where it was found."""
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
    """The test runner of the repository as a gate, where there is one."""
    ways = repository_tests(facts)
    if not ways:
        return ()
    tests, *others = ways
    limit = BUILD_TIMEOUT if tests.setup or tests.warm_up else FIRST_TIMEOUT
    smaller = tuple(other.gate_line for other in others if other.is_part)
    return (GateDraft("tests", tests.gate_line, limit, is_proposed=True, smaller=smaller),)


def writable_files(facts: RepositoryFacts, command: str = "", sealed: Sequence[str] = ()) -> tuple[str, ...]:
    """The sources, as few globs: files at the top by name, folders as a whole.

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
    """The benchmark's files, with tests and evaluators: what decides about a candidate must not be its own."""
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
    """The benchmark with the modules that setup.py builds from most of the code: edits of it count then."""
    command = f"{BUILD_EXTENSIONS} && {found.command}"
    return replace(found, command=command, writable_copy=True, timeout_seconds=BUILD_TIMEOUT)


def _make_benchmark(target: str, is_program: bool, sealed: tuple[str, ...]) -> BenchmarkProposal:
    """The target of a Makefile that measures; one that only links a program is followed by the program."""
    if not is_program:
        return BenchmarkProposal(f"make {target}", "file", "max", sealed, f"the Makefile has a target {target}")
    line = command_with_timer(f"./{target}", f"make {target}")
    why = f"the Makefile builds a program {target}; this is the CPU seconds that it takes"
    return BenchmarkProposal(line, "file", "min", sealed, why, writable_copy=True, timeout_seconds=BUILD_TIMEOUT)


def without_evaluators(draft: TaskDraft, facts: RepositoryFacts) -> TaskDraft:
    """The draft that seals no evaluator by its look alone: the user says what may change."""
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
    """The folder of a test or benchmark as a glob; a file at the top or beside sources is named itself."""
    parts = PurePosixPath(path).parts
    for count, part in enumerate(parts[:-1], start=1):
        if part.lower().rstrip("s") in ("test", "bench", "benche", "benchmark", "perf", "spec", "__test__"):
            return "/".join((literal("/".join(parts[:count])), "**"))
    if path.endswith("_test.go"):
        return "**/*_test.go"
    return literal(path)


def with_proposer(draft: TaskDraft, has_samplers: bool) -> TaskDraft:
    """The draft with the proposer that fits it: for parameters a sampler, for code random edits."""
    if not draft.parameters:
        return replace(draft, proposer="mutate")
    return replace(draft, proposer="tpe" if has_samplers else "random")
