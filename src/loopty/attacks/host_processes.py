"""Attacks on processes of the host: signals, tracing, their memory."""

from __future__ import annotations

from loopty.attacks.attack import Attack
from loopty.attacks.threats import Threat
from loopty.domain.launch import Protection

_SCRIPTS = {
    "kill a process of the host": "os.kill(HOST['victim'], 9)\ntime.sleep(0.2)",
    "trace a process of the host": """
SEIZE = 0x4206
call(101, 117, SEIZE, HOST["victim"], 0, 0)
claim("traces process %d of the host" % HOST["victim"])
""",
    "read the memory of a process of the host": """
with open("/proc/%d/maps" % HOST["victim"]) as maps:
    spans = [line.split()[0].split("-") for line in maps if "[stack]" in line]
start, end = (int(bound, 16) for bound in spans[0])
memory = os.open("/proc/%d/mem" % HOST["victim"], os.O_RDONLY)
with open(OUT + "/leaked", "wb") as leaked:
    leaked.write(os.pread(memory, end - start, start))
""",
    "lower the priority of a process of the host": """
os.setpriority(os.PRIO_PROCESS, HOST["victim"], 19)
claim("changed the priority of process %d" % HOST["victim"])
""",
}

ATTACKS = tuple(Attack(name, Threat.OTHERS, Protection.OTHERS, script) for name, script in _SCRIPTS.items())
