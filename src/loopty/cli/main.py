"""The start of the `loopty` command: `--version` is answered before anything large is imported."""

import gc
import sys

from loopty.version import __version__

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Python's 700 makes imports a sixth slower: they make many objects and little garbage. `run` makes 60,000."""


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"loopty, version {__version__}")
        return
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from loopty.cli.run_verb import run_verb
    from loopty.kit.process import run_and_exit

    run_and_exit(run_verb)


if __name__ == "__main__":
    main()
