"""The start of the `loopty` command: what needs no verb is answered here, before anything large is imported."""

import gc
import os
import sys

from loopty.version import __version__

_SWITCH = "LOOPTY_RESIDENT"
"""`0`: this verb runs in its own process; `1`: where there is no resident process, it starts one for the next."""
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Python's 700 makes imports a sixth slower: they make many objects and little garbage. `run` makes 60,000."""
_OWN_PROCESS = ("serve", "--help", "-h")
"""What the resident process is not asked for."""
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
    if args[:1] == ["mcp"]:
        from loopty.resident.mcp_server import main as serve_host

        os._exit(serve_host(args[1:]))
    if args and args[0] not in _OWN_PROCESS and os.environ.get(_SWITCH) != "0":
        from loopty.resident.client import hand_over

        status = hand_over(args, start_missing=os.environ.get(_SWITCH) == "1")
        if status is not None:
            os._exit(status)  # nothing was written here, and an orderly end of Python takes a third of its time
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if args[:1] != ["serve"]:  # the resident process imports all that verbs may need
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
