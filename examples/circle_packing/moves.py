"""Where a packing begins: with random circles, or with a changed copy of a good packing."""

COUNT = 26
SETTINGS = {
    # EVOLVE-BLOCK-START
    "seed": 2026,  # of all random choices
    "fresh": True,  # begin each packing with random circles, not with a change of the last good one
    "passes": 200,  # steps of the solver before a packing is looked at
    "moved": 2,  # circles that a change puts elsewhere
    "smaller": False,  # take them from the smaller half
    "doubtful": False,  # give a change up after a third of its passes if it is far behind
    # EVOLVE-BLOCK-END
}


def random_packing(rng):
    """Small circles at random places: a list of centres, which are complex numbers, and one of radii."""
    return [complex(rng.random(), rng.random()) for _ in range(COUNT)], [0.05] * COUNT


def changed_packing(packing, rng):
    """A copy with some circles at random places, and a little room for them."""
    centres, radii = list(packing[0]), [0.9 * radius for radius in packing[1]]
    smallest = sorted(range(COUNT), key=radii.__getitem__)
    movable = smallest[: COUNT // 2 if SETTINGS["smaller"] else COUNT]
    for i in rng.sample(movable, min(max(SETTINGS["moved"], 0), len(movable))):
        centres[i], radii[i] = complex(rng.random(), rng.random()), 0.01
    return centres, radii
