"""Places 26 circles in the unit square; only what lies between the markers is for evolution to change."""

import math

# EVOLVE-BLOCK-START
# A naive start: a point with two rings around it, crowded in the middle, and one gentle push apart.
POINTS = [
    (0.5, 0.5), (0.7, 0.5), (0.65, 0.63), (0.53, 0.7), (0.4, 0.67), (0.31, 0.57), (0.31, 0.43), (0.4, 0.33),
    (0.53, 0.3), (0.65, 0.37), (0.85, 0.5), (0.82, 0.63), (0.75, 0.75), (0.63, 0.82), (0.5, 0.85), (0.37, 0.82),
    (0.25, 0.75), (0.18, 0.63), (0.15, 0.5), (0.18, 0.37), (0.25, 0.25), (0.37, 0.18), (0.5, 0.15), (0.63, 0.18),
    (0.75, 0.25), (0.82, 0.37),
]  # fmt: skip


def arrange(points):
    spread(points, 0.2, 0.1)


# EVOLVE-BLOCK-END


def spread(points, reach, push):
    """Move points that are nearer than `reach` to each other, or than half of it to a wall, apart."""
    moved = []
    for x, y in points:
        dx = max(reach / 2 - x, 0) - max(reach / 2 - (1 - x), 0)
        dy = max(reach / 2 - y, 0) - max(reach / 2 - (1 - y), 0)
        for other_x, other_y in points:
            distance = math.hypot(x - other_x, y - other_y)
            if 0 < distance < reach:
                dx += (x - other_x) * (reach / distance - 1)
                dy += (y - other_y) * (reach / distance - 1)
        moved.append((x + push * dx, y + push * dy))
    points[:] = moved


def circles(points):
    """The points as centres, each with a radius that leaves every other its own."""
    centres = [(min(max(x, 0.02), 0.98), min(max(y, 0.02), 0.98)) for x, y in points]
    gaps = [[math.dist(one, other) for other in centres] for one in centres]
    walls = [min(x, y, 1 - x, 1 - y) for x, y in centres]
    others = [[j for j in range(len(centres)) if j != i] for i in range(len(centres))]
    radii = [min(walls[i], *(gaps[i][j] / 2 for j in others[i])) for i in range(len(centres))]
    for i in range(len(centres)):
        radii[i] = min(walls[i], *(gaps[i][j] - radii[j] for j in others[i]))
    # The evaluator allows no rounding error, so we keep clear of it.
    return [[x, y, radius * (1 - 1e-12)] for (x, y), radius in zip(centres, radii, strict=True)]


if __name__ == "__main__":
    points = list(POINTS)
    arrange(points)
    print(circles(points))  # a list of lists of floats prints as JSON
