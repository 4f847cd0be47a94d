"""How often `loopty init --yes` proves a benchmark in repositories that nobody chose: samples of wild_names.toml.

    python benchmarks/wild.py --seed 1 --count 30       draws, prepares and tries a sample; see wild_results.json
    python benchmarks/wild.py --seed 1 --count 30 tqdm  only these of the sample, again
    python benchmarks/wild.py --page                    writes docs/repositories.md

The draw is a function of the seed: each group of names gives as many as its share, and a name of an earlier sample
is not drawn again. A name is passed over, with the reason, where its release or what it depends on cannot be
fetched here: the next of its group takes its place.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import first_hour
from wild_development import REGISTRY as DEVELOPMENT
from wild_development import development_version, fetch_development, install_crates, unpack_development
from wild_page import write_page
from wild_preparation import PreparationError, prepare, run_bounded
from wild_types import WildRepository, WildResult

from loopty.kit.records import replace

HERE = Path(__file__).parent
NAMES = HERE / "wild_names.toml"
RESULTS = HERE / "wild_results.json"
SECONDS = 600
WITHIN = "4m"
_FETCHES = 7
"""How many repositories more are fetched and prepared, which mostly waits, while others are tried."""
_WRITING = threading.Lock()


def groups() -> list[list[WildRepository]]:
    rows = tomllib.loads(NAMES.read_text())["group"]
    return [
        [WildRepository(name, row["registry"], row["language"]) for name in row["names"].split()] for row in rows
    ]


def developed() -> list[str]:
    return str(tomllib.loads(NAMES.read_text())["developed"]).split()


def tried_before(samples: Mapping[str, Sequence[WildResult]], seed: int) -> set[str]:
    """List the names that an earlier sample tried; those that it passed over may be had here now."""
    earlier = (rows for name, rows in samples.items() if int(name) < seed)
    return {row.name for rows in earlier for row in rows if not row.passed_over}


def quotas(sizes: list[int], count: int) -> list[int]:
    """How many each group gives: its share, at least one, the largest remainders first."""
    shares = [count * size / sum(sizes) for size in sizes]
    numbers = [max(1, int(share)) for share in shares]
    for place in sorted(range(len(sizes)), key=lambda place: int(shares[place]) - shares[place]):
        if sum(numbers) < count and numbers[place] <= shares[place]:
            numbers[place] += 1
    return numbers


def draw(seed: int, used: set[str]) -> list[list[WildRepository]]:
    """Each group in the order in which its names are tried, without those of earlier samples."""
    generator = random.Random(seed)
    shuffled = [generator.sample(group, len(group)) for group in groups()]
    return [[one for one in group if one.name not in used] for group in shuffled]


def folder_name(one: WildRepository) -> str:
    return f"{one.registry.replace(' ', '-')}-{one.name}"


def try_wild(one: WildRepository, cache: Path, parent: Path, slots: threading.Semaphore) -> WildResult:
    """Fetch and prepare one repository in a folder below `parent`, and try it in one of the slots."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{folder_name(one)}-", dir=parent))
    result = WildResult(one.name, one.registry, one.language)
    try:
        archive = fetch(one, cache)
        checkout = folder / one.name
        unpack(archive, checkout)
        result = replace(result, version=version_of(archive))
        if one.registry == DEVELOPMENT and one.language == "Rust":
            install_crates(checkout)
        prepare(checkout, one.language)
    except (PreparationError, OSError, tarfile.TarError) as error:
        return replace(result, passed_over=" ".join(str(error).split())[-300:])
    with slots:
        return try_init(checkout, result)


def try_init(checkout: Path, result: WildResult) -> WildResult:
    """Try `init` in a checkout that was prepared."""
    first = run_init(checkout, [])
    result = replace(
        result,
        proven=first.code == 0,
        seconds=round(first.seconds),
        command=first.command,
        message=first.message,
        line=first.line,
        sensitivity=first.sensitivity,
        score=first.score,
    )
    return replace(result, message="", line="") if result.proven else result


def fetch(one: WildRepository, cache: Path) -> Path:
    """The archive of the newest release that the registry gives, from the cache or the registry."""
    folder = cache / "wild-archives" / folder_name(one)
    folder.mkdir(parents=True, exist_ok=True)
    if one.registry == DEVELOPMENT:
        return fetch_development(one.name, folder)
    if not first_hour.archives(folder):
        if one.registry == "PyPI":
            run_bounded(f"pip download -q --no-deps --no-binary {one.name} {one.name}", folder)
        elif one.registry == "npm":
            run_bounded(f"npm pack --silent {one.name}", folder)
        else:
            with _WRITING:  # the lists are fetched once
                first_hour.fetch_debian_source(one.name, folder, cache)
    if not (found := first_hour.archives(folder)):
        raise PreparationError("the registry has no source archive of it")
    return found[0]


def version_of(archive: Path) -> str:
    if archive.suffix == ".deb":
        return development_version(archive)
    found = re.search(r"[-_]v?(\d[^_]*?)(?:\.orig)?(?:\.tar\.\w+|\.tgz)$", archive.name)
    return found[1] if found else ""


def unpack_release(archive: Path, checkout: Path) -> None:
    unpacked = checkout.parent / "unpacked"
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    tops = list(unpacked.iterdir())
    (tops[0] if len(tops) == 1 and tops[0].is_dir() else unpacked).rename(checkout)


