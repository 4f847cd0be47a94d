"""The fingerprint of a machine: what decides whether two results measured on it are comparable.

A fact is left out where it cannot be known. None of them changes with load, with a reboot or with a patch of the
kernel; each of them changes what a benchmark may measure.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from loopty.domain.machine import Machine

# Reading on costs the kernel a look at each core; kinds of cores that differ appear before.
_CPUINFO_BYTES = 64 << 10
_UNLIMITED = 1 << 60
_COMMAND_SECONDS = 10


def this_machine(
    sandbox: str,
    python: str | None,
    extra: Mapping[str, str] | None = None,
    *,
    compiler: str | None = None,
    root: Path = Path("/"),
) -> Machine:
    """This machine as trials see it.

    `sandbox` names the back end, with the image where there is one. `python` and `compiler` are the paths of what
    trials call by these names, or None where they cannot: what is not this very Python is started.
    """
    hardware = _mac() if sys.platform == "darwin" else _linux(root)
    facts = {
        **hardware,
        "system": _system(root),
        "python": _python(python) if python else "",
        "compiler": _compiler(compiler) if compiler else "",
        "sandbox": sandbox,
        **(extra or {}),
    }
    return Machine({name: fact for name, fact in facts.items() if fact})


def _linux(root: Path) -> dict[str, str]:
    cgroups = list(_cgroups(root))
    return {
        "cpu": _cpu(root),
        "cores": _cores(root, cgroups),
        "memory": _memory(root, cgroups),
        "gpu": ", ".join((*_nvidia(root), *_amd(root))),
        "product": _product(root),
    }


def _mac() -> dict[str, str]:
    names = ("machdep.cpu.brand_string", "hw.logicalcpu", "hw.memsize", "hw.model")
    cpu, cores, memory, product = (_first_line_of("/usr/sbin/sysctl", "-n", name) for name in names)
    return {
        "cpu": f"{os.uname().machine} {cpu}",
        "cores": cores,
        "memory": _gigabytes(_number(memory)) if _number(memory) else "",
        "product": product,
    }


def _cpu(root: Path) -> str:
    """The kinds of cores; the clock, the microcode and the list of bugs change under a running system."""
    blocks = _text(root / "proc/cpuinfo", _CPUINFO_BYTES).rstrip("\0").split("\n\n")
    # The last one may be cut.
    kinds = {_core(block) for block in (blocks[:-1] or blocks)} - {""}
    return " ".join([os.uname().machine, *([" + ".join(sorted(kinds))] if kinds else [])])


def _core(block: str) -> str:
    of = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())}
    if "CPU part" in of:
        features = hashlib.sha256(" ".join(sorted(of.get("Features", "").split())).encode()).hexdigest()[:6]
        release = f"{of.get('CPU variant', '?')}.{of.get('CPU revision', '?')}"
        name = f"{of.get('model name', '')} ".lstrip()
        return f"{name}{of.get('CPU implementer', '?')}/{of['CPU part']} {release}, features {features}"
    name = of.get("model name") or of.get("uarch") or of.get("cpu") or of.get("isa") or ""
    # Many clouds give one name to several generations: only these numbers tell them apart.
    numbers = [of[key] for key in ("cpu family", "model", "stepping") if key in of]
    return " ".join([name, *([f"({'-'.join(numbers)})"] if len(numbers) == 3 else [])]).strip()


def _cores(root: Path, cgroups: list[Path]) -> str:
    """How many cores a trial can use at once."""
    allowed = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)$", _text(root / "proc/self/status"), re.MULTILINE)
    count = _count_in_ranges(allowed[1]) if allowed else os.cpu_count() or 0
    for folder in cgroups:
        quota, period = [*_text(folder / "cpu.max").split(), "", ""][:2]
        quota, period = quota or _text(folder / "cpu.cfs_quota_us"), period or _text(folder / "cpu.cfs_period_us")
        if _number(quota) and _number(period):
            count = min(count, math.ceil(_number(quota) / _number(period)))
    return str(count) if count else ""


def _count_in_ranges(ranges: str) -> int:
    """How many numbers a list like `0-3,8` names."""
    ends = (part.partition("-") for part in ranges.split(",") if part)
    return sum(_number(last or first) - _number(first) + 1 for first, _, last in ends)


def _memory(root: Path, cgroups: list[Path]) -> str:
    total = re.search(r"^MemTotal:\s*(\d{1,15}) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    limits = [
        _number(_text(folder / name)) for folder in cgroups for name in ("memory.max", "memory.limit_in_bytes")
    ]
    known = [size for size in (int(total[1]) << 10 if total else 0, *limits) if 0 < size < _UNLIMITED]
    return _gigabytes(min(known)) if known else ""


def _gigabytes(size: int) -> str:
    """The size that was bought: what is left of it when the kernel has taken its share varies by some percent."""
    whole = size / (1 << 30)
    step = max(1, 1 << max(0, int(math.log2(max(1, whole))) - 3))
    return f"{math.ceil(whole / step) * step} GiB"


def _cgroups(root: Path) -> Iterator[Path]:
    """The groups that this process is in, each with those above: a limit anywhere holds."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and not {"cpu", "memory"} & set(controllers.split(",")):
            continue
        place = PurePosixPath("/", path)
        for group in (place, *place.parents):
            if ".." not in group.parts:
                yield root / "sys/fs/cgroup" / controllers / str(group).lstrip("/")


