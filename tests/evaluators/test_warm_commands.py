"""Which commands start as copies of a warm process, and what is said about the others."""

from __future__ import annotations

import pytest

from loopty.domain.benchmark import Benchmark
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.engine.protocols import Trial
from loopty.evaluators.warm_commands import PythonCommand, WarmCommands
from loopty.kit.records import replace
from loopty.record.node_record import Node

NODE = Node(NodeId("1"), Pool.ATTEMPT, "o", "", "commit", "tree", 0.0, order=1, position=0)
TRIAL = Trial(NODE, NODE, 1, Pool.ATTEMPT, 7)


@pytest.mark.parametrize(
    ("command", "python", "arguments"),
    [
        ("python3 bench.py --all 3", ("python3",), ("bench.py", "--all", "3")),
        (".venv/bin/python -u -O bench.py", (".venv/bin/python", "-u", "-O"), ("bench.py",)),
        ("python3.12 -m package.bench x=1", ("python3.12",), ("-m", "package.bench", "x=1")),
        (("python", "a bench.py", "$x"), ("python",), ("a bench.py", "$x")),
    ],
)
def test_a_call_of_an_interpreter_is_read(command, python, arguments):
    assert PythonCommand.parse(Benchmark(command, 1.0).argv) == PythonCommand(python, arguments)


@pytest.mark.parametrize(
    "command",
    [
        "sh bench.sh",
        "python3 bench.py > log",
        "python3 bench.py; true",
        "cd x && python3 bench.py",
        "python3 $FILE",
        "python3 'bench.py'",
        "X=1 python3 bench.py",
        "python3",
        "python3 -m",
        "python3 -X dev bench.py",
        "python3 -c pass",
        "pypy3 bench.py",
        ("env", "python3", "bench.py"),
    ],
)
def test_other_commands_and_lines_that_need_a_shell_are_not(command):
    assert PythonCommand.parse(Benchmark(command, 1.0).argv) is None


class Packages:
    def names(self, _commit: str) -> frozenset[str]:
        return frozenset({"own"})

    def imports(self, _commit: str, _arguments):
        return (("numpy", (), ()),)


def start(benchmark: Benchmark, back_end: str = "namespaces"):
    said: list[str] = []
    commands = WarmCommands(benchmark, back_end, Packages(), lambda _: (), (), said.append)
    made = [commands.start(TRIAL, benchmark.argv, {"A": "1"}, ()) for _ in range(2)]
    assert made[0] is made[1]
    return made[0], said


def test_a_python_benchmark_starts_as_a_copy():
    warm, said = start(Benchmark("python3 bench.py", 1.0))
    assert (warm.python, warm.arguments, warm.names) == (("python3",), ("bench.py",), {"own"})
    assert (warm.imports, warm.env, said) == ((("numpy", (), ()),), (("A", "1"),), [])
    warm.on_cold("it is odd")
    warm.on_cold("it is odd")
    assert said == ["`warm` has no effect: it is odd; trials start their interpreter as without it"]


@pytest.mark.parametrize(
    ("changes", "back_end", "reason"),
    [
        ({}, "bubblewrap", "the back end is bubblewrap, and only namespaces has warm processes"),
        ({"writable_copy": True}, "namespaces", "the benchmark runs in a writable copy"),
        ({"network": True}, "namespaces", "the benchmark uses the network or devices"),
        ({"devices": ("gpu",)}, "namespaces", "the benchmark uses the network or devices"),
        ({"command": "make bench"}, "namespaces", "its command is not one call of `python FILE`"),
    ],
)
def test_a_benchmark_that_cannot_says_why_once(changes, back_end, reason):
    warm, said = start(replace(Benchmark("python3 bench.py", 1.0), **changes), back_end)
    assert warm is None
    assert said == [f"`warm` has no effect: {reason}; trials start their interpreter as without it"]
