"""The benchmarks that a repository seems to have, the most certain first, and what else can be measured."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from loopty.features.setup.builds import scripts_of_command
from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.features.setup.repository_tests import (
    build_line,
    common_paths,
    native_benchmark,
    repository_tests,
    runnable_scripts,
)
from loopty.features.setup.task_draft import BUILD_TIMEOUT, FIRST_TIMEOUT
from loopty.kit.paths import literal
from loopty.kit.records import Record, replace

_BENCHMARK_NAMES = ("bench", "benchmark", "benchmarks", "perf", "performance")
_PART_OF_BENCHMARKS = re.compile(rf"(?:{'|'.join(_BENCHMARK_NAMES)})[:_-](.+)")
_NO_BENCHMARK_ITSELF = re.compile(
    r"\b(?:build|compile|install|setup|prepare|pre|post|ci|browser|web|deno|bun|compare|cmp|report|plot|update|save"
    r"|clean|lint|types?|memory|size|watch|debug|profile|flame|trend|check|docs?|deploy|publish|init)\b"
)
"""Parts of names of scripts that prepare or show a benchmark, or run it where no trial can."""
_MOST_SCRIPTS = 3
_NESTED_NAMES = ("all", "start")
"""Scripts of a package of benchmarks that run them."""
_INSTALLS = re.compile(r"\b(?:npm|pnpm|yarn) (?:i|install|ci|add)\b")
_VITEST = re.compile(r"\bvitest\s+bench\b")
_VITEST_FILE = "--outputJson $EVO_RESULT_PATH"
_QUICK_GO, _QUICK_PYTEST = (
    "-benchtime 50ms",
    "--benchmark-max-time=0.1 --benchmark-min-rounds=3 --benchmark-warmup=off",
)
"""Options with which every benchmark is measured for a shorter time, for suites that take minutes."""
_QUICK_CRITERION = "--bench '*' -- --warm-up-time 0.3 --measurement-time 1 --sample-size 20"
_EVALUATE = "python3 -m loopty_sdk.evaluate_program"
_MOST_TRAININGS = 2
_NATIVE_TOOLS = ("google-benchmark", "catch2", "tinybench")
_COMMIT = "git init -q . && git -c user.name=loopty -c user.email=loopty@invalid commit -q --allow-empty -m trial"
_ASV = "asv machine --yes >&2 && asv run --show-stderr --python=same --dry-run"


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
    is_part: bool = False
    """Whether it builds or tests only a part of the repository."""
    is_shorter: bool = False
    """Whether it measures each benchmark for a shorter time, for where all of it takes too long."""
    trains: bool = False
    """Whether it trains a model, so that a metric is the score."""
    program: str = ""
    """The only file that proposals may change, where the benchmark scores one program."""


def benchmark_proposals(facts: RepositoryFacts) -> list[BenchmarkProposal]:
    """List the benchmarks that the repository seems to have, the most certain first."""
    return list(_benchmarks(facts))


def _benchmarks(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    named = tuple(sorted({folder_glob(path) for path in facts.benchmarks}))
    yield from _evaluated_programs(facts)
    if target := next((name for name in _BENCHMARK_NAMES if name in facts.make_targets), None):
        why = f"the Makefile has a target {target}"
        yield BenchmarkProposal(f"make {target}", "file", "max", ("Makefile", *named), why)
    build = build_line(facts)
    for found in _node_benchmarks(facts, named):
        yield found
        if build:
            yield _after_the_build(found, build)
    yield from _pytest_benchmarks(facts)
    yield from _cargo_benchmarks(facts)
    yield from _go_benchmarks(facts)
    yield from _asv_benchmarks(facts, named)
    yield from _native_benchmarks(facts, named, is_tool_known=True)
    started = {path for line in _node_lines(facts) for path in scripts_of_command(facts, line)}
    for path in facts.benchmarks:
        if path not in started and (line := _script_command(facts, path)):
            found = BenchmarkProposal(line, "file", "max", (folder_glob(path),), f"{path} is named as a benchmark")
            if path.endswith(".py") and facts.is_mostly_extensions:
                yield _after_the_build(found, BUILD_EXTENSIONS)
                continue
            yield found
            if build and line.startswith("node "):
                yield _after_the_build(found, build)
    yield from _trainings(facts)
    yield from _tests(facts)
    yield from _native_benchmarks(facts, named, is_tool_known=False)


def _tests(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    """Yield the time of the tests, where possible without that of their start, which is not the code's."""
    ways = repository_tests(facts)
    inner = [tests for tests in ways if tests.says_its_time]
    whole = [*(tests for tests in ways if not tests.says_its_time), *inner]
    lines = [*((one, one.line_without_start) for one in inner), *((one, one.line_with_timer) for one in whole)]
    for tests, line in lines:
        yield BenchmarkProposal(
            line,
            "file",
            "min",
            (),
            "no benchmark is used; this is the CPU seconds of the tests: better measure what matters",
            times_the_tests=True,
            writable_copy=tests.writable_copy,
            timeout_seconds=BUILD_TIMEOUT if tests.setup or tests.warm_up else FIRST_TIMEOUT,
            is_part=tests.is_part,
        )


