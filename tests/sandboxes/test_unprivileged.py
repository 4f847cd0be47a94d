"""The back ends with namespaces, started by an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import loopty

from ..needs import needs

SOURCE = Path(loopty.__file__).parent.parent
PYTHON = "/usr/bin/python3"
USER = 61001

SCRIPT = """
import asyncio, json, os, sys
from pathlib import Path
from loopty.domain.launch import Bounds, Launch, Mount
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.kit.process import trial_owner
from ..harnesses.warm_namespaces import WarmNamespaces

kinds = {"bubblewrap": Bubblewrap, "namespaces": Namespaces, "warm": WarmNamespaces}
root, sandbox = Path(sys.argv[1]), kinds[sys.argv[2]]()
bounds = Bounds(seconds=60, memory_mb=60, processes=16, output_mb=4, disk_mb=64)
edit = Mount(root / "edit", "/edit", writable=True)

async def stop(script):
    launch = Launch(
        ("/bin/sh", "-c", script), "/", bounds, root / "out", root / "err", {"PATH": "/usr/bin:/bin"}, (edit,)
    )
    result = await sandbox.run(launch, asyncio.Event())
    return result.stop or result.code

async def main():
    print(json.dumps({
        "owner": trial_owner(),
        "writes": await stop("echo yes > /edit/file"),
        "system": await stop("echo no > /usr/file || exit 9"),
        "processes": await stop("for i in $(seq 30); do sleep 5 & done"),
        "memory": await stop("for i in 1 2; do head -c 50000000 /dev/zero > /tmp/$i; done; sleep 1000"),
        "anonymous": await stop("head -c 100000000 /dev/zero | tail -c 90000000 | sleep 1000"),
        "disk": await stop("for i in 1 2 3; do head -c 30000000 /dev/urandom > /edit/$i; done; sleep 1000"),
        "hidden": await stop("mkdir /edit/d; chmod 0 /edit/d; sleep 1000"),
    }))

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["namespaces", "warm", "bubblewrap"])
@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@needs("setpriv")
def test_bounds_hold_for_an_ordinary_user(kind):
    importable = subprocess.run(
        as_user(PYTHON, "-c", "import loopty.domain.launch"), capture_output=True, check=False
    )
    if importable.returncode:
        pytest.skip("an ordinary user has no interpreter here that can import loopty")
    root = Path("/var/tmp") / f"loopty-test-{os.getpid()}-{kind}"
    (root / "edit").mkdir(parents=True)
    try:
        for directory in (root, root / "edit"):
            os.chown(directory, USER, USER)
        done = subprocess.run(as_user(PYTHON, "-c", SCRIPT, str(root), kind), stdout=subprocess.PIPE, check=True)
        assert (root / "edit" / "file").stat().st_uid == USER
    finally:
        shutil.rmtree(root)
    assert json.loads(done.stdout) == {
        "owner": None,
        "writes": 0,
        "system": 9,
        "processes": 2,
        "memory": "memory",
        "anonymous": "memory",
        "disk": "disk",
        "hidden": "disk",
    }


def as_user(*command: str) -> list[str]:
    identity = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    return [*identity, "env", "-i", f"PYTHONPATH={SOURCE}", "PYTHONDONTWRITEBYTECODE=1", *command]
