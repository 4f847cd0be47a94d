"""The program that instant models rewrite: the circle packing example, with a number that makes each one new."""

from pathlib import Path

_EXAMPLE = Path(__file__).parent.parent / "examples" / "circle_packing" / "program.py"
_MARKER = "# EVOLVE-BLOCK-START\n"


def version(number: int) -> str:
    """The program with this number in its block."""
    before, marker, after = _EXAMPLE.read_text().partition(_MARKER)
    return f"{before}{marker}VERSION = {number}\n{after}"
