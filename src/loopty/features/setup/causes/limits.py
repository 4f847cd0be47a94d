"""Causes: a limit of the trial or its sandbox."""

from __future__ import annotations

import posixpath

from loopty.features.setup.causes.failure import Failure, HostFacts
from loopty.kit.records import replace
from loopty.show.explanation import Cause, Reach, Setting

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
