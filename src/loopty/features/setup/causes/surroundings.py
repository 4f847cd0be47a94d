"""Causes: a path, a server or a GPU of this machine that is not in the trial."""

from __future__ import annotations

import posixpath
import re
import shlex

from loopty.domain.access import is_named_like_a_key
from loopty.features.setup.causes.failure import Failure, HostFacts, path_in_tree
from loopty.show.explanation import Cause, Reach, Setting, toml_value

_PATH = r"(?P<path>[^'‘’\"\s:,]+)"
_NOT_THERE = (
    r"No such file or directory: '(?P<path>[^']+)'",
    rf"ENOENT: no such file or directory, (?!mkdir)\w+ '{_PATH}'",
    rf"[‘']{_PATH}[’']?: No such file or directory",
    rf"Cannot find module '{_PATH}'",
    rf"(?:^|: |\s){_PATH}: No such file or directory",
    rf"(?:^|: |\s){_PATH}: not found$",
    rf"can't open file '{_PATH}'",
    rf"can't cd to {_PATH}",
    rf"No rule to make target [‘'`]{_PATH}[’']",
    r"file or directory not found: (?P<path>\S+)",
    rf"failed to read [`']{_PATH}[`']",
)
_SCRIPT = re.compile(
    r"\b(?:bash|sh|python3|node|perl) "
    r"(?P<path>(?P<folder>\w[\w./-]*)/(?P<name>[\w.-]+\.(?:sh|py|[cm]?js|pl)))(?!\S)"
)
_READ_ONLY = (
    r"Read-only file system: b?'(?P<path>[^']+)'",
    rf"EROFS: read-only file system, \w+ '{_PATH}'",
    # What Node says when it cannot make a folder inside one that it could not make either.
    rf"ENOENT: no such file or directory, mkdir '{_PATH}'",
    rf"can't create {_PATH}: Read-only file system",
    rf"cannot \w+(?: \w+)* [‘'`]?{_PATH}[’']?: Read-only file system",
    # "CMake Error: : System Error: Read-only file system" names no path.
    rf"(?<!\w)(?!Error:)[‘'`]?{_PATH}[’']?: Read-only file system",
    rf"cannot create {_PATH}: Read-only file system",
    rf"can't create {_PATH} for writing",
    rf"failed to (?:open|write|create directory)(?: to)?:? [`']{_PATH}[`']",
    rf"(?:open|mkdir) {_PATH}: read-only file system",
    rf"failed to write {_PATH}$",
)
_REMOVED = r"EROFS: read-only file system, (?:rmdir|rename) '"
_FILE = re.compile(r"output file|can't create|cannot create (?!directory)|cannot touch|cannot open|, open ")
"""Words that name a file; others may name a folder."""
_DENIED = (
    r"Permission denied: b?'(?P<path>[^']+)'",
    rf"EACCES: permission denied, \w+ '{_PATH}'",
    rf"cannot \w+(?: \w+)* [‘'`]?{_PATH}[’']?: Permission denied",
    rf"cannot create {_PATH}: Permission denied",
)


