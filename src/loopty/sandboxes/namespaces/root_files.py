"""The file systems of trials: what they share, made once, and the root of each."""

# Without pathlib: the launcher's memory is copied for every trial, so it imports little.
# ruff: noqa: PTH102, PTH103, PTH115, PTH120, PTH211
from __future__ import annotations

import errno
import os
import stat

from loopty.sandboxes.namespaces.calls import (
    NO_DEVICES,
    NO_SUID,
    READ_ONLY,
    attach_tree,
    change_root,
    clone_tree,
    unmount,
)
from loopty.sandboxes.namespaces.launch_order import TrialOrder
from loopty.sandboxes.raw_calls import MS_BIND, MS_NODEV, MS_NOSUID, MS_REC, MS_SLAVE, mount

HOST, _SYSTEM, _NEW = "/host", "/system", "/new"
_MS_RDONLY, _MS_NOEXEC, _MS_REMOUNT = 0x1, 0x8, 0x20
_FROZEN = MS_BIND | _MS_REMOUNT | _MS_RDONLY | MS_NOSUID | MS_NODEV
_SAFE = NO_SUID | NO_DEVICES
_RESOLVER = "/etc/resolv.conf"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}
# Old parts of /proc by which root could harm the machine. An unprivileged user cannot write them anyway.
_COVERED = ("sys", "sysrq-trigger", "irq", "bus")

SystemPaths = tuple[tuple[str, str, bool], ...]


