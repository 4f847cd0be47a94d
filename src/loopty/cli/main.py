"""The start of the `loopty` command: answers what needs no verb, before anything large is imported."""

import sys

from loopty.version import __version__


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"loopty, version {__version__}")
        return
    from loopty.cli.verbs import run_verb

    run_verb()


if __name__ == "__main__":
    main()
