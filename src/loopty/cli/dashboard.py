"""`loopty dashboard`: a local web page of the experiments, live."""

from __future__ import annotations

from pathlib import Path

import click

from loopty.cli.output import json_option, print_json, say
from loopty.git.folders import GitFolders

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("dashboard")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port. Default: a free one.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. Default: this machine.")
@click.option(
    "--name", "names", multiple=True, metavar="HOST[:PORT]", help="A name by which browsers may reach it."
)
@click.option(
    "--tls-certificate", type=click.Path(dir_okay=False, path_type=Path), help="The certificate for https."
)
@click.option("--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="Its key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of it speaks TLS; give its --name.")
@click.option("--open", "open_browser", is_flag=True, help="Open it in your browser.")
@click.option("--ends-with-input", is_flag=True, hidden=True)
@json_option
def dashboard_verb(
    port: int,
    host: str,
    names: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    open_browser: bool,
    ends_with_input: bool,
    as_json: bool,
) -> None:
    """Show the experiments in your browser, live while they run, and act on them. Ctrl-C ends it.

    The printed address has a token: whoever has it can see everything and act. It listens on this machine only,
    unless --host names another address; then it needs TLS.
    """
    from loopty.web.launch import DashboardOptions, serve_dashboard
    from loopty.web.server import StaticFiles, page_remedy

    options = DashboardOptions(host, port, names, tls_certificate, tls_key, behind_proxy)
    top = GitFolders.find(Path.cwd()).top

    def show(url: str) -> None:
        if not StaticFiles().is_built():
            say(f"warning: the dashboard's page is not built, so the address shows none: {page_remedy()}")
        if as_json:
            print_json({"url": url})
        else:
            click.echo(url)
            say("open this address; Ctrl-C ends the dashboard, not the run")
        if open_browser:
            click.launch(url)

    serve_dashboard(top, options, show, ends_with_input)
