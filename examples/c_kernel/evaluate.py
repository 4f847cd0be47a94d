"""Compiles the kernel, checks its products, and scores it by the median milliseconds for one of them."""

import os
import random
import statistics
import sys
from array import array
from operator import mul
from pathlib import Path

from loopty_sdk import CandidateError, Run, candidate

N = 384
REPEATS = 5
DEFAULTS = {
    "block_rows": 384,
    "block_columns": 384,
    "block_depth": 384,
    "unroll": 1,
    "optimise": "-O1",
    "native": False,
}
SIXTEEN = bytes(value % 16 for value in range(256))


def build(params):
    """Have the candidate's sandbox compile it; the process ends when the compiler refuses."""
    names = ("block_rows", "block_columns", "block_depth", "unroll")
    defines = [f"-DN={N}", *(f"-D{name.upper()}={params[name]}" for name in names)]
    flags = [params["optimise"], *["-march=native"] * params["native"]]
    Path("build").mkdir(exist_ok=True)
    command = ["cc", *flags, *defines, "serve.c", "kernel.c", "-o", "build/kernel"]
    compiled = candidate.run(["sh", "-c", '"$@" 2>&1', "sh", *command])
    if compiled.code != 0:
        errors = [line for line in compiled.stdout.decode(errors="replace").splitlines() if "error" in line]
        sys.exit(f"does not compile: {errors[0] if errors else 'cc failed'}")


def timed_product(kernel, a, b):
    """The product and the milliseconds from sending the matrices until the last byte of it is here.

    The clock is ours and starts before the candidate knows its input, so there is nothing to gain by lying.
    """
    try:
        answer = kernel.exchange(a + b, 4 * N * N)
    except CandidateError as error:
        sys.exit(f"the kernel {error.kind}: {error}")
    return array("f", answer), kernel.seconds * 1000


def times(matrix, vector):
    return [sum(map(mul, matrix[row * N : (row + 1) * N], vector)) for row in range(N)]


def is_product(a, b, c):
    """Freivalds' check: c·v = a·(b·v) for a random v. All numbers are whole and small, so floats are exact.

    A wrong product passes one time in a million at most.
    """
    vector = [random.randrange(10**6) for _ in range(N)]
    return times(c, vector) == times(a, times(b, vector))


def main():
    run = Run()
    build({**DEFAULTS, **run.params})
    milliseconds = []
    with candidate.open(["build/kernel"]) as kernel:
        for repeat in range(REPEATS):
            # New matrices each time, so that remembering the last product is of no use.
            a, b = (os.urandom(N * N).translate(SIXTEEN) for _ in range(2))
            product, elapsed = timed_product(kernel, a, b)
            if not is_product(a, b, product):
                sys.exit(f"wrong product in repeat {repeat}")
            milliseconds.append(elapsed)
    run.finish(statistics.median(milliseconds))


if __name__ == "__main__":
    main()
