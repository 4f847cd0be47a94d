"""How long a new user needs to a proven benchmark: `loopty init` on real repositories, as they were released.

    python benchmarks/first_hour.py                     all of first_hour.toml
    python benchmarks/first_hour.py bzip2 mistune       only these

Archives are fetched by name from the registries that this machine is set up for (pip, npm, apt); --cache has them.
Each becomes a git repository, with the environment that its developers would have in folders that git ignores.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopty.kit.installation import working_program

HERE = Path(__file__).parent
LIST = HERE / "first_hour.toml"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopty-first-hour"
SECONDS = 600
ENVIRONMENTS = (".venv", "node_modules", "target", "__pycache__")


@dataclass(frozen=True)
class Repository:
    """A released archive, and what a developer would have installed and would say."""

    name: str
    registry: str
    version: str
    language: str
    build: str
    tests: str
    init: str = "--yes"
    environment: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    by_hand: str = "nothing"

    def missing_programs(self) -> list[str]:
        registry = {"PyPI": "pip", "npm": "npm", "Debian": "apt-get"}[self.registry]
        return [name for name in (registry, "git", *self.needs) if working_program(name) is None]


@dataclass(frozen=True)
class FirstHour:
    """What `init` did in one repository."""

    repository: Repository
    code: int
    seconds: float
    output: str
    command: str
    """The benchmark's command in the task file, empty where there is none."""


def repositories() -> list[Repository]:
    rows: list[dict[str, Any]] = tomllib.loads(LIST.read_text())["repository"]
    return [
        Repository(**{key: tuple(row[key]) if isinstance(row[key], list) else row[key] for key in row})
        for row in rows
    ]


def fetch(repository: Repository, cache: Path) -> Path:
    """The archive of the release, from the cache or the registry."""
    folder = cache / f"{repository.name}-{repository.version}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := archives(folder)):
        release = f"{repository.name}=={repository.version}"
        if repository.registry == "PyPI":
            run(["pip", "download", "-q", "--no-deps", "--no-binary", ":all:", release], folder)
        elif repository.registry == "npm":
            run(["npm", "pack", "--silent", f"{repository.name}@{repository.version}"], folder)
        else:
            fetch_debian_source(repository.name, folder, cache)
        found = archives(folder)
    if not found:
        raise SystemExit(f"{repository.name} {repository.version} could not be fetched")
    return found[0]


def archives(folder: Path) -> list[Path]:
    return sorted(path for pattern in ("*.orig.tar.*", "*.tgz", "*.tar.gz") for path in folder.glob(pattern))


def fetch_debian_source(name: str, folder: Path, cache: Path) -> None:
    """Download a source package, with lists of our own: a machine rarely has those of sources."""
    apt = cache / "apt"
    (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
    options = [
        f"Dir::Etc::sourcelist={apt}/sources.list",
        f"Dir::Etc::sourceparts={apt}",
        f"Dir::State::lists={apt}/lists",
    ]
    command = ["apt-get", *(word for option in options for word in ("-o", option)), "-qq"]
    if not (apt / "ready").exists():
        for path in Path("/etc/apt").glob("sources.list.d/*.sources"):
            (apt / path.name).write_text(path.read_text().replace("Types: deb\n", "Types: deb-src\n"))
        lines = (
            Path("/etc/apt/sources.list").read_text().splitlines()
            if Path("/etc/apt/sources.list").exists()
            else []
        )
        sources = [line.replace("deb ", "deb-src ", 1) for line in lines if line.startswith("deb ")]
        (apt / "sources.list").write_text("".join(f"{line}\n" for line in sources))
        run([*command, "update"], folder)
        (apt / "ready").touch()
    subprocess.run([*command, "source", "--download-only", name], cwd=folder, capture_output=True, check=False)


def make_repository(repository: Repository, archive: Path, folder: Path) -> None:
    """Unpack the release, commit it unchanged, and install its environment."""
    with tarfile.open(archive) as file:
        file.extractall(folder.parent / "unpacked", filter="data")
    (top,) = (folder.parent / "unpacked").iterdir()
    top.rename(folder)
    run(["git", "init", "-q", "-b", "main"], folder)
    (folder / ".git/info/exclude").write_text("".join(f"{name}\n" for name in ENVIRONMENTS))
    run(["git", "add", "-A"], folder)
    run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "The release"], folder)
    for line in repository.environment:
        run(["sh", "-c", line], folder)


def try_init(repository: Repository, folder: Path, cache: Path) -> FirstHour:
    """Make the repository in an empty folder, run `loopty init` there and time it."""
    checkout = folder / repository.name
    make_repository(repository, fetch(repository, cache), checkout)
    scripts = f"{checkout}/.venv/bin:" if (checkout / ".venv").exists() else ""
    environment = {**os.environ, "PATH": f"{scripts}{os.environ['PATH']}"}
    started_at = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "loopty", "init", *shlex.split(repository.init)],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    seconds = time.monotonic() - started_at
    task = checkout / "loopty.toml"
    command = tomllib.loads(task.read_text())["benchmark"]["command"] if task.exists() else ""
    return FirstHour(repository, process.returncode, seconds, process.stdout, command)


def run(command: list[str], folder: Path) -> None:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{shlex.join(command)} failed: {process.stderr[-500:]}")


def measure(command: str) -> str:
    """What the benchmark of the task file measures, without what `init` wrapped around it."""
    if found := re.search(r"^(.*?)python3 -m loopty_sdk\.cpu_time (.*)$", command, re.DOTALL):
        words = shlex.split(found[2])
        before = f", after `{found[1].removesuffix(' && ')}`" if found[1] else ""
        return f"the CPU time of `{words[0] if len(words) == 1 else found[2]}`{before}"
    return f"`{command}`".replace(str(Path.home()), "~")


def main() -> None:
    parser = argparse.ArgumentParser(description="Try loopty init on real repositories.")
    parser.add_argument("names", nargs="*", help="only these repositories")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where archives are kept ({CACHE})")
    options = parser.parse_args()
    for one in repositories():
        if options.names and one.name not in options.names:
            continue
        if missing := one.missing_programs():
            print(f"{one.name}: skipped, because {', '.join(missing)} is missing here")
            continue
        folder = options.cache / "tried" / one.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        tried = try_init(one, folder, options.cache)
        verdict = "proven" if tried.code == 0 else "NOT PROVEN"
        print(f"{one.name}: {verdict} after {tried.seconds:.0f} s\n{tried.output}", flush=True)


if __name__ == "__main__":
    main()
