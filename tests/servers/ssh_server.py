"""A real ssh server for tests: OpenSSH's `sshd` on a port of this machine, with keys of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.installation import working_program

_START_SECONDS = 60.0
_TRIES = 5
_SEPARATION = Path("/run/sshd")
"""The empty folder that sshd wants as root; its service makes it, too. It stays: others may use it."""
_SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""
_CLIENT = """\
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
"""


def find_sshd() -> str | None:
    """The server's program; None where there is none."""
    return working_program("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class SshServer:
    """One server. Who starts `ssh` with `programs` first on its path logs in with the key of the tests."""

    def __init__(self) -> None:
        program, client = find_sshd(), shutil.which("ssh")
        if program is None or client is None:
            raise Misuse("sshd is not installed: its Debian package is `openssh-server`")
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="loopty-ssh-"))
        if os.geteuid() == 0:
            _SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        for name in ("host_key", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name)], check=True
            )
        shutil.copy(self._folder / "key.pub", self._folder / "authorized_keys")
        self.port = self._start()
        host_key = (self._folder / "host_key.pub").read_text()
        (self._folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}")
        (self._folder / "config").write_text(_CLIENT.format(folder=self._folder))
        self.programs = self._folder / "programs"
        self.programs.mkdir()
        script = self.programs / "ssh"  # ssh reads no configuration from the environment
        script.write_text(f'#!/bin/sh\nexec {client} -F {self._folder / "config"} "$@"\n')
        script.chmod(0o755)

    def forget_key(self) -> None:
        """Let nobody in any more."""
        (self._folder / "authorized_keys").write_text("")

    def remove(self) -> None:
        """End it with its sessions, and remove its files."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> int:
        log = self._folder / "log"
        for _ in range(_TRIES):  # another process may take the port meanwhile
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                port = int(found.getsockname()[1])
            (self._folder / "sshd_config").write_text(_SERVER.format(port=port, folder=self._folder))
            with log.open("wb") as file:
                self._process = subprocess.Popen(
                    [self._program, "-D", "-e", "-f", str(self._folder / "sshd_config")],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            deadline = time.monotonic() + _START_SECONDS
            while self._process.poll() is None and time.monotonic() < deadline:
                if b"Server listening" in log.read_bytes():
                    return port
                time.sleep(0.02)
            self._process.kill()
            self._process.wait()
        raise Misuse(f"sshd did not start: {log.read_text(errors='replace')[-500:]}")
