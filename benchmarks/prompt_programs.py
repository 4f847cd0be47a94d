"""Small programs that can be improved, with their evaluators: what models are asked to change by `prompts.py`.

Each has a short history: a change that was better, one that was worse and one that failed. The scores depend on
nothing but the program, so that one trial tells whether a change is better.
"""

from dataclasses import dataclass
from typing import NamedTuple

from loopty.kit.records import replace


class Step(NamedTuple):
    """A change that was tried before: lines of the program, and the lines in their place."""

    old: str
    new: str


@dataclass(frozen=True)
class Program:
    """A program, how it is scored, and what was tried."""

    name: str
    goal: str
    path: str
    text: str
    evaluator: str
    tried: tuple[Step, ...]
    direction: str = "max"
    others: tuple[tuple[str, str], ...] = ()
    """Further files, by path: they may only be read."""
    function: str = ""
    """What may change where only a block may: the function from this line to the next one at its depth."""

    def with_block(self) -> "Program":
        """The same program with EVOLVE-BLOCK lines, which the form `block` needs."""
        if not self.function:
            return self
        before, found, rest = self.text.partition(self.function)
        body, gap, after = rest.rstrip().partition("\n\n\n")
        block = f"# EVOLVE-BLOCK-START\n{found}{body}\n# EVOLVE-BLOCK-END"
        return replace(self, text=f"{before}{block}{gap}{after}\n", function="")


_KNAPSACK = Program(
    "knapsack",
    "Choose items so that their total value is large and their total weight stays within the capacity.",
    "knapsack.py",
    '''\
"""Fill knapsacks."""

# EVOLVE-BLOCK-START
def choose(items, capacity):
    """Return the indices of the chosen items; an item is (value, weight)."""
    chosen = []
    room = capacity
    for index, (value, weight) in enumerate(items):
        if weight <= room:
            chosen.append(index)
            room -= weight
    return chosen
# EVOLVE-BLOCK-END


def total(items, chosen):
    return sum(items[index][0] for index in chosen)
''',
    """\
import json
import random
from knapsack import choose

score = 0.0
for seed in range(12):
    rng = random.Random(seed)
    items = [(rng.randint(1, 99), rng.randint(5, 60)) for _ in range(60)]
    capacity = sum(weight for _, weight in items) // 4
    chosen = list(choose(list(items), capacity))
    assert len(set(chosen)) == len(chosen), "an item was chosen twice"
    assert sum(items[index][1] for index in chosen) <= capacity, "the capacity was exceeded"
    score += sum(items[index][0] for index in chosen) / capacity
print(json.dumps({"score": round(score / 12, 9)}))
""",
    (
        Step(
            "    for index, (value, weight) in enumerate(items):",
            "    order = sorted(range(len(items)), key=lambda i: items[i][1])\n"
            "    for index, (value, weight) in ((i, items[i]) for i in order):",
        ),
        Step("    room = capacity\n", "    room = capacity // 2\n"),
        Step("    return chosen\n", "    return sorted(chosen, key=items.value)\n"),
    ),
)

_TOUR = Program(
    "tour",
    "Visit all cities once and return to the first: the tour must be short.",
    "tour.py",
    '''\
import math


def distance(a, b):
    return math.hypot(a[0] - b[0], a[1] - b[1])


def length(cities, order):
    return sum(distance(cities[order[i - 1]], cities[order[i]]) for i in range(len(order)))


def plan(cities):
    """Return the order in which the cities are visited: a permutation of range(len(cities))."""
    rest = list(range(len(cities)))
    order = [rest.pop(0)]
    while rest:
        order.append(rest.pop(0))
    return order
''',
    """\
import json
import math
import random
from tour import plan

score = 0.0
for seed in range(4):
    rng = random.Random(seed)
    cities = [(rng.random(), rng.random()) for _ in range(50)]
    order = list(plan(list(cities)))
    assert sorted(order) == list(range(50)), "not a permutation of the cities"
    score += sum(math.dist(cities[order[i - 1]], cities[order[i]]) for i in range(50))
print(json.dumps({"score": round(score / 4, 9)}))
""",
    (
        Step(
            "    while rest:\n        order.append(rest.pop(0))",
            "    rest.sort(key=lambda city: cities[city])\n    while rest:\n        order.append(rest.pop(0))",
        ),
        Step("        order.append(rest.pop(0))", "        order.append(rest.pop())"),
        Step("    return order\n", "    return order + [order[0]]\n"),
    ),
    "min",
    function="def plan(",
)

