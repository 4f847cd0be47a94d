"""Attacks that search files, environments and processes for secrets."""

from __future__ import annotations

from loopty.attacks.attack import Attack
from loopty.attacks.threats import Threat
from loopty.domain.launch import Protection

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

ATTACKS = (
    *(Attack(name, Threat.READ, Protection.READ, script) for name, script in _FILES.items()),
    *(Attack(name, Threat.READ, Protection.OTHERS, script) for name, script in _PROCESSES.items()),
)
