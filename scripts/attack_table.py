"""Attack every sandbox of this machine by `loopty doctor --attack`, and print the table of docs/design/attacks.md.

python scripts/attack_table.py [LOOPTY]
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

KINDS = {"namespaces": "namespaces", "bubblewrap": "bubblewrap", "landlock": "Landlock"}
WORDS = {"held": "held", "gap": "gap", "BROKEN": "THROUGH", "UNTRIED": "not tried", "not applicable": "n/a"}


def attack(loopty: str, kind: str) -> list[dict[str, str]]:
    """Run all attacks on a sandbox of this kind."""
    with tempfile.TemporaryDirectory() as folder:
        command = (loopty, "doctor", "--attack", "--json", "--sandbox", kind)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{kind}: {done.stderr}")
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


def cell(standings: Mapping[str, int]) -> str:
    """`24 held, 1 n/a`."""
    return ", ".join(f"{count} {WORDS.get(standing, standing)}" for standing, count in standings.items())


def main() -> None:
    loopty = sys.argv[1] if len(sys.argv) > 1 else str(Path(sys.executable).with_name("loopty"))
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for kind in KINDS:
        for row in attack(loopty, kind):
            found[row["threat"]][kind][row["standing"]] += 1
            found["all"][kind][row["standing"]] += 1
    found["**all**"] = found.pop("all")
    print(f"| a candidate tries to | {' | '.join(KINDS.values())} |")
    print(f"|---{'|---' * len(KINDS)}|")
    for threat, by_kind in found.items():
        print(f"| {threat} | {' | '.join(cell(by_kind[kind]) for kind in KINDS)} |")


if __name__ == "__main__":
    main()
