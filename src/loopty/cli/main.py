"""The start of the `loopty` command: `--version` is answered before anything large is imported."""

import gc
import sys

from loopty.version import __version__

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Python's 700 makes imports a sixth slower: they make many objects and little garbage. `run` makes 60,000."""


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"loopty, version {__version__}")
        return
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from loopty.cli.call import call_verb
    from loopty.kit.process import run_and_exit

    run_and_exit(call_verb)


if __name__ == "__main__":
    main()
