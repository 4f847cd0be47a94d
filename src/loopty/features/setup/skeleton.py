"""Begins a benchmark for a repository that has none: a file in its language that says where to put the calls.

Its first lines are also the task for a coding agent that is to write it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.kit.records import Record

_TASK = """\
A benchmark of {name}, to be filled in. It calls what should become faster, as its users call it.

1. Inputs: realistic ones, of the sizes that matter, made from a seed or read from a file of the repository.
   Several kinds, so that no cache of whole inputs can win. Making them is not timed.
2. Work: calls into {sources}. A run takes 0.2 to 5 seconds, and nearly all of it is in that code.
3. Check: compare what the calls return with what they return now, or with a property that must hold.
   If it differs, exit with another code than 0.
4. Report: {report}

Then prove it, and change it until it passes: {command}
"""

_PYTHON = '''\
"""{task}"""

import os
import random

from loopty_sdk import CandidateError, Run, candidate


def inputs() -> list:
    """Make the inputs: of the same sizes each time, and other ones, so that no answer can be remembered."""
    rng = random.Random(os.environ.get("LOOPTY_SEED"))
    return [rng.random() for _ in range(1000)]  # here


def check(items, results) -> bool:
    """Compare the results with what they have to be."""
    return len(results) == len(items)  # here


def used(work) -> float:
    """Return the CPU seconds of the last calls; by the clock where nothing counts them."""
    try:
        return work.cpu_seconds
    except CandidateError:
        return work.seconds


if __name__ == "__main__":
    items = inputs()
    best = float("inf")
    # The code runs in a sandbox of its own, and reaches neither the clock nor this file. Arguments and results
    # travel as data: numbers, text, bytes, lists, tuples, dicts, numeric arrays.
    with candidate("{module}:FUNCTION") as work:  # here: a function of the library
        for _ in range(5):
            results = work.call_many([(item,) for item in items])
            best = min(best, used(work))
    if not check(items, results):
        raise SystemExit("the results are wrong")
    Run().finish(best)
'''
_JAVASCRIPT = """\
/*
{task}*/

const library = await import("{module}");

const inputs = () => Array.from({{ length: 1000 }}, (_, at) => at); // here: the same ones each time
const work = (item) => {{ throw new Error("call the library here, with " + item); }};
const check = (items, results) => results.length === items.length; // here

const items = inputs();
let best = Infinity, results = [];
for (let round = 0; round < 5; round++) {{
  const started = process.cpuUsage(); // of the processor: others keep it busy, too
  results = items.map(work);
  const used = process.cpuUsage(started);
  best = Math.min(best, (used.user + used.system) / 1e6);
}}
if (!check(items, results)) throw new Error("the results are wrong");
console.log("seconds:", best);
"""
_C = """\
/*
{task}*/

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* here: #include the header of the library */

static double now(void) {{
  struct timespec at;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return at.tv_sec + 1e-9 * at.tv_nsec;
}}

static long work(int item) {{
  fprintf(stderr, "call the library here\\n");
  exit(item + 1);
}}

int main(void) {{
  double best = 1e9;
  long sum = 0;
  for (int round = 0; round < 5; round++) {{
    double started = now();
    sum = 0;
    for (int item = 0; item < 1000; item++) sum += work(item);
    if (now() - started < best) best = now() - started;
  }}
  if (sum != 0 /* here: what it has to be */) return 1;
  printf("seconds: %f\\n", best);
  return 0;
}}
"""
_RUST = """\
{task}
use std::hint::black_box;
use std::time::Instant;

fn inputs() -> Vec<u64> {{
    (0..1000).collect() // here: the same ones each time
}}

fn work(item: u64) -> u64 {{
    todo!("call {module} here, with {{}}", item)
}}

fn main() {{
    let items = inputs();
    let mut best = f64::INFINITY;
    let mut sum = 0;
    for _ in 0..5 {{
        let started = Instant::now();
        sum = items.iter().map(|item| work(black_box(*item))).sum();
        best = best.min(started.elapsed().as_secs_f64());
    }}
    assert_eq!(sum, 0); // here: what it has to be
    println!("seconds: {{}}", best);
}}
"""
_GO = """\
{task}
package {module}

import "testing"

func BenchmarkLoopty(b *testing.B) {{
	for i := 0; i < b.N; i++ {{
		b.Fatal("call the package here, and check what it returns")
	}}
}}
"""
_SHELL = """\
{task}
set -e
# here: build, outside of what is timed
started=$(date +%s.%N)
# here: run the program on realistic inputs, and compare what it writes with `cmp`
ended=$(date +%s.%N)
echo "seconds: $(echo "$ended - $started" | bc)"
"""


class _Form(Record):
    """A benchmark's file, how it is run, its text, and what begins each line of its task."""

    path: str
    command: str
    text: str
    comment: str = ""
    report: str = "the last line is `seconds: 1.23`. Nothing else may write that line."


_BY_SDK = "`Run().finish(seconds)`. By hand, this needs loopty's SDK, which trials have."
_c_command = "mkdir -p build && cc -O2 -o build/loopty_bench loopty_bench.c SOURCES && build/loopty_bench"
_FORMS = {
    "python": _Form("loopty_bench.py", "python3 loopty_bench.py", _PYTHON, report=_BY_SDK),
    "javascript": _Form("loopty_bench.mjs", "node loopty_bench.mjs", _JAVASCRIPT),
    "typescript": _Form("loopty_bench.mjs", "node loopty_bench.mjs", _JAVASCRIPT),
    "c": _Form("loopty_bench.c", _c_command, _C),
    "c++": _Form("loopty_bench.cpp", _c_command.replace("cc ", "c++ ").replace(".c ", ".cpp "), _C),
    "rust": _Form(
        "examples/loopty_bench.rs",
        "CARGO_TARGET_DIR=target cargo run --release --offline --example loopty_bench",
        _RUST,
        "//! ",
    ),
    "go": _Form("loopty_bench_test.go", "go test -run '^$' -bench Loopty", _GO, "// "),
}
_OTHER = _Form("loopty_bench.sh", "sh loopty_bench.sh", _SHELL, "# ")


class Skeleton(Record):
    """The beginning of a benchmark."""

    path: str
    text: str
    command: str
    """What runs it, for `loopty init --command`."""


def begin_benchmark(facts: RepositoryFacts, name: str, module: str, sources: Sequence[str]) -> Skeleton:
    """Write the beginning of a benchmark in the language of the repository.

    `module` is what a program imports; `sources` are the files that it should reach.
    """
    form = _FORMS.get(facts.languages[0] if facts.languages else "", _OTHER)
    proof = f'loopty init --yes --force --direction min --command "{form.command}"'
    task = _TASK.format(name=name, sources=", ".join(sources) or "the library", report=form.report, command=proof)
    if form.comment:
        lines = textwrap.indent(task, form.comment, lambda _: True).splitlines()
        task = "".join(f"{line.rstrip()}\n" for line in lines)
    return Skeleton(form.path, form.text.format(task=task, module=module), form.command)
