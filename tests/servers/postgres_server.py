"""A real PostgreSQL server for tests: in a temporary folder, reached by a unix socket, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.installation import working_program

_START_SECONDS = 120.0
_TEST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
    "listen_addresses": "",
}


def find_programs() -> Path | None:
    """Find the newest folder with `initdb` and `postgres` that run; None if there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    places = [*reversed(debian), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((place for place in places if working_program(str(place / "postgres"))), None)


class PostgresServer:
    """One server with an empty database. As root it runs as an unprivileged user, which PostgreSQL asks for."""

    def __init__(self, primary: PostgresServer | None = None) -> None:
        """Start an empty server; with a primary, a replica of that one."""
        programs = find_programs()
        if programs is None:
            raise Misuse("PostgreSQL is not installed: its Debian package is `postgresql`")
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="loopty-postgres-"))
        self._user = _unprivileged_user()
        if self._user:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if primary:
            source = f"host={primary.folder} port={primary.port} user=tester"
            self._make("pg_basebackup", "-D", str(self.folder / "data"), "-R", "-c", "fast", "-d", source)
        else:
            options = ("--auth=trust", "--username=tester", "--no-sync", "--encoding=UTF8", "--locale=C")
            self._make("initdb", "-D", str(self.folder / "data"), *options)
        self.start()

    def url(self, ledger: str = "loopty") -> str:
        """Return the URL of one ledger on this server."""
        return f"postgresql://tester@/postgres?host={self.folder}&port={self.port}&ledger={ledger}"

    def url_with(self, other: PostgresServer, ledger: str) -> str:
        """Return the URL of one ledger on this server or the other one, whichever can be written."""
        hosts, ports = f"{self.folder},{other.folder}", f"{self.port},{other.port}"
        return f"postgresql://tester@/postgres?host={hosts}&port={ports}&ledger={ledger}"

    def promote(self) -> None:
        """Make a replica the primary, and wait until it is."""
        self._make("pg_ctl", "promote", "-w", "-D", str(self.folder / "data"))

    def start(self) -> None:
        """Start it, and wait until it answers. After `kill`, processes of the old one may hold it up."""
        deadline = time.monotonic() + _START_SECONDS
        self._launch()
        while self._run("pg_isready", "-h", str(self.folder), "-p", str(self.port)).returncode:
            if time.monotonic() > deadline:
                raise Misuse(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-500:]}")
            time.sleep(0.05)
            if self._process is None or self._process.poll() is not None:
                self._launch()

    def kill(self) -> None:
        """End the server as a crash would: no transaction is finished, no client is told."""
        assert self._process is not None, "the server is not running"
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        """End the server, and remove its files."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(3)  # SIGQUIT: at once, with all its processes
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> None:
        settings = {**_TEST_SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._identity()
            )

    def _make(self, program: str, *arguments: str) -> None:
        done = self._run(program, *arguments)
        if done.returncode:
            raise Misuse(f"{program} failed: {done.stderr.decode(errors='replace')[-500:]}")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self._programs / program), *arguments]
        return subprocess.run(command, **self._identity(), capture_output=True, check=False)

    def _identity(self) -> dict[str, Any]:
        """Say as whom and where the server runs; not in this process's session, whose signals are not for it."""
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
        place: dict[str, Any] = {"cwd": self.folder, "env": environment, "start_new_session": True}
        if self._user:
            place |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return place


def _unprivileged_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Misuse("PostgreSQL refuses to run as root, and there is no other user to run it as")


def _free_port() -> int:
    """Return a number for the socket's name; nothing listens on the network."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
