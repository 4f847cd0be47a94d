"""Say how far the demo came on the way to the best packings that were published, from `loopty status --json`."""

import json
import sys
import textwrap

PUBLISHED = 2.63598  # ShinkaEvolve, 2025; ThetaEvolve and CodeEvolve report the same, AlphaEvolve 2.63586
COLUMNS = 80


def main() -> None:
    status = json.load(sys.stdin)
    first, best = status["baseline"]["score"], status["best"]["score"]
    way = (best - first) / (PUBLISHED - first)
    paragraphs = (
        f"How good is that? The best published packing of 26 circles has {PUBLISHED} (ShinkaEvolve; AlphaEvolve: "
        f"2.63586). This run has {best:.5f}: {best / PUBLISHED:.1%} of it, {way:.0%} of the way there from the "
        f"first program ({first:.5f}).",
        "Why not all of it: a random edit moves one number or one line at a time, while in the best packings all "
        "26 circles touch, so that no single one can move. The published programs solve for all of them at once. "
        "That is an idea, not an edit: a language model can have it (docs/models.md), chance does not.",
    )
    print("\n\n".join(textwrap.fill(paragraph, COLUMNS) for paragraph in paragraphs))


if __name__ == "__main__":
    main()
