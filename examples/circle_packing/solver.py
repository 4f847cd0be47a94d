"""Walks downhill, where overlaps cost what they are squared and radii earn what they are."""

from operator import add

COUNT = 26
PAIRS = COUNT * (COUNT - 1) // 2
STEP = 0.08
SETTINGS = {
    # EVOLVE-BLOCK-START
    "formula": False,  # slopes by their formula: one look at each pair of circles, not 79
    "near": False,  # compare only circles with a gap of less than a tenth of the side, not all 325 pairs
    "momentum": False,  # keep nine tenths of each step for the next one
    "stiffness": 100,  # what an overlap costs
    # EVOLVE-BLOCK-END
}


class Solver:
    """Changes packings, each a list of centres, which are complex numbers, and one of radii."""

    def __init__(self):
        self.left = 0  # comparisons of two circles that may still be made

    def solve(self, packing, stiffness, passes):
        """Change the packing; about the sum of its radii once it is free of overlaps."""
        centres, radii = packing
        momentum, pull = 0.9 if SETTINGS["momentum"] else 0, 1 / stiffness
        away, growth, choose_at = [0j] * COUNT, [0.0] * COUNT, 0
        for step in range(passes):
            if self.left <= 0:
                break
            if step >= choose_at:
                pairs = near_pairs(centres, radii) if SETTINGS["near"] else ALL
                choose_at = min(1.5 * (step + 1), step + 25)
                self.left -= PAIRS // 4
            self.left -= sum(map(len, pairs)) * (1 if SETTINGS["formula"] else 3 * COUNT + 1)
            push, squeeze = (slopes if SETTINGS["formula"] else tried_slopes)(centres, radii, pairs)
            away = [momentum * a + STEP * p for a, p in zip(away, push, strict=True)]
            growth = [momentum * g + STEP * (pull - s) for g, s in zip(growth, squeeze, strict=True)]
            centres[:] = map(add, centres, away)
            radii[:] = map(add, radii, growth)
        self.left -= PAIRS
        return sum(radii) - 2 * stiffness * cost(centres, radii, ALL)


ALL = [range(i) for i in range(COUNT)]  # for each circle, those that it is compared with


def near_pairs(centres, radii):
    """The pairs that overlap, or soon may."""
    return [
        [j for j in range(i) if abs(centres[i] - centres[j]) < radii[i] + radii[j] + 0.1] for i in range(COUNT)
    ]


def slopes(centres, radii, pairs):
    """Which way each circle is pushed by what it overlaps, and how much it is squeezed."""
    push, squeeze = [0j] * COUNT, [0.0] * COUNT
    for i in range(COUNT):
        centre, radius, pushed, squeezed = centres[i], radii[i], push[i], squeeze[i]
        for j in pairs[i]:
            between = centre - centres[j]
            overlap = radius + radii[j] - abs(between)
            if overlap > 0:
                between *= overlap / abs(between)
                pushed += between
                push[j] -= between
                squeezed += overlap
                squeeze[j] += overlap
        x, y = centre.real, centre.imag
        if radius > x:
            pushed += radius - x
            squeezed += radius - x
        if radius + x > 1:
            pushed -= radius + x - 1
            squeezed += radius + x - 1
        if radius > y:
            pushed += (radius - y) * 1j
            squeezed += radius - y
        if radius + y > 1:
            pushed -= (radius + y - 1) * 1j
            squeezed += radius + y - 1
        push[i], squeeze[i] = pushed, squeezed
    return push, squeeze


def tried_slopes(centres, radii, pairs):
    """The same, by making each circle a little larger, and moving it right and up, and looking at the cost."""
    here, little = cost(centres, radii, pairs), 1e-6
    push, squeeze = [0j] * COUNT, [0.0] * COUNT
    for i in range(COUNT):
        centre, radius = centres[i], radii[i]
        for direction in (1, 1j):
            centres[i] = centre + little * direction
            push[i] -= (cost(centres, radii, pairs) - here) / little * direction
        centres[i], radii[i] = centre, radius + little
        squeeze[i] = (cost(centres, radii, pairs) - here) / little
        radii[i] = radius
    return push, squeeze


def cost(centres, radii, pairs):
    """Half the sum of all overlaps, squared."""
    total = 0.0
    for i, (centre, radius) in enumerate(zip(centres, radii, strict=True)):
        for wall in (centre.real, centre.imag, 1 - centre.real, 1 - centre.imag):
            if radius > wall:
                total += (radius - wall) ** 2
        for j in pairs[i]:
            overlap = radius + radii[j] - abs(centre - centres[j])
            if overlap > 0:
                total += overlap * overlap
    return total / 2
