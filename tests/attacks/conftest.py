"""Run attacks as whoever runs the tests and as an ordinary user, and count those that were held."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import loopty
from loopty.attacks.runner import AttackStanding

SOURCE = Path(loopty.__file__).parent.parent
USER = 61001

DRIVER = """
import asyncio, json, sys
from loopty.attacks.runner import run_attacks
from loopty.attacks.suite import ATTACKS
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.unsafe import Unsafe

kind, hold_seconds, names = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
sandbox = {"bubblewrap": Bubblewrap, "landlock": Landlock, "unsafe": Unsafe}[kind]()
attacks = [attack for attack in ATTACKS if attack.name in names]
results = asyncio.run(run_attacks(sandbox, attacks, hold_seconds))
print(json.dumps({result.attack.name: [result.standing, result.detail] for result in results}))
"""


@dataclass(frozen=True)
class Told:
    """What another process says came of an attack."""

    standing: AttackStanding
    detail: str


Tried = Callable[[str, float, list[str]], dict[str, Told]]


@pytest.fixture
def as_ordinary_user() -> Tried:
    """Try attacks by name on a back end by name, never as root: what gets through has no more than this user's
    rights."""
    command = _ordinary(sys.executable) if os.geteuid() else _ordinary("/usr/bin/python3")
    importable = subprocess.run([*command, "-c", "import loopty.attacks.runner"], capture_output=True, check=False)
    if importable.returncode:
        pytest.skip("an ordinary user has no interpreter here that can import loopty")

    def tried(kind: str, hold_seconds: float, names: list[str]) -> dict[str, Told]:
        words = [*command, "-c", DRIVER, kind, str(hold_seconds), json.dumps(names)]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd="/")
        found = json.loads(done.stdout)
        return {name: Told(AttackStanding(standing), detail) for name, (standing, detail) in found.items()}

    return tried


def _ordinary(python: str) -> list[str]:
    identity = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    variables = [f"PYTHONPATH={SOURCE}", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/bin:/bin"]
    return [*(identity if os.geteuid() == 0 else []), "env", "-i", *variables, python]


@pytest.fixture
def counted(record_property) -> Callable[[AttackStanding], None]:
    """Have the summary of all tests count what came of an attack."""
    return lambda standing: record_property("attack", str(standing))