def _nvidia(root: Path) -> Iterator[str]:
    driver = re.search(r"\b\d{3,}\.\d+(\.\d+)*", _text(root / "proc/driver/nvidia/version").partition("\n")[0])
    models = [
        model[1].strip()
        for place in _entries(root / "proc/driver/nvidia/gpus")
        if (model := re.search(r"^Model:\s*(.+)$", _text(place / "information"), re.MULTILINE))
    ]
    return _models_with_counts(models, f"driver {driver[0]}" if driver else "")


def _amd(root: Path) -> Iterator[str]:
    models = []
    for place in _entries(root / "sys/class/kfd/kfd/topology/nodes"):
        of = dict(line.split(" ", 1) for line in _text(place / "properties").splitlines() if " " in line)
        if _number(of.get("simd_count", "")):  # the other nodes are CPUs
            name = _text(place / "name").strip() or "AMD"
            models.append(f"{name} gfx{of.get('gfx_target_version', '?')} {of.get('device_id', '')}".strip())
    driver = _text(root / "sys/module/amdgpu/version").strip()
    return _models_with_counts(models, f"driver {driver}" if driver else "")


def _models_with_counts(models: list[str], driver: str) -> Iterator[str]:
    for model in sorted(set(models)):
        yield " ".join([f"{models.count(model)} × {model}", *([f"({driver})"] if driver else [])])


def _product(root: Path) -> str:
    """What the maker calls the machine: cores of one name run at many speeds."""
    folder = root / "sys/class/dmi/id"
    named = [_text(folder / name).strip() for name in ("sys_vendor", "product_name")]
    board = _text(root / "proc/device-tree/model").strip("\0 \n")
    return " ".join(filter(None, named)) or board


def _system(root: Path) -> str:
    told = os.uname()
    if told.sysname != "Linux":
        return f"{told.sysname} {_major_minor(told.release)}"
    text = _text(root / "etc/os-release") or _text(root / "usr/lib/os-release")
    of = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    distribution = " ".join(of[key].strip("\"'") for key in ("ID", "VERSION_ID") if key in of)
    kernel = _text(root / "proc/sys/kernel/osrelease").strip() or told.release
    return ", ".join(filter(None, [distribution, f"Linux {_major_minor(kernel)}", _libc()]))


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


def _major_minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _python(path: str) -> str:
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        return f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    asked = "import sys; print(sys.implementation.name, '.'.join(map(str, sys.version_info[:3])))"
    return _first_line_of(path, "-I", "-S", "-c", asked)


def _compiler(path: str) -> str:
    # Both flags: gcc gives the whole version for the first of them, clang knows the second only.
    version = _first_line_of(path, "-dumpfullversion", "-dumpversion") or _first_line_of(path, "-dumpversion")
    if not version:
        return ""
    return f"{Path(os.path.realpath(path)).name} {version} {_first_line_of(path, '-dumpmachine')}".strip()


def _first_line_of(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_COMMAND_SECONDS)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path, most: int = 1 << 20) -> str:
    try:
        with path.open("rb") as file:
            return file.read(most).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def _number(text: str) -> int:
    """The whole number, or 0 where this is none."""
    return int(text) if re.fullmatch(r"\s*[0-9]{1,19}\s*", text) else 0
