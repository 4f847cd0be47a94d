"""Packs 26 circles into the unit square and prints them; the settings to evolve are in solver.py and moves.py."""

import random

import moves
import solver

COUNT = 26
COMPARISONS = 1_500_000  # of two circles: the work of one search, about a second of it, on every machine the same
PATIENCE = 50  # changes without a gain before random circles again


def search():
    """The best packing of all that are solved until the work is done."""
    rng = random.Random(moves.SETTINGS["seed"])
    stiffness, passes = solver.SETTINGS["stiffness"], moves.SETTINGS["passes"]
    first = passes // 3 if moves.SETTINGS["doubtful"] else 0
    work = solver.Solver()
    work.left = 0.85 * COMPARISONS
    best, best_worth, last, last_worth, misses = None, 0.0, None, 0.0, 0
    while work.left > 0:
        if last is None or moves.SETTINGS["fresh"] or misses >= PATIENCE:
            last, misses = moves.random_packing(rng), 0
            last_worth = work.solve(last, stiffness, passes)
        else:
            changed = moves.changed_packing(last, rng)
            if first == 0 or work.solve(changed, stiffness, first) > last_worth - 0.03:
                worth = work.solve(changed, stiffness, passes - first)
            else:
                worth = 0.0
            if worth > last_worth:
                last, last_worth, misses = changed, worth, 0
            else:
                misses += 1
        if best is None or last_worth > best_worth:
            best, best_worth = last, last_worth
    for stiffer in (300, 3000, 30000):  # until hardly any overlap is left
        work.left = 0.05 * COMPARISONS
        work.solve(best, stiffer, COMPARISONS)
    return best


def circles(centres, radii):
    """The packing as lists [x, y, radius], each circle small enough to leave every other its own."""
    gaps = [[abs(one - other) for other in centres] for one in centres]
    walls = [min(centre.real, centre.imag, 1 - centre.real, 1 - centre.imag) for centre in centres]
    others = [[j for j in range(COUNT) if j != i] for i in range(COUNT)]
    excess = [max(radii[i] + radii[j] - gaps[i][j] for j in others[i]) for i in range(COUNT)]
    radii = [radius - max(most, 0) / 2 for radius, most in zip(radii, excess, strict=True)]
    for i in range(COUNT):
        radii[i] = min(walls[i], *(gaps[i][j] - radii[j] for j in others[i]))
    # The evaluator allows no rounding error, so we keep clear of it.
    return [
        [centre.real, centre.imag, radius * (1 - 1e-12)] for centre, radius in zip(centres, radii, strict=True)
    ]


if __name__ == "__main__":
    print(circles(*search()))  # a list of lists of floats prints as JSON
