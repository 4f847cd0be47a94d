"""A real Slurm of one node on this machine, for tests: its daemons in the foreground, all files in one folder."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

_START_SECONDS = 60.0
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "squeue", "sinfo")
_SYSTEM = "/usr/sbin:/usr/local/sbin"
_SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_no_slurm() -> str:
    """Say what is missing for it here; empty if nothing is."""
    path = f"{os.environ.get('PATH', '')}:{_SYSTEM}"
    if missing := [name for name in _PROGRAMS if not shutil.which(name, path=path)]:
        packages = "`slurmctld`, `slurmd`, `slurm-client` and `munge`"
        return f"{missing[0]} is not installed: Slurm's Debian packages are {packages}"
    return "" if os.geteuid() == 0 else "slurmd has to run as root"


class SlurmCluster:
    """One node with two CPUs. Its clients are found by SLURM_CONF."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="loopty-slurm-"))
        self._folder.chmod(0o755)  # munged refuses a folder that is closed to those who ask it
        self._processes: list[subprocess.Popen[bytes]] = []
        (self._folder / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self._folder / "munge.key").chmod(0o400)
        for name in ("state", "spool"):
            (self._folder / name).mkdir()
        host = socket.gethostname().partition(".")[0]
        settings = _SETTINGS.format(host=host, folder=self._folder, ports=(_free_port(), _free_port()))
        self._file = self._folder / "slurm.conf"
        self._file.write_text(settings)
        self.variables = {"SLURM_CONF": str(self._file), "PATH": f"{os.environ['PATH']}:{_SYSTEM}"}

    def start(self) -> None:
        """Start the daemons, and wait until the node takes jobs."""
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={self._folder}/munge.{end}" for option, end in files.items()]
        for command in (["munged", "--force", "--foreground", *options], ["slurmctld", "-D"], ["slurmd", "-D"]):
            with (self._folder / f"{command[0]}.out").open("wb") as out:
                self._processes.append(subprocess.Popen(command, env=self._environment, stdout=out, stderr=out))
            time.sleep(0.5)
        until = time.monotonic() + _START_SECONDS
        while self._ask("sinfo", "--noheader", "--format=%t") != "idle":
            assert time.monotonic() < until, self._said()
            time.sleep(0.2)

    def jobs(self) -> list[str]:
        """The states of the jobs that wait, run or end, as Slurm writes them."""
        return self._ask("squeue", "--noheader", "--format=%T").split()

    def remove(self) -> None:
        """End the daemons and what they run."""
        self._ask("scancel", "--user=root")
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    def _ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def _said(self) -> str:
        return "\n".join(file.read_text()[-1000:] for file in self._folder.glob("*.out"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
