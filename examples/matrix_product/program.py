"""The product of two 2×2 matrices, (a b; c d) and (e f; g h), as straight-line arithmetic."""


def product(a, b, c, d, e, f, g, h):
    # EVOLVE-BLOCK-START
    p = a * e + b * g
    q = a * f + b * h
    r = c * e + d * g
    s = c * f + d * h
    return p, q, r, s
    # EVOLVE-BLOCK-END
