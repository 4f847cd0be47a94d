"""What a trial with namespaces of its own sees: system paths, temporary directories, links, variables, and the
devices that a task names.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.launch import Launch, SandboxError
from loopty.kit.records import Record

HOST_NAME, UID, GID = "trial", 1000, 1000
HOME = "/tmp/home"
TEMPORARY = ("/tmp", "/dev/shm")

# Only what dynamic linking, name look-up, certificates, time zones, Debian's Java and its Maven need: each entry
# costs a tenth of a millisecond per trial, and /etc as a whole holds secrets that its owner's trials could read.
_SETTINGS = (
    "alternatives",
    "group",
    "hosts",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "maven/m2.conf",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "ssl/certs",
    "ssl/openssl.cnf",
)


@functools.cache
def system_paths() -> tuple[Path, ...]:
    """Return the system paths that every trial sees: programs, libraries and a few settings."""
    programs = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
    settings = (path for pattern in _SETTINGS for path in sorted(Path("/etc").glob(pattern)))
    return (*map(Path, programs), *settings)


class SystemEntry(Record):
    """A system path as every trial sees it: a link into /usr, or the file or directory `source` itself."""

    path: str
    source: str
    is_link: bool


def system_entries() -> Iterator[SystemEntry]:
    """Yield the system paths that exist on this machine."""
    for path in system_paths():
        resolved = path.resolve()
        is_link = resolved != path and resolved.is_relative_to("/usr")
        if is_link or resolved.exists():
            yield SystemEntry(str(path), str(resolved), is_link)


def links_of(launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield the links to make, where nothing is mounted and nothing shows them, and where they lead."""
    # As texts, because pathlib would take a millisecond for all of them.
    mounted = (*_system_texts(), *(_as_folder(mount.target) for mount in launch.mounts))
    for path, leads_to in launch.links.items():
        link = _as_folder(path)
        if not link.startswith(mounted) and not any(other.startswith(link) for other in mounted):
            yield path, leads_to


@functools.cache
def _system_texts() -> tuple[str, ...]:
    return tuple(_as_folder(str(path)) for path in system_paths())


def _as_folder(path: str) -> str:
    """Return the path with one slash at its end, which paths below it begin with."""
    return f"{path.rstrip('/')}/"


def facts_of_devices(launch: Launch) -> tuple[str, ...]:
    """List what the devices' drivers read in /sys; the /proc of a trial has the other facts already."""
    return tuple(path for path in device_facts(launch.devices) if path.startswith("/sys"))


def environment_of(launch: Launch) -> dict[str, str]:
    """Return the variables of the command."""
    return {"HOME": HOME, "TMPDIR": TEMPORARY[0], **launch.env}


def temporary_directories(launch: Launch) -> tuple[str, ...]:
    """List where the trial sees file systems that are kept in memory."""
    return (*TEMPORARY, *launch.scratch)


def refuse_mount_points_that_a_trial_could_move(launch: Launch) -> None:
    """Raise SandboxError for a mount point inside a directory that the trial may write."""
    # In a writable directory the trial can rename the parent of a mount point, and bubblewrap would follow links
    # that an earlier trial left there and create the mount point on the host.
    writable = [os.path.normpath(mount.target) for mount in launch.mounts if mount.writable]
    for target in (*(mount.target for mount in launch.mounts), *launch.scratch):
        normal = os.path.normpath(target)
        for above in writable:
            if normal != above and normal.startswith(_as_folder(above)):
                raise SandboxError(f"{target} cannot be mounted inside {above}, which the trial may write")


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
        """Return their names among the resources that trials take turns with."""
        return tuple(f"device {path}" for path in self.units)

    @property
    def fact(self) -> str:
        """Return the fact for the fingerprint; of GPUs that a scheduler assigns, only their number: all serve."""
        assigned = [path for path in self.units if is_nvidia_gpu(path) and _ASSIGNED in os.environ]
        names = [path for path in self.units if path not in assigned]
        return ", ".join([*names, *([f"{len(assigned)} assigned GPUs"] if assigned else [])])


def find_devices(names: tuple[str, ...], dev: Path = Path("/dev")) -> DeviceNodes:
    """Find the device files of these names. Raises Misuse for a device that this machine does not have."""
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
    """Say whether a device file is an NVIDIA GPU."""
    return re.fullmatch(r"/dev/nvidia\d+", path) is not None


def device_facts(paths: tuple[str, ...]) -> tuple[str, ...]:
    """List what the drivers of these devices read about the machine, if it exists."""
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
    """Say whether a scheduler left this NVIDIA GPU to this process; True if it names no numbers."""
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