def submodule(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a path in a repository inside the repository."""
    found = failure.match(*_NOT_THERE)
    path = path_in_tree(found["path"]) if found else None
    inner = facts.submodule(path) if path else None
    if inner is None:
        return None
    if not inner.is_checked_out:
        return Cause(
            "submodule-not-checked-out",
            f"{path} is in the submodule {inner.path}, which is not checked out",
            shell=f"git submodule update --init -- {shlex.quote(inner.path)}",
        )
    return Cause(
        "submodule-not-shown",
        f"{path} is in the submodule {inner.path}, whose files are not in the repository's commits",
        (failure.setting_with("mounts", inner.path),),
    )


def path_ignored_by_git(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a path of the working tree that git ignores, or one of the host that trials do not see."""
    found = failure.match(*_NOT_THERE)
    if found is None:
        return None
    path = path_in_tree(found["path"])
    if path is not None and facts.has_path(path) and (ignored := facts.outermost_ignored(path)):
        return Cause(
            "path-ignored-by-git",
            f"git ignores {ignored}, so trials do not see {path}",
            (failure.setting_with("mounts", ignored),),
        )
    outside = found["path"]
    if path is None and outside.startswith("/") and facts.has_path(outside) and not facts.is_shown(outside):
        return Cause(
            "path-outside-the-sandbox",
            f"{outside} is on this machine, and trials do not see it",
            (failure.setting_with("mounts", outside),),
            reach=Reach.OUTSIDE,
        )
    return None


def path_named_like_a_key(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a file of the repository that is hidden for its name."""
    found = failure.match(*_NOT_THERE)
    path, access = path_in_tree(found["path"]) if found else None, failure.task.access
    if path is None or not (is_named_like_a_key(path) and facts.has_path(path) and access.is_hidden(path)):
        return None
    return Cause(
        "path-named-like-a-key",
        f"{path} is named like a key, so trials do not see it",
        # Not as settings, which `init` would write itself.
        advice=f"if it may be seen, in loopty.toml, under [access]: read = {toml_value((*access.read, path))}",
    )


def path_beside_the_script(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a file that a script looks for in its own folder, which is not where it was started."""
    found, script = failure.match(*_NOT_THERE), _SCRIPT.search(failure.command)
    if found is None or script is None or re.search(r"[;&|]", failure.command):
        return None
    path = found["path"]
    if path.startswith("/") or facts.has_path(path) or not facts.has_path(posixpath.join(script["folder"], path)):
        return None
    line = failure.command.replace(script["path"], script["name"], 1)
    return Cause(
        "path-beside-the-script",
        f"{script['path']} looks for {path} where it is started, and that is in {script['folder']}",
        (failure.own_setting("command", f"cd {script['folder']} && {line}"),),
    )


def read_only(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain something that writes into the tree, which trials cannot change."""
    refused = failure.match(*_READ_ONLY, *_DENIED)
    if refused is None and not failure.match("[Rr]ead-only file system"):
        return None
    path = path_in_tree(refused["path"]) if refused else None
    if path is None and refused is not None and refused["path"].startswith("/"):
        if failure.match("[Rr]ead-only file system") is None:
            return None  # a permission of the host's own
        folder = posixpath.dirname(refused["path"])
        return Cause(
            "read-only",
            f"{folder} is not a place where trials may write",
            advice="let the benchmark write to a folder of its own below $TMPDIR, or to one named in scratch",
        )
    is_file = refused is not None and _FILE.search(refused[0]) is not None
    target = _new_folder(path, facts, is_file) if path else None
    scratch = failure.task.benchmark.scratch
    if target and target not in scratch and not failure.match(_REMOVED):
        return Cause(
            "read-only",
            f"{failure.subject} writes to {target}, and a trial's files are read-only",
            (failure.setting_with("scratch", target),),
        )
    # A folder of scratch can be emptied, but neither removed nor replaced.
    kept = tuple(folder for folder in scratch if folder != target)
    return Cause(
        "read-only-beside-sources",
        f"{failure.subject} writes {path or 'files'} beside its sources, and a trial's files are read-only",
        (
            *((Setting("benchmark", "scratch", kept),) if kept != scratch else ()),
            Setting("benchmark", "writable_copy", True),
        ),
    )


def _new_folder(path: str, facts: HostFacts, is_file: bool) -> str | None:
    """Find the path's outermost folder without tracked files: it can start empty. None if there is none."""
    parts = path.split("/")
    if facts.is_environment(parts[0]):
        return None  # an empty folder in its place would hide what is installed there
    folders = ["/".join(parts[:count]) for count in range(1, len(parts))]
    if not is_file and "." not in parts[-1]:
        folders.append(path)
    return next((folder for folder in folders if not facts.has_tracked_files(folder)), None)


# Trials have a network of their own, where none runs.


def no_server(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a trial that connects to a server: trials have a network of their own, where none runs."""
    if not failure.match(r"[Cc]onnection refused", r"ECONNREFUSED"):
        return None
    return Cause(
        "no-server",
        "the trial connects to a server, and none runs in the sandbox, whose network is its own",
        advice="start the server in the command, as in `redis-server & sleep 1; make test`, or measure what does "
        "without",
    )


_NO_GPU = (
    # CUDA and its driver, as CuPy, Numba, PyTorch, TensorFlow and compiled programs pass their words on.
    r"[Nn]o CUDA-capable device is detected",
    r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice|cudaErrorInsufficientDriver|CUDA_ERROR_NOT_INITIALIZED",
    # Under Landlock the device is there and cannot be opened.
    r"cudaErrorOperatingSystem|Unexpected error from cudaGetDeviceCount\(\)",
    r"CUDA driver version is insufficient for CUDA runtime version",
    r"[Ff]ailed call to cuInit",
    r"Failed to initialize NVML|NVML: Driver Not Loaded|NVMLError_\w+",
    r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    # PyTorch, and what scripts for it assert
    r"No (?:CUDA|HIP) GPUs are available",
    r"Found no NVIDIA driver on your system",
    r"Attempting to deserialize object on (?:a )?CUDA device.* torch\.cuda\.is_available\(\) is False",
    r"assert torch\.cuda\.is_available\(\)",
    # Triton
    r"0 active drivers \(\[\]\)",
    # JAX and XLA
    r"No visible GPU devices",
    r"[Nn]o supported devices found for platform (?:CUDA|ROCM)",
    r"Unable to initialize backend '(?:cuda|rocm|gpu)'",
    r"Unknown backend:? '?(?:gpu|cuda|rocm)'?",
    # ROCm
    r"hipErrorNoDevice|[Nn]o ROCm-capable device is detected",
    r"Unable to open /dev/kfd",
    # Numba and TensorFlow, in words of their own
    r"CudaSupportError|No GPU (?:devices? )?found|GPU device not found",
)


def missing_gpu(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a benchmark that found no GPU: trials have those that the task names, if the user permits."""
    if failure.task.benchmark.devices or not failure.match(*_NO_GPU):
        return None
    if not facts.has_gpu():
        return Cause(
            "no-gpu",
            f"{failure.subject} wants a GPU, and this machine shows none (/dev/nvidia*, /dev/kfd)",
            advice="load its driver, or run the trials on a machine that has one, with workers (docs/workers.md)",
        )
    line = failure.setting_with("devices", "gpu")
    return Cause(
        "gpu-outside-the-sandbox",
        f"{failure.subject} wants a GPU, and trials see the one of this machine only where the task names it",
        (line,),
        shell=f"sed -i '/^\\[benchmark\\]/a {line.line}' loopty.toml && loopty run 1 --check --trust",
        reach=Reach.OUTSIDE,
    )
