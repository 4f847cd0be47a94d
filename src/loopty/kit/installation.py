"""What is installed here: programs that work, and the command that adds an extra to this loopty."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from loopty.version import __version__

_VERSION = {"go": ("version",), "java": ("-version",), "sshd": ("-V",), "ip": ("-V",), "sh": ("-c", "true")}
"""How to ask for a version where it is not by `--version`."""
_SECONDS = 60
"""A busy machine may take long to start a program."""


def working_program(name: str, path: str | None = None) -> str | None:
    """Find a program on a search path, by default the user's, and return its path if it states its version.

    For names of loopty's own: the program runs with the rights of the user.
    """
    program = shutil.which(name, path=path)
    if program is None:
        return None
    command = [program, *_VERSION.get(name, ("--version",))]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return None
    # An sshd before OpenSSH 9.3 states its version with an error, because it does not know the question.
    return program if done.returncode == 0 or b"OpenSSH" in done.stderr else None


_NAME = "loopty"
_UV_RECEIPT, _PIPX_RECEIPT = "uv-receipt.toml", "pipx_metadata.json"


def extra_command(extra: str) -> str:
    """Return the command that adds an extra of loopty to the environment that runs it."""
    prefix, origin = Path(sys.prefix), _origin()
    extras = sorted({extra, *_extras_of_uv(prefix)})
    place, is_editable = _place(origin, ",".join(extras))
    words = [*(["--editable"] if is_editable else []), place]
    if (prefix / _UV_RECEIPT).exists():
        return shlex.join(["uv", "tool", "install", *words])
    if (prefix / _PIPX_RECEIPT).exists():
        return shlex.join(["pipx", "runpip", prefix.name, "install", *words])
    return shlex.join([*_installer(), *words])


def requirement_elsewhere() -> str | None:
    """Return what installs this loopty on another machine; None if it came from a folder or a file of this one."""
    origin = _origin()
    if origin is None:
        return f"{_NAME}=={__version__}"
    if "vcs_info" in origin:
        return f"{_NAME} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return None if origin["url"].startswith("file:") else f"{_NAME} @ {origin['url']}"


def package_command(package: str) -> str:
    """Return the command that adds another package to the environment that runs loopty."""
    prefix = Path(sys.prefix)
    if (prefix / _PIPX_RECEIPT).exists():
        return shlex.join(["pipx", "inject", prefix.name, package])
    return shlex.join([*_installer(), package])


def _installer() -> list[str]:
    """Return the words that install into this environment; those of uv have no pip inside."""
    if importlib.util.find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]


def _origin() -> Mapping[str, Any] | None:
    """Return what the installer noted about the origin of loopty (PEP 610); None if it came from an index."""
    try:
        noted = distribution(_NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # run from its source, without an installation
        return {"url": Path(__file__).parents[3].as_uri(), "dir_info": {"editable": True}}
    found: Mapping[str, Any] | None = json.loads(noted) if noted else None
    return found


def _place(origin: Mapping[str, Any] | None, extras: str) -> tuple[str, bool]:
    """Return the requirement that names this loopty with its extras, and whether it is installed as editable."""
    if origin is None:
        return f"{_NAME}[{extras}]", False
    url, path = origin["url"], unquote(urlsplit(origin["url"]).path)
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return f"{_NAME}[{extras}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}", False
    if not url.startswith("file:"):
        return f"{_NAME}[{extras}] @ {url}", False
    if not Path(path).exists():
        path = f"PATH/{Path(path).name}"
    return f"{path}[{extras}]", bool(origin.get("dir_info", {}).get("editable"))


def _extras_of_uv(prefix: Path) -> list[str]:
    """Return the extras that `uv tool` installed: it removes those that its next command does not name."""
    if not (prefix / _UV_RECEIPT).exists():
        return []

    receipt = tomllib.loads((prefix / _UV_RECEIPT).read_text())
    requirements = receipt.get("tool", {}).get("requirements", [])
    return [extra for each in requirements if each.get("name") == _NAME for extra in each.get("extras", [])]
