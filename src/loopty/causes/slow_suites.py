"""Causes: tests of CTest, Automake, Perl or Go, or a build by CMake, that take too long: a part is run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure, path_in_tree
from loopty.causes.host_facts import HostFacts

_OUT_OF_TIME = r"still running after [\d.e+]+ s"
_MOST_TESTS = 20
_PYPERF = re.compile(r": Mean \+- std dev: |\bpyperf system tune\b")
_SHARE = 0.1
"""Of the time limit, for the tests that are chosen: then a run takes little more than its build."""
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.:/+-]*")
_CTEST = "ctest --no-tests=error"
_CTEST_PASSED = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.+ +Passed +([\d.]+) sec", re.MULTILINE)
_CTEST_UNBUILT = re.compile(
    r"Start +(?P<number>\d+): (?P<test>\S+)\n\s*Could not find executable (?P<program>\S+)$", re.MULTILINE
)
_CTEST_BUILD = re.compile(r'(cmake --build "\$TMPDIR/build"(?: -j \d+)?) && ')
_MOST_PROGRAMS = 12
_CMAKE_BUILD = re.compile(r'cmake --build "\$TMPDIR/build"(?: -j \d+)?')
_BUILT_TARGET = re.compile(r"^\[ *\d+%\] Built target (\S+)$", re.MULTILINE)
_LINKED = re.compile(r"^\[ *\d+%\] Linking \w+ executable (?:\S*/)?(\S+)$", re.MULTILINE)
_PART_OF_BUILD = 8
"""A part of a build has one of so many targets: it has to be built in each trial."""
_AUTOMAKE = re.compile(r"\bmake check(?! TESTS=)")
_FOLDER_OR_PASS = re.compile(r"^make\[\d+\]: Entering directory '(?P<folder>[^']+)'$|^PASS: (?P<test>\S+)$", re.M)
_PERL = "make test"
_PERL_PASSED = re.compile(r"^(t/\S+\.t) \.+ ok$", re.MULTILINE)
_GO = re.compile(r"\bgo test (?:-vet=off )?-count=1 ")
_GO_PASSED = re.compile(r"^ok +\t?(\S+)\t([\d.]+)s$", re.MULTILINE)


def pyperf_out_of_time(failure: Failure, _facts: HostFacts) -> Cause | None:
    """A script of pyperf, which starts each of its benchmarks in twenty processes, unless it is told."""
    if not (failure.match(_OUT_OF_TIME) and _PYPERF.search(failure.output) and failure.command.endswith(".py")):
        return None
    return Cause(
        "pyperf-out-of-time",
        f"{failure.subject} takes longer than its limit of {failure.timeout_seconds:g} s: pyperf repeats it less "
        "often",
        (failure.own_setting("command", f"{failure.command} --processes 3 --values 3"),),
        is_guess=True,
    )


def tests_out_of_time(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Tests of which some ended before the time limit of all of them."""
    if not failure.match(_OUT_OF_TIME):
        return None
    budget = _SHARE * failure.timeout_seconds
    for part_of in (_part_of_ctest, _part_of_automake, _part_of_perl, _part_of_go):
        if line := part_of(failure.command, failure.output, budget):
            part = "only tests that ended before are run"
            return _a_part(failure, "tests-out-of-time", failure.subject, part, line)
    return None


def build_out_of_time(failure: Failure, _facts: HostFacts) -> Cause | None:
    """A build by CMake that does not end in time: targets that it had built are enough."""
    built = _BUILT_TARGET.findall(failure.output)
    build = _CMAKE_BUILD.search(failure.command)
    line = failure.command
    if not (failure.match(_OUT_OF_TIME) and built and build) or " --target " in line:
        return None
    if _CTEST in line:
        programs = set(_LINKED.findall(failure.output))
        built = [target for target in built if target in programs]
    targets = _some(built)
    if not targets:
        return None
    line = line.replace(build[0], f"{build[0]} --target {' '.join(targets)}", 1)
    part = "only targets that were built before are built"
    return _a_part(failure, "build-out-of-time", "the build", part, line)


def _a_part(failure: Failure, name: str, what: str, part: str, line: str) -> Cause:
    """The cause for what takes too long, of which a part is run instead."""
    limit = failure.timeout_seconds
    return Cause(
        name,
        f"{what} takes longer than its limit of {limit:g} s: {part}",
        (failure.own_setting("command", line),),
        is_guess=True,
        advice=f"or, for all of them: timeout_seconds = {round(10 * limit)}",
    )


