"""loopty as a user has it: from a wheel, with what it requires and no extra, and with a HOME of its own."""

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[1]
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SOURCES = ("hatch_build.py", "page", "scripts", "sdk", "src", "pyproject.toml", "README.md", "LICENSE")
"""What a wheel is built from."""
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules")


@dataclass(frozen=True)
class Installed:
    """An environment with loopty, and the HOME of the user who calls it."""

    venv: Path
    home: Path

    @property
    def program(self) -> Path:
        return self.venv / "bin/loopty"

    def environment(self, *, active: bool = True, **variables: str) -> dict[str, str]:
        """Return all variables of a process there; `active` puts the environment on its PATH."""
        path = f"{self.venv}/bin:{SYSTEM_PATH}" if active else SYSTEM_PATH
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **variables}

    def run(
        self, *args: str, at: Path, active: bool = True, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run loopty with these arguments in the folder `at`."""
        environment = self.environment(active=active, **variables)
        command = [self.program, *args]
        return subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True, timeout=300)


def copy_sources(into: Path) -> Path:
    """Copy what a wheel is built from, with the built page where there is one."""
    into.mkdir(parents=True)
    for name in SOURCES:
        if (TOP / name).is_dir():
            shutil.copytree(TOP / name, into / name, ignore=_NOT_COPIED)
        elif (TOP / name).exists():
            shutil.copy(TOP / name, into / name)
    return into


def build_wheel(source: Path, into: Path) -> Path:
    """Build a wheel of these sources with the hatchling of this environment."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = into.glob("*.whl")
    return wheel


def make_venv(folder: Path) -> Path:
    """Make an environment that has loopty's requirements and nothing else, without asking any index."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]:
        for file in importlib.metadata.files(name.partition(">")[0]) or ():
            with contextlib.suppress(FileNotFoundError):  # byte code that was not kept
                (packages / file.parent).mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), packages / file)
    return folder


def install(wheel: Path, venv: Path) -> None:
    """Install a wheel there; its requirements have to be there already."""
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "--quiet", "--no-index", wheel]
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(pip, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
