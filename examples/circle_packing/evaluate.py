"""Scores a packing by the sum of its radii, or refuses it: an invalid packing has no score."""

import json
import math
import sys
from itertools import combinations

from loopty_sdk import CandidateError, candidate

COUNT = 26
TIMEOUT_SECONDS = 20


def candidate_output():
    """What program.py prints: it runs in a sandbox of its own and knows nothing of this process."""
    try:
        # -E, -s and -S: nothing but its own files and the standard library, which also starts quickest.
        ran = candidate.run(["python3", "-E", "-s", "-S", "program.py"], seconds=TIMEOUT_SECONDS)
    except CandidateError as error:
        sys.exit(f"program.py failed: {error}")
    if ran.code != 0:
        sys.exit(f"program.py failed: {ran.stderr}")
    return ran.stdout


def exact(number):
    """The number in units of 2**-1074: every finite float is a whole number of them."""
    numerator, denominator = number.as_integer_ratio()
    return numerator << (1075 - denominator.bit_length())


def flaw(packing):
    """Why this is not a packing of disjoint circles in the unit square, or None. Nothing is rounded."""
    if not isinstance(packing, list) or len(packing) != COUNT:
        return f"not a list of {COUNT} circles"
    for circle in packing:
        if not isinstance(circle, list) or len(circle) != 3:
            return f"not a circle [x, y, radius]: {circle!r:.80}"
        if not all(type(number) is float and math.isfinite(number) for number in circle):
            return f"not a circle of three finite floats: {circle!r:.80}"
    one = exact(1.0)
    circles = [tuple(map(exact, circle)) for circle in packing]
    for index, (x, y, radius) in enumerate(circles):
        if radius <= 0:
            return f"circle {index} has no positive radius"
        if not (radius <= x <= one - radius and radius <= y <= one - radius):
            return f"circle {index} reaches out of the square"
    for (i, (x, y, radius)), (j, (other_x, other_y, other)) in combinations(enumerate(circles), 2):
        if (x - other_x) ** 2 + (y - other_y) ** 2 < (radius + other) ** 2:
            return f"circles {i} and {j} overlap"
    return None


def main():
    try:
        packing = json.loads(candidate_output())
    except ValueError as error:
        sys.exit(f"program.py printed no JSON: {error}")
    if reason := flaw(packing):
        sys.exit(f"invalid packing: {reason}")
    print(json.dumps({"score": math.fsum(radius for _, _, radius in packing)}))


if __name__ == "__main__":
    main()
