"""`loopty notify`: where notices go, and whether they arrive."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from loopty.cli import declare
from loopty.cli.output import json_option, print_json, say


@declare.command("notify")
@declare.option("--test", is_flag=True, help="Send a notice now, to see whether it arrives.")
@json_option
def command(test: bool, as_json: bool) -> None:
    """Show where notices go: to the desktop, to a web address, to a command of yours.

    `loopty optimize` sends one for a new best node, a node held for a look, a stall, 80 and 100 % of the budget,
    and the end. Where they go stands in your own config file, because a repository must not decide it:

    \b
    [notify]
    desktop = true
    webhook = "https://chat.example.org/hooks/1"
    command = ["/home/me/bin/page-me"]     # gets the notice as JSON on standard input
    on = ["new-best", "held", "finished"]  # default: all of them
    """
    from loopty.notices.notice import Notice, NoticeKind
    from loopty.notices.notice_sender import send_notice
    from loopty.taskfile.model_tables import user_config_file
    from loopty.taskfile.notice_settings import user_notice_settings

    settings, path = user_notice_settings(os.environ), user_config_file(os.environ)
    failures = []
    if test and settings.has_receiver:
        here = Path.cwd().name
        notice = Notice(NoticeKind.TEST, 0, "this is a test", "notices of loopty arrive here", repository=here)
        failures = send_notice(settings, notice)
    if as_json:
        from loopty.kit import codec

        print_json({**codec.plain(settings), "file": str(path), "failures": failures})
    elif not settings.has_receiver:
        declare.echo(
            f"notices go nowhere yet: write a table [notify] into {path} (`loopty notify --help` has one)"
        )
    else:
        receivers = {
            "desktop": "this desktop" if settings.desktop else "",
            "webhook": settings.webhook,
            "command": " ".join(settings.command),
        }
        for name, receiver in receivers.items():
            if receiver:
                declare.echo(f"{name:<9}{receiver}")
        declare.echo(f"{'on':<9}{', '.join(settings.on)}")
        if test and not failures:
            say("a test was sent to each")
    for failure in failures:
        say(failure)
    sys.exit(1 if failures or (test and not settings.has_receiver) else 0)
