"""Devices that a task names: `gpu`, `gpu:0`, or the path of a character device."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.records import Record

_GPU = re.compile(r"gpu(?::(\d{1,3}))?")
_NVIDIA_CONTROL = ("nvidiactl", "nvidia-uvm")
"""Every program on an NVIDIA GPU needs both; CUDA without the second ends in "unknown error"."""
_ASSIGNED = "CUDA_VISIBLE_DEVICES"
"""How Ray and Slurm say which NVIDIA GPUs are a process's own."""
_AMD_CONTROL = ("kfd",)
_NVIDIA_FACTS = ("/proc/devices", "/proc/driver/nvidia", "/proc/modules")
_AMD_FACTS = ("/sys/bus/pci/devices", "/sys/class/drm", "/sys/class/kfd", "/sys/devices", "/sys/module/amdgpu")


class DeviceNodes(Record):
    """The device files of a task: those to use, and those by which they are controlled."""

    units: tuple[str, ...] = ()
    """What only one trial uses at a time."""
    control: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.control, *self.units)

    @property
    def resources(self) -> tuple[str, ...]:
        """Their names among the resources that trials take turns with."""
        return tuple(f"device {path}" for path in self.units)

    @property
    def fact(self) -> str:
        """For the fingerprint. Of GPUs that a scheduler assigns, only the number counts: others are as good."""
        assigned = [path for path in self.units if is_nvidia_gpu(path) and _ASSIGNED in os.environ]
        names = [path for path in self.units if path not in assigned]
        return ", ".join([*names, *([f"{len(assigned)} assigned GPUs"] if assigned else [])])


def find_devices(names: tuple[str, ...], dev: Path = Path("/dev")) -> DeviceNodes:
    """The device files of these names. Raises Misuse for a device that this machine does not have."""
    units: dict[str, None] = {}
    control: dict[str, None] = {}
    for name in names:
        if match := _GPU.fullmatch(name):
            found = _gpus(dev, match[1])
            if not found.units:
                raise Misuse(
                    f"benchmark.devices names {name!r}, and this machine has no such GPU "
                    f"({dev}/nvidia*, {dev}/kfd): load its driver, or remove the name"
                )
        else:
            found = DeviceNodes((_device(name),))
        units |= dict.fromkeys(found.units)
        control |= dict.fromkeys(found.control)
    return DeviceNodes(tuple(units), tuple(control))


def is_nvidia_gpu(path: str) -> bool:
    """Whether a device file is that of an NVIDIA GPU."""
    return re.fullmatch(r"/dev/nvidia\d+", path) is not None


def device_facts(paths: tuple[str, ...]) -> tuple[str, ...]:
    """What the drivers of these devices read about the machine, where it exists."""
    nvidia = _NVIDIA_FACTS if any(map(is_nvidia_gpu, paths)) else ()
    amd = _AMD_FACTS if any(path.startswith("/dev/dri/") for path in paths) else ()
    return tuple(path for path in (*nvidia, *amd) if Path(path).exists())


def _gpus(dev: Path, number: str | None) -> DeviceNodes:
    nvidia = [str(path) for path in sorted(dev.glob("nvidia[0-9]*")) if path.is_char_device()]
    amd = [str(path) for path in sorted((dev / "dri").glob("renderD*")) if path.is_char_device()]
    kfd = [str(dev / name) for name in _AMD_CONTROL if (dev / name).is_char_device()]
    nvidia = [path for path in nvidia if _is_assigned(path)]
    units = nvidia or (amd if kfd else [])
    if number is not None:
        wanted = f"{dev}/nvidia{number}" if nvidia else f"{dev}/dri/renderD{128 + int(number)}"
        units = [path for path in units if path == wanted]
    control = [str(dev / name) for name in _NVIDIA_CONTROL if (dev / name).is_char_device()] if nvidia else kfd
    return DeviceNodes(tuple(units), tuple(control))


def _is_assigned(path: str) -> bool:
    """Whether a scheduler left this NVIDIA GPU to this process, where it says so by numbers."""
    assigned = os.environ.get(_ASSIGNED)
    if assigned is None or not re.fullmatch(r"[\d,]*", assigned):
        return True
    return path.rpartition("nvidia")[2] in assigned.split(",")


def _device(name: str) -> str:
    path = os.path.normpath(name)
    try:
        # Not through a link: what the user has allowed is this path.
        is_device = path.startswith("/") and stat.S_ISCHR(os.lstat(path).st_mode)
    except OSError:
        is_device = False
    if not is_device:
        raise Misuse(
            f"benchmark.devices names {name!r}, which is no character device here: name `gpu`, `gpu:0` or the "
            "path of a device such as /dev/dri/renderD128"
        )
    return path
