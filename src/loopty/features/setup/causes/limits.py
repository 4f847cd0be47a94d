"""Causes: a limit of the trial or its sandbox, and suites or builds that take too long, of which a part is run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from loopty.features.setup.causes.failure import Failure, HostFacts, path_in_tree
from loopty.kit.records import replace
from loopty.show.explanation import Cause, Reach, Setting

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
    """Explain a script of pyperf, which starts each benchmark in twenty processes, unless it is told."""
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
    """Explain tests of which some ended before the time limit of all of them."""
    if not failure.match(_OUT_OF_TIME):
        return None
    budget = _SHARE * failure.timeout_seconds
    for part_of in (_part_of_ctest, _part_of_automake, _part_of_perl, _part_of_go):
        if line := part_of(failure.command, failure.output, budget):
            part = "only tests that ended before are run"
            return _a_part(failure, "tests-out-of-time", failure.subject, part, line)
    return None


def build_out_of_time(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a build by CMake that does not end in time: targets that it had built are enough."""
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
    """Make the cause for what takes too long, of which a part is run instead."""
    limit = failure.timeout_seconds
    return Cause(
        name,
        f"{what} takes longer than its limit of {limit:g} s: {part}",
        (failure.own_setting("command", line),),
        is_guess=True,
        advice=f"or, for all of them: timeout_seconds = {round(10 * limit)}",
    )


def unbuilt_test_programs(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain tests whose programs the build leaves out, unless they are named."""
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
    """Explain tests of which only those of a part were built: those that passed are run."""
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
    """Choose the first targets of a build that did not end; none if a name is not plain."""
    return _plain(targets[: min(_MOST_PROGRAMS, -(-len(targets) // _PART_OF_BUILD))])


def _part_of_automake(command: str, output: str, _budget: float) -> str:
    """Choose the tests of the folder in which most passed: others do not have tests of these names."""
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
    """Choose the shortest tests that fit into the time, at least one, in the order in which they ran."""
    chosen: list[str] = []
    spent = 0.0
    for name, seconds in sorted(passed, key=lambda one: one[1]):
        if chosen and (spent + seconds > budget or len(chosen) == _MOST_TESTS):
            break
        chosen.append(name)
        spent += seconds
    return _plain([name for name, _ in passed if name in chosen])


def _plain(names: Sequence[str]) -> list[str]:
    """List the names, each once; none if one of them could mean something to a shell."""
    once = list(dict.fromkeys(names))
    return once if all(_PLAIN.fullmatch(name) for name in once) else []


_MORE = 4
_MEMORY = (
    r"used more than \d+ MB of memory",
    r"MemoryError",
    r"Cannot allocate memory",
    r"std::bad_alloc",
    r"JavaScript heap out of memory",
    r"[Oo]ut of memory",
    r"memory allocation of \d+ bytes failed",
    r"exit code (?:137|-9)\b",
)
_GPU_MEMORY = (
    r"(?:CUDA|HIP) out of memory",
    r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|hipErrorOutOfMemory",
    r"cupy\S*\.OutOfMemoryError",
)
_SHARE_OF_MEMORY = 0.8
"""Of the machine's memory, for one trial."""
_PROCESSES = (
    r"can't start new thread",
    r"[Ff]ork: (?:retry: )?Resource temporarily unavailable",
    r"pthread_create.*(?:Resource temporarily unavailable|failed)",
    r"uv_thread_create|failed to spawn thread",
)
_DISK = (r"wrote more than \d+ MB to disk", r"No space left on device", r"ENOSPC", r"File size limit exceeded")
_NETWORK = (
    r"[Tt]emporary failure in name resolution",
    r"Name or service not known",
    r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN)",
    r"Could not resolve (?:host|proxy)",
    r"Network is unreachable",
    r"ENETUNREACH",
    r"Failed to establish a new connection",
    r"dial tcp: lookup ",
    r"failed to (?:download|fetch) .*(?:registry|crates\.io|index)",
    r"no matching package named .* found",
    r"Temporary failure resolving",
)
_OUTPUT = (r"printed more than \d+ MB",)
_LIBRARY = r"(?P<name>lib[\w.+-]+\.so[\w.]*): cannot open shared object file"