class TrialRoot:
    """Makes the roots of trials from parts that this process sees."""

    def __init__(self, system: SystemPaths, host: str, shared: str, new: str) -> None:
        """`host` is where the host's files are, `shared` what all trials share, `new` where a root is made."""
        self._system = system
        self._host = host
        self._shared = shared
        self._new = new

    @property
    def host_processes(self) -> str:
        """Return the /proc in which the parent of a trial's first process can be seen."""
        return f"{self._host}/proc"

    @property
    def _settings(self) -> SystemPaths:
        return tuple(entry for entry in self._system if _is_setting(entry[0]))

    def enter_trial_root(self, order: TrialOrder, trees: list[int]) -> list[int]:
        """Make the root of one trial and enter it; `trees` are copied trees for the mounts without a path.

        This process must have its own copy of the mount namespace. Returns open descriptors of the file systems
        in memory that the trial can write.
        """
        new, size = self._new, f"mode=0755,size={order.disk_bytes}"
        mount("tmpfs", new, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
        for path, source, is_link in self._system:
            if is_link and not _is_setting(path):
                os.symlink(source, f"{new}{path}")
            elif not _is_setting(path):
                self._show(path)
        self._add_settings(order)
        self._add_devices(order)
        _mount_proc(f"{new}/proc")
        for path in order.temporary:
            _mount_in_memory(new, path, size)
        os.mkdir(f"{new}{order.home}", 0o755)
        for target, source_path, writable in order.mounts:
            tree = trees.pop(0) if source_path is None else clone_source(source_path)
            _attach(tree, new, target, _SAFE if writable else READ_ONLY | _SAFE)
        for path in order.scratch:
            _mount_in_memory(new, path, size)
        for path, leads_to in order.links:
            _make_link(new, path, leads_to)
        for path in order.devices:
            _bind(f"{self._host}{path}", new, path, NO_SUID)
        for path in order.facts:
            _bind(f"{self._host}{path}", new, path, READ_ONLY | _SAFE)
        if order.devices:
            mount("none", f"{new}/dev", None, _FROZEN)
        mount("none", new, None, _FROZEN)
        memory = [_open_target(new, path, is_folder=True) for path in (*order.temporary, *order.scratch)]
        os.chdir(new)
        # The former root is mounted over the new one now, and goes.
        change_root(".", ".")
        unmount(".")
        os.chdir("/")
        return memory

    def _add_settings(self, order: TrialOrder) -> None:
        if not order.network:
            self._show("/etc")
            return
        # What the host says about name servers changes, and only trials with the network see it.
        _make_settings(self._new, self._settings)
        if order.resolver:
            _bind(f"{self._host}{order.resolver}", self._new, _RESOLVER, READ_ONLY | _SAFE)

    def _add_devices(self, order: TrialOrder) -> None:
        if order.devices:
            _make_devices(self._new)
        else:
            self._show("/dev")
        options = "newinstance,ptmxmode=0666,mode=620"
        mount("devpts", f"{self._new}/dev/pts", "devpts", MS_NOSUID | _MS_NOEXEC, options)

    def _show(self, path: str) -> None:
        """Show in a trial's root what all trials share at a path."""
        os.mkdir(f"{self._new}{path}", 0o755)
        mount(f"{self._shared}{path}", f"{self._new}{path}", None, MS_BIND | MS_REC)


class SharedRoot(TrialRoot):
    """The root of the launcher: the host's files, and the parts of a trial's root that all trials share.

    They are made once and bound into each trial, because making them takes longer than everything else.
    """

    def __init__(self, system: SystemPaths) -> None:
        """Enter it; this process must have a mount namespace of its own."""
        super().__init__(system, HOST, _SYSTEM, _NEW)
        mount("none", "/", None, MS_REC | MS_SLAVE)
        mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
        for name in (HOST, _SYSTEM, _NEW):
            os.mkdir(f"/tmp{name}", 0o755)
        change_root("/tmp", f"/tmp{HOST}")
        os.chdir("/")
        for path, source, is_link in system:
            if not _is_setting(path) and not is_link:
                _bind(f"{HOST}{source}", _SYSTEM, path, READ_ONLY | _SAFE)
        _make_settings(_SYSTEM, self._settings)
        _make_devices(_SYSTEM)
        for name in ("etc", "dev"):
            mount("none", f"{_SYSTEM}/{name}", None, _FROZEN)


def copied_root(system: SystemPaths) -> TrialRoot:
    """Make the root of a copy of a warm process: it shows parts of the root that the process itself has."""
    return TrialRoot(system, "", "", "/tmp")


def _is_setting(path: str) -> bool:
    return path.startswith("/etc/")


def _make_settings(root: str, entries: SystemPaths) -> None:
    os.mkdir(f"{root}/etc", 0o755)
    mount(f"{root}/etc", f"{root}/etc", None, MS_BIND)
    for path, source, is_link in entries:
        if is_link:
            os.makedirs(os.path.dirname(f"{root}{path}"), 0o755, exist_ok=True)
            os.symlink(source, f"{root}{path}")
        else:
            _bind(f"{HOST}{source}", root, path, READ_ONLY | _SAFE)


def _make_devices(root: str) -> None:
    os.mkdir(f"{root}/dev", 0o755)
    mount("tmpfs", f"{root}/dev", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    for name in _DEVICES:
        _bind(f"{HOST}/dev/{name}", root, f"/dev/{name}", NO_SUID)
    for name, leads_to in _DEVICE_LINKS.items():
        os.symlink(leads_to, f"{root}/dev/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{root}/dev/{name}", 0o755)


def _mount_proc(path: str) -> None:
    os.mkdir(path, 0o755)
    mount("proc", path, "proc", MS_NOSUID | MS_NODEV | _MS_NOEXEC)
    for name in _COVERED:
        covered = f"{path}/{name}"
        if os.access(covered, os.W_OK):
            mount(covered, covered, None, MS_BIND | MS_REC)
            mount("none", covered, None, _FROZEN | _MS_NOEXEC)


def _mount_in_memory(root: str, path: str, options: str) -> None:
    os.close(_open_target(root, path, is_folder=True))
    mount("tmpfs", f"{root}{path}", "tmpfs", MS_NOSUID | MS_NODEV, options)


def _bind(source: str, root: str, path: str, attributes: int) -> None:
    """Mount a path of the host below a root."""
    descriptor = os.open(source, os.O_PATH | os.O_CLOEXEC)
    tree = clone_tree(descriptor)
    os.close(descriptor)
    _attach(tree, root, path, attributes)


def clone_source(path: str) -> int:
    """Copy the tree at a path of the host. Raises OSError when the path is a link or crosses one."""
    descriptor = os.open(f"{HOST}{path}", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.readlink(f"{HOST}/proc/self/fd/{descriptor}") != f"{HOST}{path}":
            raise OSError(errno.ELOOP, "it is or crosses a symbolic link", path)
        return clone_tree(descriptor)
    finally:
        os.close(descriptor)


def _attach(tree: int, root: str, path: str, attributes: int) -> None:
    """Mount a copied tree, and close it, at a path that is made where it does not exist."""
    target = _open_target(root, path, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
    attach_tree(tree, target, attributes)
    os.close(target)
    os.close(tree)


def _make_link(root: str, path: str, leads_to: str) -> None:
    above, _, name = path.rpartition("/")
    folder = _open_target(root, above, is_folder=True)
    os.symlink(leads_to, name, dir_fd=folder)
    os.close(folder)


def _open_target(root: str, path: str, *, is_folder: bool) -> int:
    """Open a mount point, which is made where it does not exist. Raises OSError when the path crosses a link.

    Step by step: what was mounted before may contain links, and one of them would lead out of the root.
    """
    names = [name for name in path.split("/") if name]
    descriptor = os.open(root, os.O_PATH | os.O_CLOEXEC)
    for position, name in enumerate(names, 1):
        above = descriptor
        try:
            descriptor = _open_step(above, name, is_folder=is_folder or position < len(names))
        except OSError as error:
            raise OSError(error.errno, f"{os.strerror(error.errno or 0)} (mount point)", path) from error
        finally:
            os.close(above)
    return descriptor


def _open_step(above: int, name: str, *, is_folder: bool) -> int:
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=above)
    except FileNotFoundError:
        if is_folder:
            os.mkdir(name, 0o755, dir_fd=above)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444, dir_fd=above))
        descriptor = os.open(name, flags, dir_fd=above)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return descriptor
