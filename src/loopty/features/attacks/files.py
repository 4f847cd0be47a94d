"""Attacks on files: writes outside the writable set, secrets, and traps for the launch of the next trial."""

from __future__ import annotations

from loopty.domain.launch import Mount, Protection
from loopty.features.attacks.arena import OUT, Arena
from loopty.features.attacks.attack import Attack, SecondLaunch, Threat

# By the path that the trial sees, and by the host's path.
_TREES = "for tree in (TREE, HOST['tree']):\n    attempt(lambda: {})"

_DIRECT = {
    "write a file of the tree": "open(tree + '/evaluate.py', 'a').write('forged')",
    "truncate a file of the tree": "os.truncate(tree + '/evaluate.py', 0)",
    "create a file in the tree": "open(tree + '/conftest.py', 'x')",
    "create a directory in the tree": "os.mkdir(tree + '/json')",
    "change the mode of a file of the tree": "os.chmod(tree + '/evaluate.py', 0o777)",
    "change the times of a file of the tree": "os.utime(tree + '/evaluate.py', (0, 0))",
    "rename a file of the tree": "os.rename(tree + '/evaluate.py', tree + '/old.py')",
    "move a file over one of the tree": (
        "open(OUT + '/new', 'w').close() or os.replace(OUT + '/new', tree + '/evaluate.py')"
    ),
    "remove a file of the tree": "os.unlink(tree + '/evaluate.py')",
    "rename a directory of the tree": "os.rename(tree + '/data', tree + '/old')",
    "map a file of the tree for writing": (
        "__import__('mmap').mmap(os.open(tree + '/data/gold.txt', os.O_RDWR), 2).__setitem__(0, 57)"
    ),
}

_HIDDEN = {
    "append to the ledger": "open(HOST['ledger'], 'a').write('forged')",
    "replace the ledger": "os.replace(OUT + '/folder/file', HOST['ledger'])",
    "plant a git hook in the repository": (
        "open(HOST['hidden'] + '/repository/.git/hooks/post-checkout', 'w').write('#!/bin/sh')"
    ),
    "set a program in the repository's git configuration": (
        "open(HOST['hidden'] + '/repository/.git/config', 'a').write('[core]\\n\\tfsmonitor = true\\n')"
    ),
    "plant a start-up file in the home": "open(HOST['hidden'] + '/home/.profile', 'w')",
}

_DETOURS = {
    "write through a symbolic link": """
for number, target in enumerate((TREE + "/evaluate.py", HOST["tree"] + "/evaluate.py", HOST["ledger"])):
    os.symlink(target, OUT + "/link%d" % number)
    attempt(lambda: open(OUT + "/link%d" % number, "a").write("forged"))
""",
    "write through a hard link": """
for number, target in enumerate((TREE + "/evaluate.py", HOST["tree"] + "/evaluate.py", HOST["ledger"])):
    attempt(lambda: os.link(target, OUT + "/link%d" % number))
    attempt(lambda: open(OUT + "/link%d" % number, "r+").write("forged"))
""",
    "write through /proc/self/root": """
for target in (HOST["ledger"], HOST["tree"] + "/evaluate.py"):
    attempt(lambda: open("/proc/self/root" + target, "a").write("forged"))
""",
    "write through /proc/1/root": """
attempt(lambda: open("/proc/1/root" + HOST["ledger"], "a").write("forged"))
attempt(lambda: open("/proc/1/cwd/.." + HOST["ledger"], "a").write("forged"))
""",
    "write through the root of another process": """
for pid in filter(str.isdigit, os.listdir("/proc")):
    attempt(lambda: open("/proc/" + pid + "/root" + HOST["ledger"], "a").write("forged"))
""",
    "reopen a descriptor for writing": """
for tree in (TREE, HOST["tree"]):
    def reopen():
        descriptor = os.open(tree + "/evaluate.py", os.O_RDONLY)
        open("/proc/self/fd/%d" % descriptor, "a").write("forged")
    attempt(reopen)
""",
    "climb out of an open directory": """
above = "../" * 20
for start in (OUT, TREE, "/proc/self/fd", "/dev"):
    def climb():
        directory = os.open(start, os.O_RDONLY)
        os.write(os.open(above + HOST["ledger"], os.O_WRONLY | os.O_APPEND, dir_fd=directory), b"forged")
    attempt(climb)
""",
    "write to a descriptor that loopty left open": """
for descriptor in range(3, 256):
    attempt(lambda: os.write(descriptor, b"forged"))
""",
}


