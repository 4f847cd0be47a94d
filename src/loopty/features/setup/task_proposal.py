"""From facts about a repository to a task that may work: `loopty init` checks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from loopty.features.setup.benchmark_sources import calls_apart
from loopty.features.setup.builds import scripts_of_command
from loopty.features.setup.causes.failure import through_candidate
from loopty.features.setup.found_benchmarks import BenchmarkProposal, benchmark_proposals, folder_glob
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.features.setup.repository_tests import repository_tests
from loopty.features.setup.task_draft import BUILD_TIMEOUT, FIRST_TIMEOUT, GateDraft, TaskDraft
from loopty.kit.paths import literal, matches
from loopty.kit.records import replace

_MAX_FILES = 12
"""Writable files that are named one by one; of more, their folders are named."""
_MOST_BENCHMARKS = 4
_FASTER = "the code should be faster, and still do the same"


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
    draft = TaskDraft(command, write, files=files, gates=gates_from_tests(facts), package=facts.package)
    draft = _with_sources(draft, facts, scripts)
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
        package=facts.package,
        is_shorter=found.is_shorter,
        trains=found.trains,
        gates=() if found.times_the_tests else gates_from_tests(facts),
        times_the_tests=found.times_the_tests,
        is_part=found.is_part,
        has_build=found.timeout_seconds == BUILD_TIMEOUT,
    )
    started = scripts_of_command(facts, found.command)
    return _with_sources(draft, facts, started).with_note("command", found.why)


def _with_sources(draft: TaskDraft, facts: RepositoryFacts, scripts: Sequence[str]) -> TaskDraft:
    """Add to the draft what the sources of the benchmarks say: the packages of others, a time that is fixed."""
    found = facts.of_benchmarks
    is_isolated = calls_apart(draft.command) or any(path in found.isolated for path in scripts)
    if is_isolated:
        # A gate runs beside the benchmark, too: what it starts of the candidate, it starts by the SDK.
        gates = tuple(isolated_gate(gate, facts) for gate in draft.gates)
        # The benchmark's files are hidden from the candidate, in whose sandbox the tests run.
        tests = set(map(folder_glob, facts.tests))
        files = tuple(glob for glob in draft.files if glob not in tests) or tuple(map(literal, scripts))
        draft = replace(draft, gates=gates, files=files)
    else:
        draft = draft.with_note("isolated", _why_not_isolated(draft, scripts))
    return replace(
        draft,
        isolated=is_isolated,
        rivals=found.rivals,
        has_fixed_time=any(path in found.counts_in_fixed_time for path in scripts),
    )


def _why_not_isolated(draft: TaskDraft, scripts: Sequence[str]) -> str:
    """Tell why the code runs where it could reach its score."""
    if draft.times_the_tests:
        return "the tests import the code that they time"
    if draft.is_cpu_time or not scripts:
        return "the command runs the code itself, and nothing outside of it compares the answers"
    return f"{scripts[0]} imports or starts the code by itself, not through candidate() of loopty_sdk"


def isolated_gate(gate: GateDraft, facts: RepositoryFacts) -> GateDraft:
    """Return the gate as it runs the candidate's code; one that calls it by the SDK stays as it is."""
    own = set(scripts_of_command(facts, gate.command))
    if "loopty_sdk" in gate.command or not own.isdisjoint(facts.of_benchmarks.isolated):
        return gate
    return replace(
        gate,
        command=through_candidate(gate.command, gate.timeout_seconds),
        smaller=tuple(through_candidate(line, gate.timeout_seconds) for line in gate.smaller),
    )


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
    tests = sorted({folder_glob(path) for path in facts.tests})
    return tuple(dict.fromkeys((*own, *tests, *map(literal, facts.evaluators))))


def without_evaluators(draft: TaskDraft, facts: RepositoryFacts) -> TaskDraft:
    """Return the draft that seals no evaluator by its look alone: the user says what may change."""
    looks = frozenset(map(literal, facts.evaluators)) - frozenset(draft.command.split())
    return replace(draft, files=tuple(glob for glob in draft.files if glob not in looks))


def tasks_to_try(facts: RepositoryFacts, drafts: Sequence[TaskDraft]) -> list[TaskDraft]:
    """Choose what may become the task without a question: the benchmarks, then the time of the tests.

    Where programs mark what may change, something else scores them, and where models are trained, a metric: then
    not the tests.
    """
    benchmarks = [draft for draft in drafts if draft.is_benchmark]
    if facts.programs or any(draft.trains for draft in benchmarks):
        return benchmarks
    tests = [draft for draft in drafts if not draft.is_benchmark]
    return [*benchmarks[:_MOST_BENCHMARKS], *tests]


def with_proposer(draft: TaskDraft, has_samplers: bool) -> TaskDraft:
    """Return the draft with the proposer that fits it: for parameters a sampler, for code random edits."""
    if not draft.parameters:
        return replace(draft, proposer="mutate")
    return replace(draft, proposer="tpe" if has_samplers else "random")
