"""The arena of an attack: what the trial sees, the victims that it must not reach, and how to tell that it did."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from loopty.domain.launch import Bounds, Launch, Mount
from loopty.kit.process import trial_owner
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.sandboxes.toolchain import Toolchain


class FileState(Record):
    """One file or directory at one moment."""

    mode: int
    owner: int
    names: int
    modified_ns: int
    digest: str


def file_states(*folders: Path) -> dict[str, FileState]:
    """Return the states of the folders and everything below them, by path."""
    return {str(path): _file_state(path) for folder in folders for path in (folder, *paths_below(folder))}


def difference(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> str:
    """Name one thing that changed, in words; an empty text when nothing changed."""
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            verb = "created" if path not in before else "removed" if path not in after else "changed"
            return f"{verb} {Path(path).name}"
    return ""


def paths_below(folder: Path) -> Iterator[Path]:
    """Yield every path below a folder; links are not followed."""
    for here, directories, files in os.walk(folder, followlinks=False):
        for name in (*directories, *files):
            yield Path(here, name)


def regular_file_content(path: Path) -> bytes | None:
    """Read the content of a regular file; None when the path is anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _file_state(path: Path) -> FileState:
    status = path.lstat()
    content = regular_file_content(path) if stat.S_ISREG(status.st_mode) else None
    digest = hashlib.sha256(content).hexdigest() if content is not None else ""
    return FileState(status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, digest)


_ALIVE_SECONDS = "300"


class HostServices:
    """Sockets that never accept: a client that connects waits in the queue, where it is noticed."""

    def __init__(self, path: Path, abstract: str) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._path, self._abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self._path.bind(str(path))
        path.chmod(0o777)
        self._abstract.bind(f"\0{abstract}")
        for server in (self._path, self._abstract):
            server.listen()
        for server in self._sockets:
            server.setblocking(False)

    @property
    def tcp_port(self) -> int:
        port: int = self._tcp.getsockname()[1]
        return port

    @property
    def udp_port(self) -> int:
        port: int = self._udp.getsockname()[1]
        return port

    def service_reached(self) -> str:
        """Name the first service that was reached, or return an empty text."""
        servers = {"a TCP service": self._tcp, "a socket": self._path, "an abstract socket": self._abstract}
        for name, server in servers.items():
            with contextlib.suppress(BlockingIOError):
                server.accept()[0].close()
                return name
        with contextlib.suppress(BlockingIOError):
            self._udp.recv(100)
            return "a UDP service"
        return ""

    def close(self) -> None:
        for server in self._sockets:
            server.close()

    @property
    def _sockets(self) -> tuple[socket.socket, ...]:
        return (self._tcp, self._udp, self._path, self._abstract)


class Victim:
    """A process of the user that trials run as, with a secret in its environment."""

    def __init__(self, secret: str) -> None:
        uid, gid = trial_owner() or (None, None)
        self._process = subprocess.Popen(
            ["sleep", _ALIVE_SECONDS],
            env={"PATH": os.defpath, "TOKEN": secret},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def harm(self) -> str:
        """Say what was done to the process, or return an empty text."""
        return "" if self._process.poll() is None else "a process of the host is dead"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


TREE, OUT = "/arena/tree", "/arena/out"
_INSIDE = Path(__file__).with_name("inside_script.py")
# Where an attack that sees the host's own file system leaves files.
_TEMPORARY = ("/tmp", "/dev/shm")
_REPOSITORY = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    "hooks/README": "",
}


