"""This machine: its cores and memory, and the fingerprint under which its results are comparable."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.task_tables import Capacity
from loopty.domain.trial import Machine
from loopty.kit.kept_files import ProgramAnswers

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def this_capacity() -> Capacity:
    """Return what the machine, or the container around us, has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Capacity(cores or 1, memory >> 20)


# A fact that cannot be determined is left out. No fact changes with load, a reboot or a kernel patch; each fact
# can change what a benchmark measures.


# Reading on makes the kernel query every core; cores of different kinds appear before this point.
_CPUINFO_BYTES = 64 << 10
_UNLIMITED = 1 << 60
_ROOT = Path("/")
_RECENT_SECONDS = 60.0
_recent: list[tuple[float, dict[str, str]]] = []
"""The facts that were read last, and when."""
_Ask = Callable[..., str]
"""The first line that a command prints."""


def this_machine(
    sandbox: str,
    python: str | None,
    extra: Mapping[str, str] | None = None,
    *,
    compiler: str | None = None,
    others: Sequence[str] = (),
    answers: ProgramAnswers | None = None,
    root: Path = _ROOT,
) -> Machine:
    """Describe this machine as trials see it.

    `sandbox` names the back end, with its image if it has one. `python` and `compiler` are the paths of the
    programs that trials call by these names, or None if there is none; `others` are further programs whose version
    matters. All but this Python are started to ask for their versions, unless `answers` has them.
    """
    ask = (answers or ProgramAnswers()).first_line
    facts = {
        **_recent_facts(root),
        "python": _python(ask, python) if python else "",
        "compiler": _compiler(ask, compiler) if compiler else "",
        **{Path(path).name: _version(ask, path) for path in others},
        "sandbox": sandbox,
        **(extra or {}),
    }
    return Machine({name: fact for name, fact in facts.items() if fact})


def machine_drift(facts: Mapping[str, str], root: Path = _ROOT) -> str:
    """Say how this machine differs now from these facts; empty if it does not.

    Cores and memory change under a process when somebody changes its limits.
    """
    _recent.clear()
    present = _recent_facts(root)
    changes = (name for name, fact in present.items() if name in facts and fact and fact != facts[name])
    return ", ".join(f"{name}: {facts[name]} before, {present[name]} now" for name in changes)


def _recent_facts(root: Path) -> dict[str, str]:
    """Return the facts of this machine, at most a minute old: a process may set up many trials."""
    if root != _ROOT:
        return _files_facts(root)
    now = time.monotonic()
    if not _recent or _recent[0][0] < now - _RECENT_SECONDS:
        _recent[:] = [(now, _files_facts(root))]
    return _recent[0][1]


def _files_facts(root: Path) -> dict[str, str]:
    cgroups = list(_cgroups(root))
    return {
        "cpu": _cpu(root),
        "cores": _cores(root, cgroups),
        "memory": _memory(root, cgroups),
        "gpu": ", ".join((*_nvidia(root), *_amd(root))),
        "product": _product(root),
        "system": _system(root),
    }


def _cpu(root: Path) -> str:
    """Name the kinds of cores, without clock, microcode and bugs, which change on a running system."""
    blocks = _text(root / "proc/cpuinfo", _CPUINFO_BYTES).rstrip("\0").split("\n\n")
    # The last block may be cut off.
    kinds = {_core(block) for block in (blocks[:-1] or blocks)} - {""}
    return " ".join([os.uname().machine, *([" + ".join(sorted(kinds))] if kinds else [])])


def _core(block: str) -> str:
    fields = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())
    }
    if "CPU part" in fields:
        features = hashlib.sha256(" ".join(sorted(fields.get("Features", "").split())).encode()).hexdigest()[:6]
        release = f"{fields.get('CPU variant', '?')}.{fields.get('CPU revision', '?')}"
        name = f"{fields.get('model name', '')} ".lstrip()
        return f"{name}{fields.get('CPU implementer', '?')}/{fields['CPU part']} {release}, features {features}"
    name = fields.get("model name") or fields.get("uarch") or fields.get("cpu") or fields.get("isa") or ""
    # Many clouds give several generations one name: only these numbers distinguish them.
    numbers = [fields[key] for key in ("cpu family", "model", "stepping") if key in fields]
    return " ".join([name, *([f"({'-'.join(numbers)})"] if len(numbers) == 3 else [])]).strip()


def _cores(root: Path, cgroups: list[Path]) -> str:
    """Count the cores that a trial can use at once."""
    allowed = _value(root / "proc/self/status", "Cpus_allowed_list")
    is_list = bool(allowed) and not allowed.strip("0123456789,-")
    count = _count_in_ranges(allowed) if is_list else os.cpu_count() or 0
    for folder in cgroups:
        quota, period = [*_text(folder / "cpu.max").split(), "", ""][:2]
        quota, period = quota or _text(folder / "cpu.cfs_quota_us"), period or _text(folder / "cpu.cfs_period_us")
        if _number(quota) and _number(period):
            count = min(count, math.ceil(_number(quota) / _number(period)))
    return str(count) if count else ""


