"""Runs the verb that is called, and turns misuse into one line and exit code 2."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from shlex import join
from typing import NoReturn

import click

from loopty.cli.click_group import loopty
from loopty.domain.errors import LooptyError

_LIMITS = ("attempts", "control", "wall_seconds", "target", "patience")
"""Limits of a run, which many look for among the options of `optimize`."""


def run_verb() -> None:
    """Run the verb that the command line names."""
    from loopty.show.terminal import SafeStream

    sys.stdout, sys.stderr = SafeStream.over(sys.stdout), SafeStream.over(sys.stderr)
    try:
        loopty(standalone_mode=False)
    except LooptyError as error:
        _exit_if_outage(error)
        _exit_for_misuse(str(error))
    except click.NoSuchOption as error:
        _exit_for_misuse(error.format_message() if error.possibilities else _unknown_option(error))
    except click.ClickException as error:
        _exit_for_misuse(error.format_message())
    except BrokenPipeError:
        _leave_stdout()
        sys.exit(1)
    except OSError as error:
        if (message := _explanation(error)) is None:
            raise
        _exit_for_misuse(message)
    except (EOFError, KeyboardInterrupt, click.Abort):
        sys.stderr.write("\nloopty: interrupted\n")
        sys.exit(130)


def _unknown_option(error: click.NoSuchOption) -> str:
    """Say what to do instead of an option that a verb does not have."""
    verb, name = error.ctx.command_path if error.ctx else "loopty", error.option_name.lstrip("-").replace("-", "_")
    if verb == "loopty run" and name in _LIMITS:
        return f"{error.option_name} is no option: write {name} = N under [budget] in loopty.toml"
    return f"{verb} has no option {error.option_name}: `{verb} --help` lists them"


def _leave_stdout() -> None:
    """Write the rest nowhere: who read it has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explanation(error: OSError) -> str | None:
    """Say what a user can do about an error of the file system, or None."""
    from loopty.kit.safe_folder import UnsafePath

    if error.errno == errno.ENOENT and not _has_folder():
        return "this folder is no longer there: change to another one (`cd`), and try again"
    if isinstance(error, UnsafePath):
        return f"{error}; loopty keeps its own files there and follows no links"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error}): free some space or some files; recorded events are safe"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"cannot write to {error.filename} ({error.strerror}): make it writable; recorded events are safe"
    return None


def _has_folder() -> bool:
    """Return whether the folder that this process works in still exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _exit_if_outage(error: LooptyError) -> None:
    """Exit with 1 if a model is unavailable, as for any run without a result, and say how to go on."""
    from loopty.domain.model import Outage

    if isinstance(error, Outage):
        from loopty.cli.output import print_json, say

        if "--json" in sys.argv:
            print_json({"reason": error.message, "sound": False})
        say(f"loopty: {error.message}\ntry again: loopty {join(sys.argv[1:])}")
        sys.exit(1)


def _exit_for_misuse(message: str) -> NoReturn:
    for line in message.splitlines():
        sys.stderr.write(f"loopty: {line}\n")
    sys.exit(2)
