"""A copy of a warm process behaves like a command that starts by itself; nothing of a trial reaches another."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Launch, Mount, SandboxError, WarmProcessLost, WarmStart
from loopty.kit.records import replace
from loopty.sandboxes import cgroup
from loopty.sandboxes.namespaces.launcher import Launcher
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.testing.sandbox_harness import SandboxHarness, pids_with, wait_until

from ..needs import require

KILLS = int(os.environ.get("LOOPTY_TEST_KILLS", "6"))
TRIALS = int(os.environ.get("LOOPTY_TEST_TRIALS", "60"))
PYTHON = f"{Path(sys.base_prefix).resolve()}/bin/python3.{sys.version_info.minor}"
PROGRAM = "/loopty-program"

SHOW = r"""
import os, signal, sys
variables = {name: value for name, value in os.environ.items()}
print(sorted(variables.items()), os.getcwd(), sys.argv, sys.orig_argv, sys.path, sys.executable, sys.flags)
print(__name__, __file__, __spec__, __package__, __cached__, __builtins__, type(__loader__), sorted(globals()))
print(os.umask(0), sorted(os.listdir("/proc/self/fd")), os.isatty(0), sys.stdin.read(), os.getsid(0))
print({one: signal.getsignal(one) for one in signal.Signals}, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
for name in ("limits", "uid_map", "gid_map", "setgroups", "cmdline", "oom_score_adj"):
    print(open(f"/proc/self/{name}").read().rstrip("\0"))
names = ("Name", "Uid", "Gid", "Groups", "NoNewPrivs", "Cap", "Umask", "SigBlk", "SigIgn", "SigCgt", "Seccomp:")
print([line for line in open("/proc/self/status") if line.startswith(names)])
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(sorted((fields[4], fields[5]) for fields in mounts if not fields[4].startswith(("/etc", "/dev"))))
for folder in ("/", "/dev", "/etc", "/tmp", "/tmp/home", "/dev/shm", "/dev/pts", "/edit"):
    print(folder, sorted(os.listdir(folder)))
print(sorted(name for name in os.listdir("/proc") if name.isdecimal()))
print(open("/proc/1/cmdline").read().rstrip("\0"))
print(os.uname().nodename, sorted(open("/proc/net/dev"))[-1][:8])
print(open("/proc/sys/user/max_user_namespaces").read(), sys.stdout.line_buffering, sys.stderr.encoding)
print(sorted(name for name in sys.modules if name.startswith("loopty")))
"""


class Trials:
    """Scripts that run as copies, and by themselves."""

    def __init__(self, root: Path, launcher: Launcher | None = None) -> None:
        self.sandbox = Namespaces(launcher)
        self.harness = SandboxHarness.create(root, self.sandbox)
        self.reasons: list[str] = []
        self.packages = root / "packages"
        self.packages.mkdir()
        self.packages.chmod(0o755)

    def launch(
        self, script: str | None = None, imports: tuple = (("json", (), ()),), **warm_fields: object
    ) -> Launch:
        if script is not None:
            (self.harness.tree / "bench.py").write_text(script)
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/packages", "PYTHONDONTWRITEBYTECODE": "1"}
        launch = self.harness.launch(PYTHON, "bench.py", "word", env={**env, "TRIAL": "1"})
        packages = Mount(self.packages, "/packages")
        shown = (*launch.mounts[2:], packages)
        warm = WarmStart(
            (PYTHON,),
            ("bench.py", "word"),
            imports,
            shown,
            tuple(env.items()),
            frozenset(),
            (),
            self.reasons.append,
        )
        warm = replace(warm, **warm_fields)
        return replace(launch, mounts=(*launch.mounts, packages), warm=warm)

    async def run(self, *words: object, **fields: object):
        return await self.harness.run(self.launch(*words, **fields))

    async def run_both(self, script: str, imports: tuple = (("json", (), ()),)):
        """The same script as a copy and by itself."""
        copy = await self.run(script, imports)
        assert self.reasons == []
        return copy, await self.harness.run(replace(self.launch(script), warm=None))

    @property
    def processes(self) -> list[int]:
        return warm_processes(self.sandbox)


def launchers_of(sandbox: Namespaces) -> list[int]:
    """The launchers of this sandbox: of its warm processes, and of commands that start by themselves."""
    launchers = [sandbox._launcher, *([sandbox._warm._launcher] if sandbox._warm else [])]
    return [launcher._resident.pid for launcher in launchers if launcher._resident]


def warm_processes(sandbox: Namespaces) -> list[int]:
    """The warm processes of this sandbox: children of the first processes that its launcher started."""
    found = []
    for first in [pid for launcher in launchers_of(sandbox) for pid in children_of(launcher)]:
        found += [pid for pid in children_of(first) if PROGRAM in command_line(pid)]
    return found


def children_of(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (thread / "children").read_text().split()]
    return found


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.fixture
def trials(tmp_path):
    return Trials(tmp_path, Launcher())


async def test_a_copy_sees_what_a_command_sees_that_starts_by_itself(trials):
    copy, alone = await trials.run_both(SHOW)
    assert len(alone.out.splitlines()) > 40
    assert copy.out.splitlines() == alone.out.splitlines()
    assert (copy.err, copy.exit.code) == (alone.err, alone.exit.code) == ("", 0)


@pytest.mark.parametrize(
    "script",
    [
        "def fail():\n    raise ValueError('broken')\nfail()",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a reason')",
        "raise SystemExit",
        "import os; os._exit(9)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "raise KeyboardInterrupt",
        "not python",
        "import sys; sys.excepthook = lambda *words: print(words[0]); 1 / 0",
        "import atexit, sys; atexit.register(print, 'at the end'); print('first'); sys.stderr.write('second')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
        "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "file = open('/edit/file', 'w'); file.write('not flushed'); __import__('helper')",
        "class End:\n    def __del__(self): print('gone')\none = End()\ntwo = [End()]; two.append(two)",
        "import ctypes; ctypes.CDLL(None).printf(b'from C')",
        "import os; os.close(1); print('nowhere')",
        "import multiprocessing as m\nif __name__ == '__main__':\n"
        "    with m.get_context('spawn').Pool(2) as pool:\n        print(pool.map(abs, [-1]))",
        "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(4)'], capture_output=True))",
        "import json, random, sys; print(json.loads('[1]'), len({random.random() for _ in range(9)}))",
    ],
)
async def test_a_script_ends_as_it_does_when_it_starts_by_itself(script, trials):
    (trials.harness.tree / "helper.py").write_text("other = open('/edit/other', 'w'); other.write('neither')")
    copy, alone = await trials.run_both(script)
    assert (copy.exit.code, copy.out, copy.err) == (alone.exit.code, alone.out, alone.err)
    assert {path.read_text() for path in trials.harness.edit.iterdir()} <= {"not flushed", "neither"}


@pytest.mark.parametrize("arguments", [("-m", "bench", "word"), ("-m", "nowhere"), ("absent.py",)])
async def test_a_module_and_a_script_that_is_missing(arguments, trials):
    launch = trials.launch("import sys; print(sys.argv, __name__, __spec__.name, sys.path); 1 / 0")
    launch = replace(launch, argv=(PYTHON, *arguments))
    alone = await trials.harness.run(replace(launch, warm=None))
    warm = replace(launch.warm, arguments=arguments)
    copy = await trials.harness.run(replace(launch, warm=warm))
    assert trials.reasons == []
    assert (copy.exit.code, copy.out, copy.err) == (alone.exit.code, alone.out, alone.err)


TOOL = """
import runpy, sys
print(sys.argv, sorted(globals()), __name__, __file__, __cached__, __package__, __spec__.name, __spec__.origin)
print(type(__loader__), sys.modules["__main__"].__dict__ is globals(), "package.tool" in sys.modules, sys.path)
print(sorted(runpy.run_module("package.other")))
1 / 0
"""


async def test_a_module_of_a_package_runs_as_it_always_does(trials):
    package = trials.packages / "package"
    package.mkdir()
    for name, text in {"__init__.py": "", "tool.py": TOOL, "other.py": "here = 1"}.items():
        (package / name).write_text(text)
    arguments = ("-m", "package.tool", "word")
    imports = (("runpy", (), ()), ("package", (), ()))
    launch = trials.launch(imports=imports, arguments=arguments)
    launch = replace(launch, argv=(PYTHON, *arguments))
    alone = await trials.harness.run(replace(launch, warm=None))
    assert "ZeroDivisionError" in alone.err
    copy = await trials.harness.run(launch)
    assert trials.reasons == []
    assert (copy.exit.code, copy.out, copy.err) == (alone.exit.code, alone.out, alone.err)


LIBRARY = """
#include <stdio.h>
#include <stdlib.h>
static void at_exit(void) { printf("exit function\\n"); }
static __attribute__((destructor)) void at_end(void) { printf("destructor\\n"); }
void start(void) { atexit(at_exit); printf("start\\n"); }
"""
LOAD = "import ctypes\nlibrary = ctypes.CDLL('/packages/library.so')\n"


def build_library(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.c").write_text(source)
    files = (str(folder / f"{name}.so"), str(folder / f"{name}.c"))
    subprocess.run([require("cc"), "-shared", "-fPIC", "-o", *files], check=True)


@pytest.mark.parametrize("is_shared", [True, False])
async def test_exit_functions_and_destructors_of_libraries_are_called_at_the_end_of_a_copy(is_shared, trials):
    build_library(trials.packages, "library", LIBRARY)
    (trials.packages / "loading.py").write_text(LOAD if is_shared else "import ctypes")
    script = ("from loading import library" if is_shared else LOAD) + "\nlibrary.start(); raise SystemExit(3)"
    for _ in range(2):
        copy, alone = await trials.run_both(script, (("loading", (), ()),))
        assert copy.out.splitlines() == ["start", "exit function", "destructor"]
        assert (copy.exit.code, copy.out, copy.err) == (3, alone.out, alone.err)


async def test_a_thread_that_reads_a_file_in_c_does_not_hold_up_the_end_of_a_copy(trials):
    source = "#include <stdio.h>\n#include <unistd.h>\nint wait_for(void) { int p[2]; pipe(p); "
    build_library(trials.packages, "library", source + 'return fgetc(fdopen(p[0], "r")); }')
    (trials.packages / "loading.py").write_text(LOAD)
    script = (
        "import threading, time\nfrom loading import library\n"
        "threading.Thread(target=library.wait_for, daemon=True).start(); time.sleep(0.2); print('end')"
    )
    copy, alone = await trials.run_both(script, (("loading", (), ()), ("threading", (), ())))
    assert (copy.exit.code, copy.out, copy.err) == (0, "end\n", "") == (alone.exit.code, alone.out, alone.err)


THREADS = """
import os, threading, time
main = threading.main_thread()
print(main.ident == threading.get_ident(), main.native_id == threading.get_native_id(), main.is_alive())
threading.Thread(target=time.sleep, args=(0.5,)).start()
print(threading.active_count(), flush=True)
if os.fork() == 0:
    print(threading.active_count(), flush=True)
    os._exit(0)
os.wait()
"""


async def test_threads_of_a_copy_are_as_in_any_process_and_so_are_those_of_a_process_that_it_forks(trials):
    copy, alone = await trials.run_both(THREADS, (("threading", (), ()),))
    assert copy.out.split() == ["True", "True", "True", "2", "1"]
    assert (copy.exit.code, copy.out, copy.err) == (0, alone.out, alone.err)


async def test_packages_are_imported_once_and_print_in_each_trial(trials):
    (trials.packages / "counted.py").write_text(
        "import os, time\nprint('hello')\nTIME = time.monotonic_ns()\nos.environ['SET'] = 'x'"
    )
    script = "import counted, os; print(counted.TIME, os.environ['SET'], os.environ['TRIAL'])"
    imports = (("counted", ("TIME",), ("absent",)),)
    first, second = await trials.run(script, imports), await trials.run(script, imports)
    assert first.out == second.out
    assert (first.out.split()[0::2], first.err) == (["hello", "x"], "")
    assert len(trials.processes) == 1


async def test_each_trial_draws_its_own_random_numbers(trials):
    (trials.packages / "numpy").mkdir()
    (trials.packages / "numpy" / "__init__.py").touch()
    text = "import random as r\nstate = r.Random(1)\nseed = state.seed\ndef rand(): return state.random()\n"
    (trials.packages / "numpy" / "random.py").write_text(text)
    script = "import random, numpy.random; print(random.random(), numpy.random.rand())"
    drawn = [(await trials.run(script, (("random", (), ()), ("numpy", ("random",), ())))).out for _ in range(3)]
    assert len({number for line in drawn for number in line.split()}) == 6


async def test_a_file_beside_the_script_comes_before_a_package_of_its_name(trials):
    (trials.harness.tree / "json.py").write_text("print('own')")
    copy, alone = await trials.run_both("import json")
    assert copy.out == alone.out == "own\n"


REFUSED = {
    "an import starts a thread": "import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()",
    "an import starts a process": "import subprocess; subprocess.Popen(['sleep', '99'])",
    "an import leaves a file open (/etc/passwd)": "import os; number = os.open('/etc/passwd', os.O_RDONLY)",
    "an import writes a file (/tmp/made)": "open('/tmp/made', 'w').close()",
    "an import shares memory between processes": "import mmap; memory = mmap.mmap(-1, 4096)",
    "an import handles the signal SIGCHLD": "import signal; signal.signal(signal.SIGCHLD, print)",
    "an import changes the current folder": "import os; os.chdir('/usr')",
    "importing odd fails (ValueError: broken)": "raise ValueError('broken')",
    "importing odd fails (SystemExit: 3)": "raise SystemExit(3)",
    "the process that imports the packages ended too early": "import os; os._exit(0)",
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_what_trials_would_share_makes_them_start_by_themselves(reason, trials):
    (trials.packages / "odd.py").write_text(REFUSED[reason])
    result = await trials.run("print('ran')", (("odd", (), ()),))
    assert (result.out, trials.reasons) == ("ran\n", [reason])
    assert trials.processes == []


async def test_a_module_named_like_one_of_the_repository_is_not_shared(trials):
    result = await trials.run("print('ran')", names=frozenset({"json", "other"}))
    reason = "the repository has a module named like one that is imported (json)"
    assert (result.out, trials.reasons) == ("ran\n", [reason])


async def test_a_package_that_is_not_there_is_left_to_the_script(trials):
    (trials.harness.tree / "own.py").write_text("print('own')")
    assert (await trials.run("import own", (("own", (), ()), ("json", (), ())))).out == "own\n"
    assert trials.reasons == []


SEARCH = """
import mmap
# In halves, so that this program does not have in its memory what it looks for.
wanted = [(bytes(first), bytes(second)) for first, second in WORDS]
with open("/proc/self/maps") as maps:
    regions = [line.split()[:2] for line in maps]
found, room = set(), mmap.mmap(-1, 1 << 22)
with open("/proc/self/mem", "rb", buffering=0) as memory:
    for area, mode in regions:
        position, end = (int(word, 16) for word in area.split("-"))
        while mode[0] == "r" and position < end:
            try:
                memory.seek(position)
                size = memory.readinto(memoryview(room)[: min(len(room), end - position)])
            except (OSError, OverflowError, ValueError):
                break  # a page of the kernel
            for number, (first, second) in enumerate(wanted):
                start = room.find(first, 0, size)
                while start >= 0:
                    middle = start + len(first)
                    if room[middle : middle + len(second)] == second:
                        found.add(number)
                    start = room.find(first, start + 1, size)
            position += size
print(sorted(found))
"""


def search_for(*words: bytes) -> str:
    """A script that prints which of these its memory contains."""
    halves = [(list(word[: len(word) // 2]), list(word[len(word) // 2 :])) for word in words]
    return SEARCH.replace("WORDS", repr(halves))


async def test_a_copy_has_not_the_order_of_another_trial_in_its_memory(trials):
    mark = secrets.token_hex(16).encode()
    launch = trials.launch("print('ran')")
    launch = replace(launch, env={**launch.env, "MARK": mark.decode()})
    assert (await trials.harness.run(launch)).out == "ran\n"
    result = await trials.run(search_for(mark, b"PYTHONPATH"))
    assert (result.out, result.err, trials.reasons) == ("[1]\n", "", [])


async def test_a_warm_process_sees_no_file_of_a_trial(trials):
    look = "import os\nseen = [os.path.exists(p) for p in ('/tree', '/edit', '/packages', '/host', '/work')]"
    (trials.packages / "look.py").write_text(look)
    result = await trials.run("import look; print(look.seen)", (("look", (), ()),))
    assert result.out == "[False, False, True, False, False]\n"


LEAVE = """
import json, os, signal, sys, threading
assert not hasattr(json, "mark") and "MARK" not in os.environ and not os.path.exists("/tmp/mark")
assert os.listdir("/dev/shm") == [] and not os.path.exists("/tmp/home/mark") and threading.active_count() == 1
json.mark = os.environ["MARK"] = "left"
sys.path.append("/left"); sys.modules["left"] = sys; os.chdir("/tmp"); os.umask(0)
for place in ("/tmp/mark", "/tmp/home/mark", "/dev/shm/mark"):
    open(place, "w").write("left")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
opened = os.open("/etc/passwd", os.O_RDONLY)
threading.Thread(target=threading.Event().wait, daemon=True).start()
if os.fork() == 0:
    os.setsid()
    signal.pause()
print(len(os.listdir("/proc/self/fd")), sorted(os.listdir("/proc/self/task"))[0], len(sys.path))
"""


async def test_many_trials_leave_no_state_behind(trials):
    printed, states = set(), []
    for number in range(TRIALS):
        result = await trials.run(LEAVE)
        printed.add(result.out)
        assert (result.exit.code, result.err) == (0, "")
        if number in (TRIALS // 3, TRIALS - 1):
            gc.collect()
            (process,) = trials.processes
            states.append((process, *state_of(process), len(list(Path("/proc/self/fd").iterdir()))))
    assert len(printed) == 1
    first, last = states
    assert first[:-2] + first[-1:] == last[:-2] + last[-1:]
    assert last[-2] <= first[-2] + 64  # KB of its own memory


def state_of(pid: int) -> tuple[object, ...]:
    """Descriptors, threads, children, mounts and maps of a process, and its own memory."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    counts = [len(list((proc / name).iterdir())) for name in ("fd", "task")]
    lines = [len((proc / name).read_text().splitlines()) for name in ("mounts", "maps")]
    return *counts, *lines, children_of(pid), int(status["RssAnon"].split()[0])


async def test_a_warm_process_that_was_killed_is_started_again(trials):
    for _ in range(2):
        assert (await trials.run("print('ran')")).out == "ran\n"
        (process,) = trials.processes
        os.kill(process, signal.SIGKILL)
        wait_until(lambda pid=process: not Path(f"/proc/{pid}/mem").exists())
    assert trials.reasons == []


async def test_a_warm_process_that_is_killed_again_and_again_is_given_up(trials):
    for _ in range(4):
        assert (await trials.run("print('ran')")).out == "ran\n"
        for process in trials.processes:
            os.kill(process, signal.SIGKILL)
            wait_until(lambda pid=process: not Path(f"/proc/{pid}/mem").exists())
    assert (await trials.run("print('ran')")).out == "ran\n"
    assert trials.reasons[-1] == "it was killed 3 times"


@pytest.mark.parametrize("victim", ["warm process", "launcher"])
async def test_a_trial_ends_with_its_warm_process_at_any_instant(victim, trials, monkeypatch):
    groups, make = [], cgroup._make_group
    monkeypatch.setattr(cgroup, "_make_group", lambda parent: groups.append(make(parent)) or groups[-1])
    monkeypatch.setattr("loopty.sandboxes.namespaces.warm.process._MAX_DEATHS", 1000)
    token = f"trial-{secrets.token_hex(8)}"
    script = f"import subprocess, time\nsubprocess.Popen(['sh', '-c', 'sleep 1000; : {token}'])\n"
    script += "open('/edit/begun', 'w').close()\ntime.sleep(1000)"
    for number in range(KILLS):
        (trials.harness.edit / "begun").unlink(missing_ok=True)
        trial = asyncio.create_task(trials.run(script))
        if number % 2:
            while not (trials.harness.edit / "begun").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(random.choice((0, 0.002, 0.005, 0.01, 0.02, 0.05)))
        while not trial.done():
            victims = trials.processes if victim == "warm process" else launchers_of(trials.sandbox)
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not victims and (trials.harness.edit / "begun").exists():
                trial.cancel()  # it had not begun, and was started by itself
            await asyncio.wait([trial], timeout=0.02)
        with pytest.raises((SandboxError, asyncio.CancelledError)):
            await trial
        wait_until(lambda: not pids_with(token))
        assert (await trials.run("print('ran')")).out == "ran\n"
    trials.sandbox._warm.close()
    assert [group._folder for group in groups if group._folder.exists()] == []


async def test_a_command_that_ran_when_its_warm_process_was_killed_is_reported_as_lost(trials):
    trial = asyncio.create_task(trials.run("open('/edit/begun', 'w').close()\nimport time; time.sleep(1000)"))
    while not (trials.harness.edit / "begun").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    os.kill(trials.processes[0], signal.SIGKILL)
    with pytest.raises(WarmProcessLost):
        await trial


KEEP_STARTING = """
import asyncio, sys
from pathlib import Path
from harnesses.warm_namespaces import WarmNamespaces
from loopty.domain.launch import Bounds, Launch

root, token = Path(sys.argv[1]), sys.argv[2]
bounds = Bounds(seconds=1000, memory_mb=256, processes=32, output_mb=4, disk_mb=32)
script = "setsid sleep 1000 & sleep 0.00$1; : " + token

async def main():
    sandbox = WarmNamespaces()
    async def keep_starting(slot):
        for number in range(1000000):
            argv = ("/bin/sh", "-c", script, "sh", str(number % 10))
            out, err = root / f"{slot}.out", root / f"{slot}.err"
            await sandbox.run(Launch(argv, "/", bounds, out, err, {"PATH": "/usr/bin:/bin"}), asyncio.Event())
            print(number, flush=True)
    await asyncio.gather(*map(keep_starting, range(2)))

asyncio.run(main())
"""


def test_loopty_can_be_killed_while_copies_start(tmp_path):
    token = f"trial-{secrets.token_hex(8)}"
    folders = (Path(loopty.__file__).parents[1], Path(__file__).parents[1])
    env = {"PYTHONPATH": ":".join(map(str, folders))}
    descendants = set()
    for _ in range(max(1, KILLS // 2)):
        command = [sys.executable, "-c", KEEP_STARTING, str(tmp_path), token]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
            for _ in range(random.randrange(1, 6)):
                process.stdout.readline()
            queue = [process.pid]
            while queue:
                queue += (found := children_of(queue.pop()))
                descendants |= set(found)
            process.kill()
    assert len(descendants) >= 3
    wait_until(lambda: not pids_with(token))
    wait_until(lambda: not [pid for pid in descendants if PROGRAM in command_line(pid)])
