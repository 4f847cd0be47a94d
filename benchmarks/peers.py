"""Install the peers, each in its own environment, at the versions of the published figures."""

import subprocess
import sys
import venv
from pathlib import Path

EVO = "evo-hq-cli==0.8.0"
OPENEVOLVE = "openevolve==0.4.0"
GEPA = "gepa==0.1.4"
SKYDISCOVER = "skydiscover==0.1.0"
SHINKA = "shinka-evolve==0.0.7"


def install(cache: Path, requirement: str) -> Path | None:
    """Install the peer and return the `bin` folder of its environment; None when it cannot be installed."""
    home = cache / requirement.replace("==", "-")
    installed = home / "installed"
    if not installed.exists():
        print(f"installing {requirement}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "install", requirement]).returncode != 0:
            return None
        installed.touch()  # Written last, so that an interrupted installation is repeated.
    return home / "bin"
