"""What every candidate is held against: the definition, and inputs that it cannot foresee."""


def product(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


def inputs(rng):
    """Eight whole numbers, so that equal means equal."""
    return tuple(rng.randint(-(10**6), 10**6) for _ in range(8))