def _count_in_ranges(ranges: str) -> int:
    """Count the numbers in a list like `0-3,8`."""
    ends = (part.partition("-") for part in ranges.split(",") if part)
    return sum(_number(last or first) - _number(first) + 1 for first, _, last in ends)


def _memory(root: Path, cgroups: list[Path]) -> str:
    total = _number(_value(root / "proc/meminfo", "MemTotal").removesuffix(" kB")) << 10
    limits = [
        _number(_text(folder / name)) for folder in cgroups for name in ("memory.max", "memory.limit_in_bytes")
    ]
    known = [size for size in (total, *limits) if 0 < size < _UNLIMITED]
    return _gigabytes(min(known)) if known else ""


def _gigabytes(size: int) -> str:
    """Round to the size that was bought: the part that the kernel leaves of it varies by a few percent."""
    whole = size / (1 << 30)
    step = max(1, 1 << max(0, int(math.log2(max(1, whole))) - 3))
    return f"{math.ceil(whole / step) * step} GiB"


def _cgroups(root: Path) -> Iterator[Path]:
    """Yield the control groups of this process and all groups above them: a limit on any of them applies."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and not {"cpu", "memory"} & set(controllers.split(",")):
            continue
        folder = PurePosixPath("/", path)
        for group in (folder, *folder.parents):
            if ".." not in group.parts:
                yield root / "sys/fs/cgroup" / controllers / str(group).lstrip("/")


def _nvidia(root: Path) -> Iterator[str]:
    driver = re.search(r"\b\d{3,}\.\d+(\.\d+)*", _text(root / "proc/driver/nvidia/version").partition("\n")[0])
    models = [
        model[1].strip()
        for folder in _entries(root / "proc/driver/nvidia/gpus")
        if (model := re.search(r"^Model:\s*(.+)$", _text(folder / "information"), re.MULTILINE))
    ]
    return _models_with_counts(models, f"driver {driver[0]}" if driver else "")


def _amd(root: Path) -> Iterator[str]:
    models = []
    for folder in _entries(root / "sys/class/kfd/kfd/topology/nodes"):
        properties = dict(line.split(" ", 1) for line in _text(folder / "properties").splitlines() if " " in line)
        if _number(properties.get("simd_count", "")):  # other nodes are CPUs
            name = _text(folder / "name").strip() or "AMD"
            models.append(
                f"{name} gfx{properties.get('gfx_target_version', '?')} {properties.get('device_id', '')}".strip()
            )
    driver = _text(root / "sys/module/amdgpu/version").strip()
    return _models_with_counts(models, f"driver {driver}" if driver else "")


def _models_with_counts(models: list[str], driver: str) -> Iterator[str]:
    for model in sorted(set(models)):
        yield " ".join([f"{models.count(model)} × {model}", *([f"({driver})"] if driver else [])])


def _product(root: Path) -> str:
    """Return the maker's name of the machine: cores of the same name run at many speeds."""
    folder = root / "sys/class/dmi/id"
    names = [_text(folder / name).strip() for name in ("sys_vendor", "product_name")]
    board = _text(root / "proc/device-tree/model").strip("\0 \n")
    return " ".join(filter(None, names)) or board


def _system(root: Path) -> str:
    text = _text(root / "etc/os-release") or _text(root / "usr/lib/os-release")
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    distribution = " ".join(fields[key].strip("\"'") for key in ("ID", "VERSION_ID") if key in fields)
    kernel = _text(root / "proc/sys/kernel/osrelease").strip() or os.uname().release
    return ", ".join(filter(None, [distribution, f"Linux {_major_minor(kernel)}", _libc()]))


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def _major_minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _python(ask: _Ask, path: str) -> str:
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    script = "import sys; print(sys.implementation.name, '.'.join(map(str, sys.version_info[:3])))"
    return ask(path, "-I", "-S", "-c", script)


def _compiler(ask: _Ask, path: str) -> str:
    # Both flags: gcc prints its full version for the first, clang knows only the second.
    version = ask(path, "-dumpfullversion", "-dumpversion") or ask(path, "-dumpversion")
    if not version:
        return ""
    return f"{Path(os.path.realpath(path)).name} {version} {ask(path, '-dumpmachine')}".strip()


def _version(ask: _Ask, path: str) -> str:
    return ask(path, "--version") or ask(path, "version")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path, limit_bytes: int = 1 << 20) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit_bytes).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _value(path: Path, key: str) -> str:
    """Look up a key in a file of lines like `key: value`; empty if it is missing."""
    lines = (line.partition(":") for line in _text(path).splitlines())
    return next((value.strip() for name, _, value in lines if name == key), "")


def _number(text: str) -> int:
    """Return the whole number in the text, or 0 if there is none."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