def _attacks_from(table: dict[str, str], threat: Threat, form: str = "{}") -> tuple[Attack, ...]:
    return tuple(Attack(name, threat, Protection.WRITE, form.format(script)) for name, script in table.items())


OUTSIDE_WRITES = (
    *_attacks_from(_DIRECT, Threat.WRITE, _TREES),
    *_attacks_from(_HIDDEN, Threat.WRITE),
    *_attacks_from(_DETOURS, Threat.DETOUR),
)


def _from_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.outbox / "folder", "/arena/folder", writable=True)


def _from_below_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.outbox / "folder" / "home", "/arena/folder", writable=True)


def _into_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.tree, f"{OUT}/folder/new/place")


def _evaluator_in_the_outbox(arena: Arena) -> Mount:
    return Mount(arena.tree / "package" / "eval", f"{OUT}/package/eval")


_TO_THE_HOST = """
import shutil
shutil.rmtree(OUT + "/folder")
os.symlink({}, OUT + "/folder")
"""

TWO_STEPS = (
    Attack(
        "plant a link as the source of a later mount",
        Threat.PLANTED,
        Protection.WRITE,
        _TO_THE_HOST.format("HOST['hidden']"),
        second=SecondLaunch("open(PLACE + '/ledger.sqlite', 'a').write('forged')", _from_the_outbox),
    ),
    Attack(
        "plant a link on the way to the source of a later mount",
        Threat.PLANTED,
        Protection.READ,
        _TO_THE_HOST.format("HOST['hidden']"),
        second=SecondLaunch("leak(PLACE + '/.ssh/id')", _from_below_the_outbox),
    ),
    Attack(
        "plant a link where a later mount will be",
        Threat.PLANTED,
        Protection.WRITE,
        # bubblewrap has the host's root there while it sets up a trial.
        _TO_THE_HOST.format("'/oldroot' + HOST['hidden']"),
        second=SecondLaunch("", _into_the_outbox),
    ),
    Attack(
        "move the directory above a read-only mount and recreate it",
        Threat.PARENTS,
        Protection.WRITE,
        "os.makedirs(OUT + '/package/eval')",
        second=SecondLaunch(
            """
os.rename(OUT + "/package", OUT + "/old")
os.makedirs(OUT + "/package/eval")
open(OUT + "/package/eval/evaluate.py", "w").write("forged")
claim("a forged file is in the evaluator's place")
""",
            _evaluator_in_the_outbox,
        ),
    ),
)


_FILES = {
    "read a file that is not shown": "leak(HOST['hidden'] + '/secret')",
    "read the home": "leak(HOST['hidden'] + '/home/.ssh/id')",
    "read through a symbolic link": """
os.symlink(HOST["hidden"] + "/secret", OUT + "/link")
leak(OUT + "/link")
""",
    "read through the root of another process": """
for pid in filter(str.isdigit, os.listdir("/proc")):
    attempt(lambda: leak("/proc/" + pid + "/root" + HOST["hidden"] + "/secret"))
""",
    "read the environment": """
leak("/proc/self/environ")
print(dict(os.environ))
""",
}

_PROCESSES = {
    "read the environment of process 1": """
leak("/proc/1/environ")
leak("/proc/1/cmdline")
""",
    "read the environment of every process": """
for pid in filter(str.isdigit, os.listdir("/proc")):
    attempt(lambda: leak("/proc/" + pid + "/environ"))
""",
    "find the process id of loopty": """
for path in ("/proc/self/cgroup", "/proc/1/cgroup"):
    with open(path) as file:
        words = "".join(letter if letter.isalnum() else " " for letter in file.read())
        if str(HOST["loopty"]) in words.split():
            claim("found the process id of loopty in " + path)
""",
    "see a process of the host": """
with open("/proc/%d/cmdline" % HOST["victim"], "rb") as file:
    if b"sleep" in file.read():
        claim("saw process %d of the host" % HOST["victim"])
""",
}

SECRETS = (
    *(Attack(name, Threat.READ, Protection.READ, script) for name, script in _FILES.items()),
    *(Attack(name, Threat.READ, Protection.OTHERS, script) for name, script in _PROCESSES.items()),
)
