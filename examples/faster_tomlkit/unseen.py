"""Counts what a copy of tomlkit needs for documents that the benchmark does not have: `unseen.py TREE FILE...`."""

import hashlib
import sys
import time
from pathlib import Path

_ROUNDS = 3


def main() -> None:
    """Read the documents, change and write them; print a digest of the answers and the CPU seconds."""
    sys.path.insert(0, sys.argv[1])
    import tomlkit

    texts = [Path(name).read_text() for name in sys.argv[2:]]
    answers = hashlib.sha256()
    start = time.process_time()
    for _ in range(_ROUNDS):
        for text in texts:
            parsed = tomlkit.parse(text)
            answers.update(repr(parsed.unwrap()).encode())
            parsed["added"] = {"by": "unseen.py"}
            answers.update(tomlkit.dumps(parsed).encode())
    print(answers.hexdigest(), f"{time.process_time() - start:.3f} s of CPU")


if __name__ == "__main__":
    main()