def unbuilt_test_programs(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Tests whose programs the build leaves out, unless they are named."""
    found = list(_CTEST_UNBUILT.finditer(failure.output))
    if not found or _CTEST not in failure.command or " --target " in failure.command:
        return None
    step = -(-len(found) // _MOST_PROGRAMS)
    chosen = found[::step]
    tests, programs = _plain([one["test"] for one in chosen]), _plain([one["program"] for one in chosen])
    if not (tests and programs and _CTEST_BUILD.search(failure.command)):
        return None
    line = _CTEST_BUILD.sub(rf"\1 && \1 --target {' '.join(programs)} && ", failure.command, count=1)
    some = f"{len(chosen)} of {len(found)}" if step > 1 else "their"
    return Cause(
        "unbuilt-test-programs",
        f"the build leaves the programs of these tests out, so {some} programs are built by name",
        (failure.own_setting("command", _ctest_with(line, tests)),),
        is_guess=True,
    )


def unbuilt_rest(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Tests of which only those of a part were built: those that passed are run."""
    passed = _plain([name for name, _ in _CTEST_PASSED.findall(failure.output)[:_MOST_TESTS]])
    line = failure.command
    is_part = _CTEST in line and " --target " in line and " -R " not in line
    if not (is_part and passed and "***Not Run" in failure.output):
        return None
    return Cause(
        "unbuilt-rest",
        "only a part of the programs was built, so only their tests are run",
        (failure.own_setting("command", _ctest_with(line, passed)),),
        is_guess=True,
    )


def _part_of_ctest(command: str, output: str, budget: float) -> str:
    passed = [(name, float(seconds)) for name, seconds in _CTEST_PASSED.findall(output)]
    names = _shortest(passed, budget)
    return _ctest_with(command, names) if names and _CTEST in command and f"{_CTEST} -R" not in command else ""


def _ctest_with(command: str, names: Sequence[str]) -> str:
    words = "|".join(re.sub(r"([.+])", r"[\1]", name) for name in names)
    return command.replace(_CTEST, f'{_CTEST} -R "^({words})$"')


def _some(targets: Sequence[str]) -> list[str]:
    """A part of the targets of a build that did not end, the first of them; none where a name is not plain."""
    return _plain(targets[: min(_MOST_PROGRAMS, -(-len(targets) // _PART_OF_BUILD))])


def _part_of_automake(command: str, output: str, _budget: float) -> str:
    """The tests of the folder in which most passed: others do not have tests of these names."""
    tests: dict[str, list[str]] = {}
    folder = "."
    for found in _FOLDER_OR_PASS.finditer(output):
        if found["folder"]:
            folder = path_in_tree(found["folder"]) or "."
        else:
            tests.setdefault(folder, []).append(found["test"])
    if not tests or not _AUTOMAKE.search(command):
        return ""
    folder, names = max(tests.items(), key=lambda item: len(item[1]))
    chosen = _plain(names[:_MOST_TESTS])
    place = f" -C {folder}" if folder != "." else ""
    is_safe = chosen and (folder == "." or _PLAIN.fullmatch(folder))
    return _AUTOMAKE.sub(f'make{place} check TESTS="{" ".join(chosen)}"', command) if is_safe else ""


def _part_of_perl(command: str, output: str, _budget: float) -> str:
    names = _plain(_PERL_PASSED.findall(output)[:_MOST_TESTS])
    return f'{command} TEST_FILES="{" ".join(names)}"' if names and command.endswith(_PERL) else ""


def _part_of_go(command: str, output: str, budget: float) -> str:
    passed = [(name, float(seconds)) for name, seconds in _GO_PASSED.findall(output)]
    names = _shortest(passed, budget)
    return command.replace("./...", " ".join(names)) if names and _GO.search(command) else ""


def _shortest(passed: Sequence[tuple[str, float]], budget: float) -> list[str]:
    """The shortest tests that fit into the time, at least one, in the order in which they ran."""
    chosen: list[str] = []
    spent = 0.0
    for name, seconds in sorted(passed, key=lambda one: one[1]):
        if chosen and (spent + seconds > budget or len(chosen) == _MOST_TESTS):
            break
        chosen.append(name)
        spent += seconds
    return _plain([name for name, _ in passed if name in chosen])


def _plain(names: Sequence[str]) -> list[str]:
    """The names, each once; none where one of them could mean something to a shell."""
    once = list(dict.fromkeys(names))
    return once if all(_PLAIN.fullmatch(name) for name in once) else []
