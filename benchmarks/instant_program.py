"""The program that instant models rewrite: the solver of the circle packing example, made new by a number."""

from pathlib import Path

_EXAMPLE = Path(__file__).parent.parent / "examples" / "circle_packing" / "solver.py"
_MARKER = "    # EVOLVE-BLOCK-START\n"


def version(number: int) -> str:
    """Render the program with this number in its block."""
    before, marker, after = _EXAMPLE.read_text().partition(_MARKER)
    return f"{before}{marker}    'version': {number},\n{after}"