_COMPRESS = Program(
    "compress",
    "Encode texts in few bytes; decode(encode(text)) must give the text back.",
    "src/codec.py",
    '''\
"""A codec for short texts of lower-case words."""

# EVOLVE-BLOCK-START
COMMON = ["the ", "and ", "ing "]


def encode(text):
    """Return bytes; byte values from 128 on stand for the entries of COMMON."""
    for number, part in enumerate(COMMON):
        text = text.replace(part, chr(128 + number))
    return bytes(ord(letter) for letter in text)


def decode(data):
    text = "".join(chr(byte) for byte in data)
    for number, part in enumerate(COMMON):
        text = text.replace(chr(128 + number), part)
    return text
# EVOLVE-BLOCK-END
''',
    """\
import json
import sys
sys.path.insert(0, "src")
from codec import decode, encode

TEXTS = [
    "the quick brown fox jumps over the lazy dog and the dog keeps sleeping under the old tree",
    "searching and sorting are the two things that the students keep learning in the first year",
    "the rain was falling and the wind was blowing while the children were singing in the garden",
    "nothing in the world is more dangerous than the man with nothing left to lose and the time to think",
    "she was standing at the station waiting for the train that was bringing her brother and the others",
]
size = 0
for text in TEXTS:
    data = encode(text)
    assert isinstance(data, bytes), "encode must return bytes"
    assert decode(data) == text, "decode does not give the text back"
    size += len(data)
print(json.dumps({"score": size}))
""",
    (
        Step('COMMON = ["the ", "and ", "ing "]', 'COMMON = ["the ", "and ", "ing ", "was "]'),
        Step('COMMON = ["the ", "and ", "ing "]', 'COMMON = ["the ", "and "]'),
        Step("    return bytes(ord(letter) for letter in text)", "    return text.encode('ascii')"),
    ),
    "min",
    (
        ("README.md", "A codec for short texts.\n"),
        ("Dockerfile", "FROM debian:12\nRUN apt-get update\nCOPY . /app\n"),
    ),
)

_SCHEDULE = Program(
    "schedule",
    "Assign jobs to machines so that the last machine to finish finishes early.",
    "schedule.py",
    '''\
def assign(jobs, machines):
    """Return for each job the number of its machine; a job is its duration in seconds."""
    result = []
    for number, duration in enumerate(jobs):
        result.append(number % machines)
    return result


def makespan(jobs, result, machines):
    loads = [0] * machines
    for duration, machine in zip(jobs, result):
        loads[machine] += duration
    return max(loads)
''',
    """\
import json
import random
from schedule import assign

score = 0.0
for seed in range(10):
    rng = random.Random(seed)
    jobs = [rng.randint(1, 100) for _ in range(37)]
    result = list(assign(list(jobs), 5))
    assert len(result) == len(jobs), "every job needs a machine"
    loads = [0] * 5
    for duration, machine in zip(jobs, result):
        assert 0 <= machine < 5, "there is no such machine"
        loads[machine] += duration
    score += max(loads) / (sum(jobs) / 5)
print(json.dumps({"score": round(score / 10, 9)}))
""",
    (
        Step(
            "        result.append(number % machines)",
            "        row, column = divmod(number, machines)\n"
            "        result.append(column if row % 2 else machines - 1 - column)",
        ),
        Step("        result.append(number % machines)", "        result.append(0)"),
        Step("        result.append(number % machines)", "        result.append(loads.index(min(loads)))"),
    ),
    "min",
    function="def assign(",
)

PROGRAMS = (_KNAPSACK, _TOUR, _COMPRESS, _SCHEDULE)
