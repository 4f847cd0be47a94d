"""Run attacks as the current user and as an ordinary user, and count how they turned out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import loopty
from loopty.features.attacks.runner import AttackStanding

from ...needs import require

SOURCE = Path(loopty.__file__).parent.parent
USER = 61001

DRIVER = """
import asyncio, json, sys
from loopty.features.attacks.runner import run_attacks
from loopty.features.attacks.runner import ATTACKS
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.sandboxes.unsafe import Unsafe
from ...harnesses.warm_namespaces import WarmNamespaces

kind, hold_seconds, names = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
kinds = {"namespaces": Namespaces, "warm": WarmNamespaces, "bubblewrap": Bubblewrap, "landlock": Landlock}
sandbox = (kinds | {"unsafe": Unsafe})[kind]()
attacks = [attack for attack in ATTACKS if attack.name in names]
results = asyncio.run(run_attacks(sandbox, attacks, hold_seconds))
print(json.dumps({result.attack.name: [result.standing, result.detail] for result in results}))
"""


@dataclass(frozen=True)
class ReportedAttack:
    """How an attack turned out, as reported by another process."""

    standing: AttackStanding
    detail: str


RunAttacks = Callable[[str, float, list[str]], dict[str, ReportedAttack]]


@pytest.fixture
def as_ordinary_user() -> RunAttacks:
    """Run attacks by name on a back end by name, never as root: an attack that gets through has only the rights
    of an ordinary user."""
    command = _python_as_ordinary_user(sys.executable if os.geteuid() else "/usr/bin/python3")
    importable = subprocess.run(
        [*command, "-c", "import loopty.features.attacks.runner"], capture_output=True, check=False
    )
    if importable.returncode:
        pytest.skip("an ordinary user has no interpreter here that can import loopty")

    def run(kind: str, hold_seconds: float, names: list[str]) -> dict[str, ReportedAttack]:
        argv = [*command, "-c", DRIVER, kind, str(hold_seconds), json.dumps(names)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, cwd="/")
        results = json.loads(done.stdout)
        return {
            name: ReportedAttack(AttackStanding(standing), detail) for name, (standing, detail) in results.items()
        }

    return run


def _python_as_ordinary_user(python: str) -> list[str]:
    identity = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    if os.geteuid() == 0:
        require("setpriv")
    variables = [f"PYTHONPATH={SOURCE}", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/bin:/bin"]
    return [*(identity if os.geteuid() == 0 else []), "env", "-i", *variables, python]


@pytest.fixture
def count_standing(record_property) -> Callable[[AttackStanding], None]:
    """Add how an attack turned out to the summary of all tests."""
    return lambda standing: record_property("attack", str(standing))
