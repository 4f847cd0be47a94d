"""Say in two sentences what happened in the demo, and how far it is from the best published packing."""

import json
import sys
import textwrap

PUBLISHED = 2.6359831  # numaro; ShinkaEvolve has 2.63598, AlphaEvolve 2.63586
TARGET = 2.635
COLUMNS = 80


def main() -> None:
    status = json.load(sys.stdin)
    first, best, control = (
        (status[name] or status["baseline"])["score"] for name in ("baseline", "best", "control")
    )
    finished = {count["pool"]: count["endings"].get("finished", 0) for count in status["counts"]}
    kept = status["verdicts"].get("kept", 0)
    happened = (
        f"What happened: in {status['elapsed_seconds']:.0f} s loopty measured {finished['attempt']} random "
        f"changes of the best program so far and kept {kept}, which led from {first:.5f} to {best:.5f}. "
        f"Without selection, the best of {finished.get('control', 0)} random changes of the first program has "
        f"{control:.5f}."
    )
    distance = (
        f"The best published packing of 26 circles has {PUBLISHED} (AlphaEvolve: 2.63586). "
        f"This one is {PUBLISHED - best:.5f} away: {best / PUBLISHED:.2%} of it."
    )
    if best < TARGET:
        distance += (
            " A busy machine measures less in two minutes; to continue: cd build/demo; loopty config budget "
            "wall_seconds=300; loopty run"
        )
    print("\n\n".join(textwrap.fill(paragraph, COLUMNS) for paragraph in (happened, distance)))


if __name__ == "__main__":
    main()
