"""Measure the dashboard: the first view of 100,000 trials, fifty viewers, and its memory over a made-up night.

    python benchmarks/dashboard.py [--trials 100000] [--viewers 50] [--night 4000] [--record FOLDER]

Run it in loopty's own environment. `--record` names a repository whose record is long already.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
_PER_SECOND = 20.0
_ROUNDS = 3
_ROUND_TRIALS = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--night", type=int, default=4_000)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loopty-dashboard-") as folder:
        top = options.record or Path(folder)
        if not options.record:
            subprocess.run(["git", "init", "-q", top], check=True)
            write_trials(top, options.trials)
        measure_first_view(top)
        measure_viewers(top, options.viewers)
        measure_night(top, options.night)


def write_trials(top: Path, count: int, per_second: float | None = None) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, _HERE / "dashboard_record.py", str(count), *([str(per_second)] if per_second else [])]
    return subprocess.run(words, cwd=top, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def dashboard(top: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running dashboard: its address and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "loopty", "dashboard", "--json", "--ends-with-input"],
        cwd=top,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        yield json.loads(process.stdout.readline())["url"], process
        process.stdin.close()
        process.wait(60)


class Browser:
    """Asks as the page does, on one connection for each question."""

    def __init__(self, url: str) -> None:
        place = urllib.parse.urlsplit(url)
        self._host, self._port = place.hostname, place.port
        self._token = place.fragment.removeprefix("token=")

    async def open(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 22)
        head = f"GET {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\nx-loopty-token: {self._token}\r\n"
        writer.write(f"{head}accept-encoding: gzip\r\n\r\n".encode())
        return reader, writer

    async def get(self, path: str) -> tuple[str, bytes]:
        reader, writer = await self.open(path)
        content = await reader.read()
        writer.close()
        head, _, body = content.partition(b"\r\n\r\n")
        return head.decode("latin-1"), body


def measure_first_view(top: Path) -> None:
    """What a person waits for: the session, the overview and the points; bytes as sent."""

    async def view() -> None:
        browser = Browser(url)
        for name in ("first view right after the start", "the same view again"):
            began, cpu, size = time.perf_counter(), cpu_seconds(process.pid), 0
            for path in ("session", "overview", "points?w=960&h=360"):
                size += len((await browser.get(f"/api/{path}"))[1])
            used = cpu_seconds(process.pid) - cpu
            seconds = time.perf_counter() - began
            print(f"{name}: {seconds:.2f} s, {used:.2f} CPU s of the server, {size:,} bytes", flush=True)
            if name.startswith("first"):
                while not json.loads((await browser.get("/api/session"))[1])["fold"]["ready"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
                print(f"all details read: {cpu_seconds(process.pid):.2f} CPU s since the start", flush=True)
        for path in ("log", "map", "operators", "find?q=change"):
            began, cpu = time.perf_counter(), cpu_seconds(process.pid)
            size = len((await browser.get(f"/api/{path}"))[1])
            used, seconds = cpu_seconds(process.pid) - cpu, time.perf_counter() - began
            print(f"/api/{path}: {seconds:.2f} s, {used:.2f} CPU s, {size:,} bytes", flush=True)

    with dashboard(top) as (url, process):
        asyncio.run(view())


def measure_viewers(top: Path, viewers: int) -> None:
    """What a trial costs the loop without a dashboard, and with one that so many pages look at, in turns."""
    alone, watched = [], []

    async def watch() -> None:
        browser = Browser(url)
        streams = [asyncio.create_task(follow(browser)) for _ in range(viewers)]
        await asyncio.sleep(5)
        watched.append(await asyncio.to_thread(loop_cpu, top))
        for stream in streams:
            stream.cancel()
        received = await asyncio.gather(*streams, return_exceptions=True)
        print(f"streams that broke off: {sum(isinstance(each, int) for each in received)}", flush=True)

    for _ in range(_ROUNDS):
        alone.append(loop_cpu(top))
        with dashboard(top) as (url, _process):
            asyncio.run(watch())
    one, other = sum(alone) / len(alone), sum(watched) / len(watched)
    shown = f"{1000 * one / _ROUND_TRIALS:.2f} and {1000 * other / _ROUND_TRIALS:.2f} ms"
    print(
        f"CPU of the loop for a trial, alone and with {viewers} viewers: {shown}, x{other / one:.3f}", flush=True
    )


async def follow(browser: Browser) -> int:
    """Read the stream as a page does."""
    reader, writer = await browser.open("/api/events")
    received = 0
    try:
        while chunk := await reader.read(1 << 16):
            received += len(chunk)
    finally:
        writer.close()
    return received


def loop_cpu(top: Path) -> float:
    """The CPU seconds of recording some trials at the pace of a busy run."""
    return float(write_trials(top, _ROUND_TRIALS, _PER_SECOND).stdout.split()[-1])


def measure_night(top: Path, trials: int) -> None:
    """The server's memory while a night passes, with five pages open."""

    async def night() -> None:
        browser = Browser(url)
        streams = [asyncio.create_task(follow(browser)) for _ in range(5)]
        while not json.loads((await browser.get("/api/session"))[1])["fold"]["ready"]:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        for _ in range(10):
            await asyncio.to_thread(write_trials, top, trials // 10)
            for path in ("overview", "points", "log", "operators", "agents"):
                await browser.get(f"/api/{path}")
            sizes.append(resident_mb(process.pid))
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    sizes: list[float] = []
    with dashboard(top) as (url, process):
        asyncio.run(night())
    first, last = sizes[0], sizes[-1]
    print(
        f"memory after each tenth of {trials:,} trials: {', '.join(f'{size:.0f}' for size in sizes)} MB",
        flush=True,
    )
    print(f"from the first tenth to the last: x{last / first:.2f}", flush=True)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    main()