def _evaluated_programs(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    for evaluator, program in facts.evaluated_programs:
        yield BenchmarkProposal(
            f"{_EVALUATE} {shlex.quote(evaluator)} {shlex.quote(program)}",
            "file",
            "max",
            (literal(evaluator),),
            f"{evaluator} has evaluate(program_path), and {program} is its program",
            program=program,
        )


def _node_benchmarks(facts: RepositoryFacts, named: tuple[str, ...]) -> Iterator[BenchmarkProposal]:
    """Yield the scripts of package.json that are named as benchmarks, and benchmarks of vitest without one."""
    scripts = runnable_scripts(facts)
    sealed = ("package.json", *named)
    for name in benchmark_scripts(scripts)[:_MOST_SCRIPTS]:
        line, why = f"npm run --silent {shlex.quote(name)}", f"package.json has a script {name}"
        if _VITEST.search(scripts[name].rpartition("&&")[2]):
            yield BenchmarkProposal(f"{line} -- --run {_VITEST_FILE}", "vitest", "min", sealed, why)
        else:
            yield BenchmarkProposal(line, "file", "max", sealed, why)
    for folder, inner in facts.nested_scripts.items():
        runnable = {name: line for name, line in inner.items() if not _INSTALLS.search(line)}
        for name in (*benchmark_scripts(runnable), *(name for name in _NESTED_NAMES if name in runnable)):
            line = f"cd {shlex.quote(folder)} && npm run --silent {shlex.quote(name)}"
            why = f"package.json of {folder} has a script {name}"
            yield BenchmarkProposal(line, "file", "max", (f"{literal(folder)}/**", *named), why)
            break
    if facts.of_benchmarks.tool == "vitest" and not any(map(_VITEST.search, scripts.values())):
        line = f"npx --no vitest bench --run {_VITEST_FILE}"
        yield BenchmarkProposal(line, "vitest", "min", named, "files have benchmarks of vitest")


def _node_lines(facts: RepositoryFacts) -> list[str]:
    """List the commands of scripts that are named as benchmarks: what they start is no benchmark beside them."""
    scripts = runnable_scripts(facts)
    return [scripts[name] for name in benchmark_scripts(scripts)[:_MOST_SCRIPTS]]


def benchmark_scripts(scripts: Mapping[str, str]) -> list[str]:
    """List the names of scripts that run a benchmark here: `bench`, then those like `bench:node`."""
    whole = [name for name in _BENCHMARK_NAMES if name in scripts]
    parts = [(name, found[1]) for name in sorted(scripts) if (found := _PART_OF_BENCHMARKS.fullmatch(name))]
    usable = [name for name, part in parts if not _NO_BENCHMARK_ITSELF.search(part)]
    return [*whole, *sorted(usable, key=lambda name: not name.endswith("node"))]


def _pytest_benchmarks(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    if facts.fixture_benchmarks:
        paths = " ".join(map(shlex.quote, common_paths(facts.fixture_benchmarks)))
        whole = BenchmarkProposal(
            f"python3 -m pytest -q -p no:cacheprovider --benchmark-only {paths}",
            "pytest-benchmark",
            "min",
            tuple(sorted({folder_glob(path) for path in facts.fixture_benchmarks})),
            "tests use the fixture of pytest-benchmark",
        )
        yield whole
        yield _shorter(whole, whole.command.replace("--benchmark-only", f"--benchmark-only {_QUICK_PYTEST}"))


def _cargo_benchmarks(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    has_benches = any(re.search(r"(?:^|/)benches/[^/]+\.rs$", path) for path in facts.files)
    if "Cargo.toml" not in facts.files or not (has_benches or facts.uses_libtest):
        return
    # Only a nightly compiler has #[bench]; a stable one takes it with this variable.
    line = f"{'RUSTC_BOOTSTRAP=1 ' if facts.uses_libtest else ''}cargo bench"
    result = "criterion" if facts.uses_criterion else "libtest" if facts.uses_libtest else "file"
    sealed = ("**/benches/**", "**/Cargo.toml") if any("/benches/" in path for path in facts.files) else ()
    whole = BenchmarkProposal(
        line,
        result,
        "min",
        sealed or ("benches/**", "Cargo.toml"),
        "Cargo has benches",
        ("target",),
        timeout_seconds=BUILD_TIMEOUT,
    )
    yield whole
    if facts.uses_criterion:
        yield _shorter(whole, f"{line} {_QUICK_CRITERION}")


def _go_benchmarks(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    if not (facts.go_benchmarks and "go.mod" in facts.files):
        return
    line = "go test -run '^$' -bench . ./..."
    whole = BenchmarkProposal(line, "go-bench", "min", (), "tests of Go have benchmarks")
    yield whole
    yield _shorter(whole, whole.command.replace("-bench .", f"-bench . {_QUICK_GO}"))


def _asv_benchmarks(facts: RepositoryFacts, named: tuple[str, ...]) -> Iterator[BenchmarkProposal]:
    """Run the suite of asv in the Python that there is, in a repository of the trial: asv wants a commit."""
    if found := next((path for path in facts.files if PurePosixPath(path).name == "asv.conf.json"), None):
        folder = str(PurePosixPath(found).parent)
        start = f"{_COMMIT} && cd {shlex.quote(folder)} && " if folder != "." else f"{_COMMIT} && "
        why = f"{found} describes a suite of asv"
        whole = BenchmarkProposal(
            f"{start}{_ASV}", "asv", "min", (literal(found), *named), why, writable_copy=True
        )
        yield whole
        yield _shorter(whole, f"{start}{_ASV} --quick")


def _native_benchmarks(
    facts: RepositoryFacts, named: tuple[str, ...], is_tool_known: bool
) -> Iterator[BenchmarkProposal]:
    """Run a program that CMake builds and that is named as a benchmark.

    Without a known tool it comes after the tests: many want a library, arguments or an hour.
    """
    tool = facts.of_benchmarks.tool
    native = native_benchmark(facts)
    if native is None or is_tool_known != (tool in _NATIVE_TOOLS):
        return
    why = "CMake builds a program that is named as a benchmark"
    yield BenchmarkProposal(
        native.gate_line if is_tool_known else native.line_with_timer,
        tool if is_tool_known else "file",
        "min",
        named,
        why if is_tool_known else f"{why}; this is the CPU seconds that it takes",
        timeout_seconds=BUILD_TIMEOUT,
        is_part=not is_tool_known,
    )


def _trainings(facts: RepositoryFacts) -> Iterator[BenchmarkProposal]:
    """Run a script that trains a model: its metric is the aim."""
    for script in facts.trainings[:_MOST_TRAININGS]:
        # What reports the score is not for candidates, unless another file of the repository computes it.
        scored = any(f"{name}.py" in facts.evaluators for name in script.imports)
        program = script.path if scored else ""
        why = f"{script.path} trains a model, and its metric is the aim; {script.about_seed}"
        printed = BenchmarkProposal(
            script.command,
            "stdout",
            "max",
            () if program else (literal(script.path),),
            why,
            trains=True,
            program=program,
        )
        if script.metric_file:
            result = "file" if script.metric_file.endswith(".csv") else "stdout"
            yield replace(printed, command=script.command_with_file, result=result, writable_copy=True)
        yield printed


def _shorter(whole: BenchmarkProposal, command: str) -> BenchmarkProposal:
    return replace(
        whole, command=command, is_shorter=True, why=f"{whole.why}; each is measured for a shorter time"
    )


def _after_the_build(found: BenchmarkProposal, build: str) -> BenchmarkProposal:
    """Build what the benchmark loads before it: edits count then."""
    command = f"{build} && {found.command}"
    return replace(found, command=command, writable_copy=True, timeout_seconds=BUILD_TIMEOUT)


def _script_command(facts: RepositoryFacts, path: str) -> str | None:
    quoted, suffix = shlex.quote(path), PurePosixPath(path).suffix
    if suffix == ".py" and path in facts.python_mains:
        return f"python3 {quoted}"
    if suffix in (".js", ".mjs", ".cjs") and path not in facts.exported_benchmarks:
        return f"node {quoted}"
    if suffix == ".sh":
        return f"{'bash' if path in facts.bash_scripts else 'sh'} {quoted}"
    return None


def folder_glob(path: str) -> str:
    """Return the folder of a test or benchmark as a glob; a file at the top or beside sources is named itself."""
    parts = PurePosixPath(path).parts
    for count, part in enumerate(parts[:-1], start=1):
        if part.lower().rstrip("s") in ("test", "bench", "benche", "benchmark", "perf", "spec", "__test__"):
            return "/".join((literal("/".join(parts[:count])), "**"))
    if path.endswith("_test.go"):
        return "**/*_test.go"
    return literal(path)
