"""The start of the `loopty` command: what needs no verb is answered here, before anything large is imported."""

import gc
import sys

from loopty.version import __version__

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Python's 700 makes imports a sixth slower: they make many objects and little garbage. `run` makes 60,000."""
_SELDOM_USED = (
    *("inspect", "ssl", "asyncio.sslproto", "asyncio.staggered", "tokenize", "ipaddress", "textwrap"),
    *("ast", "base64", "bz2", "csv", "locale", "lzma", "ntpath", "random", "secrets", "tempfile"),
    *("fnmatch", "hashlib", "linecache", "queue", "shlex", "shutil", "signal", "traceback"),
)
"""What asyncio, pathlib, subprocess and loopty itself import, and most verbs do not need."""


def main() -> None:
    args = sys.argv[1:]
    if args == ["--version"]:
        print(f"loopty, version {__version__}")
        return
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from loopty.kit.later_modules import import_functions_later, import_later

    import_later(*_SELDOM_USED)  # before anything that imports them
    import_functions_later("urllib", "parse", "quote_from_bytes")  # pathlib has it for `Path.as_uri`

    import loopty
    from loopty.kit.kept_code import KeptCode
    from loopty.kit.quick_import import import_quickly

    import_quickly(loopty, KeptCode(_verb_of(args), loopty.__path__[0]))
    from loopty.cli.run_verb import run_verb
    from loopty.kit.quick_exit import run_and_exit

    run_and_exit(run_verb)


def _verb_of(args: list[str]) -> str:
    """The word that names the verb; what is no plain word names none."""
    first = args[0] if args else ""
    return first if first.isascii() and first.replace("-", "").isalpha() else "loopty"


if __name__ == "__main__":
    main()
