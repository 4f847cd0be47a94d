"""A gate for correctness: the candidate must agree with a reference on random inputs that nobody can predict.

    python3 -m loopty_sdk.certify program.py:f reference.py:f --inputs reference.py:inputs

`inputs(rng)` makes the positional arguments of one call, as a tuple, from a `random.Random`. The reference is part
of the benchmark and runs in this process; the candidate runs in its own. Exits with 1 at the first difference.

A candidate that passes is right for these calls. It may still be wrong for later ones, in the measured run: check
those too, with `candidate(…, check=reference)`.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .candidates import candidate
from .equality import are_equal, short_repr
from .errors import CandidateError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m loopty_sdk.certify", description="Compare a function of the candidate with a reference."
    )
    parser.add_argument("candidate", help="FILE.py:FUNCTION of the candidate")
    parser.add_argument("reference", help="FILE.py:FUNCTION of the benchmark")
    parser.add_argument(
        "--inputs", required=True, help="FILE.py:FUNCTION of the benchmark, called with a random.Random"
    )
    parser.add_argument("--rounds", type=int, default=100, help="number of random inputs (100)")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="how far numbers may differ, absolute or relative (0)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="time limit of one call (5)")
    options = parser.parse_args()
    reference, inputs = _load(options.reference), _load(options.inputs)
    with candidate(options.candidate, seconds=options.seconds) as function:
        for number in range(options.rounds):
            args = tuple(inputs(random.Random(os.urandom(16))))
            try:
                # The reference may change its arguments, so it gets a copy.
                value, expected = function(*args), reference(*copy.deepcopy(args))
            except CandidateError as error:
                print(f"round {number}: {error} for {short_repr(args)}", file=sys.stderr)
                return 1
            if not are_equal(value, expected, options.tolerance):
                difference = (
                    f"returns {short_repr(value)} instead of {short_repr(expected)} for {short_repr(args)}"
                )
                print(f"round {number}: {options.candidate} {difference}", file=sys.stderr)
                return 1
    print(f"{options.candidate} agrees with {options.reference} on {options.rounds} random inputs")
    print(
        "this does not prove that it is right in the measured run: check there with candidate(…, check=reference)"
    )
    return 0


def _load(target: str) -> Callable[..., Any]:
    """Load a function of the benchmark, which is trusted."""
    place, _, name = target.rpartition(":")
    path = Path(place).absolute()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file():
        sys.exit(f"{place} does not exist: name it in benchmark.files")
    if spec is None or spec.loader is None:
        sys.exit(f"{target} does not name a function of a Python file: write it as reference.py:f")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main())