def unpack(archive: Path, checkout: Path) -> None:
    """Unpack the release and commit it unchanged."""
    if archive.suffix == ".deb":
        unpack_development(archive, checkout)
    else:
        unpack_release(archive, checkout)
    shutil.rmtree(checkout / ".git", ignore_errors=True)
    run_bounded("git init -q -b main", checkout)
    (checkout / ".git/info/exclude").write_text("".join(f"{name}\n" for name in first_hour.ENVIRONMENTS))
    run_bounded(
        "git add -A -f . && git -c user.name=a -c user.email=a@localhost commit -qm 'The release'", checkout
    )


@dataclass(frozen=True)
class InitRun:
    code: int
    seconds: float
    command: str
    message: str
    line: str
    sensitivity: dict[str, Any] | None = None
    score: str = ""


def run_init(checkout: Path, flags: list[str]) -> InitRun:
    return run_loopty(checkout, " ".join(["init", "--yes", "--json", "--within", WITHIN, *flags]))


def run_loopty(checkout: Path, words: str) -> InitRun:
    """Run a line of loopty in the checkout, with the programs of its environment first, as after `activate`."""
    scripts = f"{checkout}/.venv/bin:" if (checkout / ".venv").exists() else ""
    environment = {**os.environ, "PATH": f"{scripts}{os.environ['PATH']}", "COLUMNS": "1000"}
    started_at = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", f"exec {sys.executable} -m loopty {words}"],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        stderr += f"\nno answer within {SECONDS} s"
    (checkout.parent / "init.log").write_text(f"{stdout}\n{stderr}")
    task = checkout / "loopty.toml"
    command = tomllib.loads(task.read_text())["benchmark"]["command"] if task.exists() else ""
    seconds = time.monotonic() - started_at
    try:
        told = json.loads(stdout)
    except ValueError:
        told = {}
    why = message_and_line(told, stderr)
    return InitRun(
        process.returncode,
        seconds,
        told.get("command") or command,
        *why,
        told.get("sensitivity"),
        told.get("score", ""),
    )


def message_and_line(told: dict[str, Any], stderr: str) -> tuple[str, str]:
    """Why `init` failed, and the line to paste, both as it says them."""
    last = (stderr.strip().splitlines() or [""])[-1]
    cause = told.get("explanation", {}).get("cause", {})
    found = re.search(r"(loopty init --(?!.*(?:PROGRAM|SCRIPT)).+)$", last)  # an example is no line to paste
    settings = "; ".join(item["line"] for item in cause.get("settings", ()))
    line = cause.get("shell") or told.get("line") or settings or (found[1] if found else "")
    reason = told.get("reason") or last.removeprefix("loopty: ")
    return "; ".join(filter(None, (reason, cause.get("remedy", "")))), line


def load_results() -> dict[str, list[WildResult]]:
    """The samples that were tried, by seed."""
    if not RESULTS.exists():
        return {}
    saved = json.loads(RESULTS.read_text())
    return {seed: [WildResult(**row) for row in rows] for seed, rows in saved.items()}


def save_result(seed: str, result: WildResult) -> None:
    with _WRITING, RESULTS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two samples may be tried at once
        samples = load_results()
        rows = samples.setdefault(seed, [])
        names = [(row.registry, row.name) for row in rows]
        key = (result.registry, result.name)
        at = names.index(key) if key in names else len(rows)
        rows[at : at + 1] = [result]
        saved = {name: [asdict(row) for row in each] for name, each in samples.items()}
        text = json.dumps(saved, indent=1, ensure_ascii=False).replace(str(Path.home()), "~")
        RESULTS.write_text(f"{text}\n")


def try_group(
    seed: str,
    group: Iterator[WildRepository],
    known: dict[str, bool],
    count: int,
    cache: Path,
    slots: threading.Semaphore,
) -> None:
    """Try names in their order until `count` of them could be tried; `known` says which could be before."""
    while count:
        if (one := next(group, None)) is None:
            return
        if one.name in known:
            count -= known[one.name]
            continue
        result = try_wild(one, cache, cache / "wild", slots)
        save_result(seed, result)
        count -= not result.passed_over
        print(f"{one.registry} {one.name}: {verdict(result)}", flush=True)


def verdict(result: WildResult) -> str:
    if result.passed_over:
        return f"passed over: {result.passed_over}"
    if result.proven:
        return f"proven after {result.seconds} s: {first_hour.measure(result.command)}"
    return f"NOT PROVEN after {result.seconds} s: {result.message} [{result.line}]"


def main() -> None:
    parser = argparse.ArgumentParser(description="Try loopty init on a random sample of repositories.")
    parser.add_argument("names", nargs="*", help="only these of the sample, which were tried already")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2, help="repositories at the same time")
    parser.add_argument("--cache", type=Path, default=first_hour.CACHE, help="where archives are kept")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.page:
        write_page(load_results(), sum(map(len, groups())), WITHIN)
        return
    seed = str(options.seed)
    samples = load_results()
    slots = threading.Semaphore(options.jobs)
    with ThreadPoolExecutor(options.jobs + _FETCHES) as pool:
        if options.names:
            again = [
                (seed, iter([WildRepository(row.name, row.registry, row.language)]), {}, 1, options.cache, slots)
                for row in samples[seed]
                if row.name in options.names
            ]
        else:
            used = {*developed(), *tried_before(samples, options.seed)}
            numbers = quotas([len(group) for group in groups()], options.count)
            known = {row.name: not row.passed_over for row in samples.get(seed, ())}
            # One job for each name would try more than are needed where some are passed over.
            again = [
                (seed, iter(group), known, number, options.cache, slots)
                for group, number in zip(draw(options.seed, used), numbers, strict=True)
            ]
        for done in [pool.submit(try_group, *job) for job in again]:
            done.result()


if __name__ == "__main__":
    main()