class Arena:
    """The files, services and process around one attack.

    All of it belongs to the user that trials run as, so that only the sandbox stands in the way.
    """

    def __init__(self, tools: Toolchain, hold_seconds: float) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="loopty-arena-")).resolve()
        self.mark = secrets.token_hex(8)
        """A token that the attacker knows, by which its leftovers are found."""
        self._secret = secrets.token_hex(16)
        self._tools = tools
        self._hold_seconds = hold_seconds
        self._lay_out()
        self._services = HostServices(self.hidden / "service.sock", f"loopty-{self.mark}")
        self._victim = Victim(self._secret)
        self._variable = f"LOOPTY_ARENA_{self.mark}"
        os.environ[self._variable] = self._secret
        self._open_ledger = os.open(self.ledger, os.O_WRONLY | os.O_APPEND)
        os.set_inheritable(self._open_ledger, True)
        self._before = file_states(self.tree, self.hidden)

    @property
    def tree(self) -> Path:
        """Return the folder that the trial sees and must not change."""
        return self.root / "tree"

    @property
    def outbox(self) -> Path:
        """Return the folder that the trial may write."""
        return self.root / "out"

    @property
    def hidden(self) -> Path:
        """Return the folder that the trial does not see: a ledger, a repository, a home, a secret."""
        return self.root / "hidden"

    @property
    def ledger(self) -> Path:
        return self.hidden / "ledger.sqlite"

    @property
    def draft(self) -> Path:
        """Say where loopty puts the draft that the trial left."""
        return self.root / "drafts" / "1"

    @property
    def harvest_folder(self) -> Path:
        """Say where loopty stores what it takes out of the outbox."""
        return self.root / "kept"

    def launch(self, script: str, bounds: Bounds, mount: Mount | None = None) -> Launch:
        """Make the launch of a script that sees the tree, the outbox and this mount."""
        prefixes = tuple(Mount(prefix.resolve(), str(prefix)) for prefix in self._tools.prefixes)
        shown = (Mount(self.tree, TREE), Mount(self.outbox, OUT, writable=True), *([mount] if mount else []))
        return Launch(
            argv=("python3", "-I", "-S", "-c", _INSIDE.read_text(encoding="utf-8"), script),
            cwd=TREE,
            bounds=bounds,
            stdout=self.root / "stdout",
            stderr=self.root / "stderr",
            env={
                "PATH": self._tools.path,
                "TREE": TREE,
                "OUT": OUT,
                "PLACE": mount.target if mount else "",
                "HOST": json.dumps(self._attacker_knowledge(bounds)),
            },
            mounts=(*prefixes, *shown),
        )

    def is_ready(self) -> bool:
        """Say whether the attacker has called `ready()`."""
        return regular_file_content(self.outbox / "ready") is not None

    def harm(self, bounds: Bounds) -> str:
        """Say what the attack achieved, seen from outside; an empty text when it achieved nothing."""
        return next(filter(None, self._harms(bounds)), "")

    def close(self) -> None:
        """Remove everything, including all that is left of the attacker."""
        for pid in self._survivors():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for folder in _TEMPORARY:
            for path in Path(folder).glob(f"{self.mark}*"):
                path.unlink(missing_ok=True)
        os.close(self._open_ledger)
        del os.environ[self._variable]
        self._services.close()
        self._victim.close()
        SafeFolder(self.root.parent).remove(self.root.name)

    def _lay_out(self) -> None:
        repository = {f"repository/.git/{name}": text for name, text in _REPOSITORY.items()}
        shown = {"evaluate.py": "print('honest')\n", "data/gold.txt": "42\n", "package/eval/evaluate.py": ""}
        not_shown = {"ledger.sqlite": "ledger\n", "secret": self._secret, "home/.ssh/id": self._secret}
        not_shown |= {"traces/task_1.json": self._secret, **repository}
        for folder, files in ((self.tree, shown), (self.hidden, not_shown), (self.outbox, {"folder/file": ""})):
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")
        self.harvest_folder.mkdir()
        if (owner := trial_owner()) is not None:
            for path in paths_below(self.root):
                os.chown(path, *owner)
        for path in (self.root, *paths_below(self.root)):
            path.chmod(0o755)

    def _attacker_knowledge(self, bounds: Bounds) -> dict[str, object]:
        """Return what the attacker knows: everything except the secret."""
        return {
            "tree": str(self.tree),
            "draft": str(self.draft),
            "hidden": str(self.hidden),
            "ledger": str(self.ledger),
            "tcp": self._services.tcp_port,
            "udp": self._services.udp_port,
            "abstract": f"loopty-{self.mark}",
            "victim": self._victim.pid,
            "loopty": os.getpid(),
            "mark": self.mark,
            "hold": self._hold_seconds,
            "memory": bounds.memory_mb << 20,
            "processes": bounds.processes,
            "disk": bounds.disk_mb << 20,
        }

    def _harms(self, bounds: Bounds) -> Iterator[str]:
        yield difference(self._before, file_states(self.tree, self.hidden))
        yield self._leak()
        yield f"reached {service}" if (service := self._services.service_reached()) else ""
        yield self._victim.harm()
        yield f"process {pid} is still alive" if (pid := next(self._survivors(), None)) else ""
        yield self._flood(bounds.output_mb << 20)
        for path in paths_below(self.outbox):
            yield self._privilege(path)
        yield (
            (regular_file_content(self.outbox / "claims") or b"")
            .decode(errors="replace")
            .strip()
            .partition("\n")[0]
        )

    def _leak(self) -> str:
        places = (
            self.root / "stdout",
            self.root / "stderr",
            *paths_below(self.outbox),
            *paths_below(self.harvest_folder),
        )
        for path in places:
            if self._secret.encode() in (regular_file_content(path) or b""):
                return f"a secret is in {path.relative_to(self.root)}"
        return ""

    def _flood(self, limit: int) -> str:
        printed = sum(len(regular_file_content(self.root / name) or b"") for name in ("stdout", "stderr"))
        return f"{printed} bytes of output were kept, {limit} are allowed" if printed > limit else ""

    def _privilege(self, path: Path) -> str:
        status = path.lstat()
        if trial_owner() is not None and status.st_uid == 0:
            return f"wrote {path.name} as root"
        # Every user may make the device 0:0, which is no real device.
        device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
        return f"made the device {path.name}" if device and status.st_rdev else ""

    def _survivors(self) -> Iterator[int]:
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (directory / "cmdline").read_bytes():
                        yield int(directory.name)
