"""The peers, each in an environment of its own, at the versions that the figures speak of."""

import subprocess
import sys
import venv
from pathlib import Path

EVO = "evo-hq-cli==0.8.0"
OPENEVOLVE = "openevolve==0.4.0"


def install(cache: Path, requirement: str) -> Path | None:
    """The `bin` folder of an environment that holds the peer; None where it cannot be installed."""
    home = cache / requirement.replace("==", "-")
    installed = home / "installed"
    if not installed.exists():
        print(f"installing {requirement}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "install", requirement]).returncode != 0:
            return None
        installed.touch()  # Written last: an install cut short is done again.
    return home / "bin"