def out_of_time(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a command that its time limit ended."""
    if not failure.match(r"still running after [\d.e+]+ s"):
        return None
    more = round(10 * failure.timeout_seconds)
    return Cause(
        "out-of-time",
        f"{failure.subject} takes longer than its limit of {failure.timeout_seconds:g} s",
        (failure.own_setting("timeout_seconds", more),),
    )


def out_of_memory(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a trial that its memory limit ended, or that could not get more memory."""
    name, sentence = "out-of-memory", "needs more than its {} MB of memory"
    cause = _higher_limit(failure, _MEMORY, name, "memory_mb", sentence)
    limit, most = failure.task.limits.memory_mb, int(_SHARE_OF_MEMORY * facts.memory_mb())
    if cause is None or _MORE * limit <= most:
        return cause
    if limit < most:
        return replace(cause, settings=(Setting("limits", "memory_mb", most),))
    advice = f"let it use less, or run it elsewhere: this machine has {facts.memory_mb()} MB"
    return replace(cause, settings=(), advice=advice)


def out_of_gpu_memory(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a benchmark that could not get more memory of the GPU, which no limit of a trial bounds."""
    if not failure.match(*_GPU_MEMORY):
        return None
    sentence = f"{failure.subject} needs more memory than is free on the GPU"
    advice = "let it use less, as a smaller batch; `nvidia-smi` or `rocm-smi` shows who else uses the GPU"
    return Cause("out-of-gpu-memory", sentence, advice=advice)


def too_many_processes(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a trial with more processes and threads than its limit."""
    sentence = "needs more than its {} processes and threads"
    return _higher_limit(failure, _PROCESSES, "too-many-processes", "processes", sentence)


def out_of_disk(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a trial that writes more than its limit."""
    return _higher_limit(failure, _DISK, "out-of-disk", "disk_mb", "writes more than its {} MB to disk and /tmp")


def too_much_output(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a trial that prints more than its limit."""
    return _higher_limit(failure, _OUTPUT, "too-much-output", "output_mb", "prints more than its {} MB")


def _higher_limit(failure: Failure, patterns: tuple[str, ...], name: str, key: str, sentence: str) -> Cause | None:
    """Make the cause whose remedy is a higher limit, if the failure matches a pattern."""
    if not failure.match(*patterns):
        return None
    limit: int = getattr(failure.task.limits, key)
    return Cause(name, f"the trial {sentence.format(limit)}", (Setting("limits", key, _MORE * limit),))


def no_network(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a trial that wants something from the network."""
    if failure.task.benchmark.network or not failure.match(*_NETWORK):
        return None
    return Cause(
        "no-network",
        "the trial wants something from the network, which trials do not have",
        (Setting("benchmark", "network", True),),
        advice="fetch it once before, and name its folder in mounts: then trials stay offline and repeatable",
        reach=Reach.OUTSIDE,
    )


def no_temporary_folder(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a program that finds no folder for temporary files."""
    if not failure.match(
        r"No usable temporary directory found", r"mktemp: failed to create", r"TMPDIR.*(?:unset|not set|unbound)"
    ):
        return None
    return Cause(
        "no-temporary-folder",
        "the trial finds no folder for temporary files",
        (failure.own_setting("command", f'export TMPDIR="${{TMPDIR:-/tmp}}"; {failure.command}'),),
    )


def missing_library(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a shared library that is elsewhere on this machine, or nowhere."""
    found = failure.match(_LIBRARY)
    if found is None:
        return None
    folder = facts.library(found["name"])
    if folder is None:
        return Cause(
            "missing-library",
            f"the shared library {found['name']} is not installed on this machine",
            advice=f"install the package of your system that has {found['name']}",
        )
    return Cause(
        "library-outside-the-sandbox",
        f"the shared library {found['name']} is in {folder}, where the trial does not look",
        (
            *(() if facts.is_shown(folder) else (failure.setting_with("mounts", folder),)),
            failure.own_setting(
                "command", f'export LD_LIBRARY_PATH="{posixpath.normpath(folder)}"; {failure.command}'
            ),
        ),
        reach=Reach.TOOLCHAIN,
    )


def no_git(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a build that asks git for its version: trials see a commit's files and no git directory."""
    sentence = "the trial asks git about the repository, and sees only the files of a commit"
    if failure.match(r"setuptools[_-]scm was unable to detect version"):
        line = f"export SETUPTOOLS_SCM_PRETEND_VERSION=0.0.1; {failure.command}"
        return Cause("no-git-directory", sentence, (failure.own_setting("command", line),))
    if failure.match(r"not a git repository"):
        return Cause("no-git-directory", sentence, advice="give it the version in another way, or leave it out")
    return None
