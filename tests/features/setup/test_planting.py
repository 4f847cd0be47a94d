"""A planted delay lengthens what a function takes, and changes nothing else."""

import subprocess
import sys

import pytest

from loopty.features.setup.planting import add_comment, can_plant, left_out_share, plant_delay

from ...needs import require

PYTHON = '''\
"""Doc."""
from __future__ import annotations
import time

class Kept:
    @property
    def value(self):
        return inner(3)

def inner(n):
    time.sleep(0.02)
    return n

def later():
    yield inner(1)

async def waits():
    return 1

before = time.perf_counter()
print(Kept().value, list(later()))
print(time.perf_counter() - before)
'''
C = """\
#include <stdio.h>
#include <time.h>
static int busy(int n) { struct timespec rest = {0, 30000000}; nanosleep(&rest, 0); return n; }
int twice(int n) { return busy(n) * 2; }
int main(void) { struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a); printf("%d\\n", twice(2));
  clock_gettime(CLOCK_MONOTONIC, &b); printf("%f\\n", (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec));
  return 0; }
"""
JAVASCRIPT = """\
"use strict";
const rest = new Int32Array(new SharedArrayBuffer(4));
const busy = (n) => { Atomics.wait(rest, 0, 0, 30); return n; };
class Base { constructor() { this.x = busy(2); } get odd() { return /[}{"]/.test("a"); } *later() { yield 1; } }
class Kept extends Base { constructor() { super(); } }
const before = performance.now();
const words = [new Kept().x, new Kept().odd, [...new Kept().later()][0]];
const after = performance.now();
console.log(...words);
console.log((after - before) / 1000);
"""
RUST = """\
//! Doc
#![forbid(unsafe_code)]
#![deny(missing_docs)]
use std::time::{Duration, Instant};
const fn two() -> u32 { 2 }
fn busy<'a>(text: &'a str) -> &'a str { std::thread::sleep(Duration::from_millis(30)); text }
mod inner { pub fn three() -> u32 { 3 } }
fn main() { let at = Instant::now(); println!("{} {} {}", busy("x"), two(), inner::three());
  println!("{}", at.elapsed().as_secs_f64()); }
"""


def ran(folder, name, text, *commands):
    """Return what the program prints before its last line, and the number there."""
    (folder / name).write_text(text)
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    *words, seconds = done.stdout.splitlines()
    return words, float(seconds)


@pytest.mark.parametrize(
    ("name", "text", "commands"),
    [
        ("a.py", PYTHON, [[sys.executable, "a.py"]]),
        ("a.c", C, [["gcc", "-std=gnu89", "-Wall", "-Werror", "-O2", "-o", "a", "a.c"], ["./a"]]),
        ("a.cpp", C, [["g++", "-Wall", "-Werror", "-O2", "-o", "a", "a.cpp"], ["./a"]]),
        ("a.js", JAVASCRIPT, [["node", "a.js"]]),
        ("a.rs", RUST, [["rustc", "--edition", "2021", "-O", "-o", "a", "a.rs"], ["./a"]]),
    ],
    ids=["python", "c", "c++", "javascript", "rust"],
)
def test_a_planted_program_says_the_same_and_takes_longer(tmp_path, name, text, commands):
    require(commands[0][0])
    words, seconds = ran(tmp_path, name, text, *commands)
    planted = plant_delay({name: text}, 3)
    same, longer = ran(tmp_path, name, planted[name], *commands)
    assert same == words
    assert longer > 2.5 * seconds, "it is lengthened"
    assert min(ran(tmp_path, name, planted[name], *commands[-1:])[1] for _ in range(3)) < 7 * 0.09, (
        "once, not per caller"
    )


def test_go_and_java_get_a_helper_beside_their_files():
    planted = plant_delay(
        {
            "p/a.go": "package p\n\nfunc A(n int) int { return n }\n",
            "p/b.go": "package p\n\nfunc B() {\n\tA(1)\n}\n",
            "p/gen.go": "//go:build ignore\n\npackage main\n\nfunc main() { x() }\n",
            "j/J.java": "package x.y;\nclass J { J() { f(); } int f() { return 1; } abstract int g(); }\n",
        },
        2,
    )
    assert sorted(planted) == ["j/J.java", "j/LooptyPlanted.java", "p/a.go", "p/b.go", "p/loopty_planted.go"]
    assert planted["p/loopty_planted.go"].startswith("package p\n")
    assert "func A(n int) int {defer loopty_leave(loopty_enter()); return n }" in planted["p/a.go"]
    assert planted["j/LooptyPlanted.java"].startswith("package x.y;\n")
    assert planted["j/J.java"].count("LooptyPlanted.enter()") == 1, "a constructor may begin with super()"


def test_what_cannot_be_lengthened_stays_as_it_is():
    assert plant_delay({"a.py": "def f(:\n", "b.py": "x = 1\n", "c.lua": "function f() end\n"}, 1) == {}
    assert plant_delay({"k.py": "@numba.njit\ndef f(x):\n    return x\n"}, 1) == {}
    assert plant_delay({"a.cpp": "constexpr int f() { return 1; }\nint g() = delete;\n"}, 1) == {}
    assert not can_plant("types.d.ts")
    assert can_plant("a.ts")


def test_lines_are_those_of_python():
    text = "X = '\u2028'\n\x0c\ndef f():\n    return 1\n"
    planted = plant_delay({"a.py": text}, 1)["a.py"]
    assert planted.endswith("\n\x0c\n@_loopty_planted\ndef f():\n    return 1\n")
    compile(planted, "a.py", "exec")


def test_a_file_that_is_nested_endlessly_is_left_as_it_is():
    deep = "x = " + "(" * 5000 + ")" * 5000 + "\n"
    chain = "def f(x):\n    pass\nif X:\n    pass\n" + "".join(f"elif X == {n}:\n    pass\n" for n in range(2000))
    assert plant_delay({"deep.py": deep}, 1) == {}
    plant_delay({"chain.py": chain}, 1)
    assert left_out_share({"deep.py": deep, "chain.py": chain}) in (0.0, 1.0)


def test_a_comment_is_written_in_the_words_of_the_language():
    assert add_comment("a.py", "x = 1") == "x = 1\n# nothing changes here\n"
    assert add_comment("a.rs", "fn f() {}\n").endswith("\n// nothing changes here\n")
    assert add_comment("a.csv", "1,2\n") == "1,2\n", "data has no comments"


def test_linters_and_types_do_not_judge_what_is_planted_in_a_script():
    planted = plant_delay({"a.ts": "#!/usr/bin/env node\nfunction f(a: number) { return a; }\n"}, 3)["a.ts"]
    assert planted.startswith("#!/usr/bin/env node\n// @ts-nocheck\n/* eslint-disable */\nfunction f")
