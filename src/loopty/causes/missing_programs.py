"""Causes: a program that the trial does not find, or may not run."""

from __future__ import annotations

import posixpath
import re
import shlex

from loopty.causes.cause import Cause, Reach
from loopty.causes.failure import Failure, path_in_tree
from loopty.causes.host_facts import HostFacts
from loopty.causes.missing_modules import install_line
from loopty.causes.system_packages import PackageInstaller

_NAME = r"(?P<name>[A-Za-z0-9_.+/-]+)"
_NOT_FOUND = (
    rf"(?:^|: ){_NAME}: (?:command )?not found$",
    rf"(?:make|env)(?:\[\d+\])?: [‘'\"]?{_NAME}[’'\"]?: No such file or directory",
    rf"executable file not found in \$PATH.*?{_NAME}$",
    rf"exec: \"{_NAME}\": executable file not found",
    rf"spawn {_NAME} ENOENT",
)
_MAYBE_A_PROGRAM = r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[A-Za-z0-9_.+-]+)'"
"""Python says the same of a program and of a file."""
_DENIED = (
    rf"(?:^|: ){_NAME}: [Pp]ermission denied$",
    rf"PermissionError: \[Errno 13\] Permission denied: '{_NAME}'",
    rf"spawn {_NAME} EACCES",
)
_RUST = ("cargo", "rustc")
_NODE_MANAGERS = ("yarn", "pnpm", "bun")
_NODE_PROGRAM = re.compile(r"(?:^|/)node_modules/\.bin/(?P<name>[\w.-]+)$")
_NODE_PACKAGES = {"_mocha": "mocha", "coffee": "coffeescript", "lsc": "livescript", "tsc": "typescript"}
"""Packages whose programs have another name."""
_PERL = (
    r"Can't locate ([A-Za-z0-9_/]+)\.pm in @INC",
    r"prerequisite ([A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*) \S+ not found",
)
_MOST_MODULES = 12


def missing_program(failure: Failure, facts: HostFacts) -> Cause | None:
    """A program of the user's shell that is outside of what trials see, or is not installed."""
    found, maybe = failure.match(*_NOT_FOUND), failure.match(_MAYBE_A_PROGRAM)
    if found is None and maybe and facts.program(maybe["name"]):
        found = maybe
    if found is None:
        return None
    name = found["name"]
    if program := _NODE_PROGRAM.search(name):
        return _missing_node_program(program["name"], facts)
    inside = path_in_tree(name) if "/" in name else None
    if inside:
        return None  # a file of the repository: a rule of paths
    path = facts.program(posixpath.basename(name))
    if path is None and name in _NODE_MANAGERS and facts.program("npm"):
        return Cause("missing-program", f"{name} is not installed on this machine", shell=f"npm install -g {name}")
    if (
        path is None
        and facts.has_path("package.json")
        and re.search(r"\b(?:npm|npx|pnpm|yarn)\b", failure.command)
    ):
        install = install_line(facts)
        return Cause("missing-node-module", f"{name} is not installed in node_modules", shell=install)
    if path is None:
        return Cause(
            "missing-program",
            f"{name} is not installed on this machine, or not where your shell looks for programs",
            shell=PackageInstaller(facts).program_line(posixpath.basename(name)),
            advice=f"install {name} so that `{shlex.quote(name)} --version` works in your shell, or correct the "
            "command",
        )
    if facts.is_shown(path):
        return None
    folder = posixpath.dirname(path)
    if not path.startswith("/"):
        # Of the working tree: an environment that git ignores, as node_modules/.bin or .venv/bin.
        environment = facts.outermost_ignored(path) or folder
        return Cause(
            "program-in-ignored-environment",
            f"{name} is in {environment}, which git ignores, so trials do not see it",
            (
                failure.setting_with("mounts", environment),
                failure.own_setting("command", f'export PATH="$PWD/{folder}:$PATH"; {failure.command}'),
            ),
        )
    if posixpath.basename(name) in _RUST and (home := _rust_home(folder)):
        return Cause(
            "program-outside-the-sandbox",
            f"{name} is in {folder}, which trials do not see",
            (
                failure.setting_with("mounts", *_rust_folders(home, facts)),
                failure.own_setting(
                    "command",
                    f"export PATH={shlex.quote(folder)}:$PATH RUSTUP_HOME={shlex.quote(home)}/.rustup "
                    f"CARGO_HOME={shlex.quote(home)}/.cargo CARGO_NET_OFFLINE=true; {failure.command}",
                ),
            ),
            reach=Reach.TOOLCHAIN,
        )
    prefix = posixpath.dirname(folder) if posixpath.basename(folder) in ("bin", "sbin") else folder
    return Cause(
        "program-outside-the-sandbox",
        f"{name} is in {folder}, which trials do not see",
        (
            failure.setting_with("mounts", prefix),
            failure.own_setting("command", f"export PATH={shlex.quote(folder)}:$PATH; {failure.command}"),
        ),
        reach=Reach.TOOLCHAIN,
    )


def missing_rust_toolchain(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Programs of Rust that are rustup's, and have no toolchain behind them."""
    if not failure.match(r"rustup could not choose a version of (\w+) to run"):
        return None
    return Cause("missing-toolchain", "rustup has no toolchain on this machine", shell="rustup default stable")


def missing_perl_module(failure: Failure, facts: HostFacts) -> Cause | None:
    """Modules of Perl that are not installed."""
    if not failure.match(*_PERL):
        return None
    found = [name for pattern in _PERL for name in re.findall(pattern, f"{failure.text}\n{failure.output}")]
    names = list(dict.fromkeys(name.replace("/", "::") for name in found))[:_MOST_MODULES]
    modules = f"modules {', '.join(names)} are" if len(names) > 1 else f"module {names[0]} is"
    sentence, line = f"the Perl {modules} not installed", f"cpan -T {' '.join(names)}"
    if not (facts.program("apt-get") and facts.program("perl") == "/usr/bin/perl"):
        return Cause("missing-perl-module", sentence, shell=line)
    known = (facts.system_package(*_perl_packages(name)) for name in names)
    if not (packages := " ".join(dict.fromkeys(filter(None, known)))):
        return Cause("missing-perl-module", sentence, shell=line)
    install = PackageInstaller(facts).install_line((packages, "", "", ""))
    return Cause("missing-perl-module", sentence, shell=install, advice=f"or: {line}")


def _perl_packages(module: str) -> list[str]:
    """What Debian may call the package of a module: a part of a distribution is in the package of the whole."""
    parts = module.lower().split("::")
    return [f"lib{'-'.join(parts[:count])}-perl" for count in range(len(parts), 0, -1)]


def no_permission(failure: Failure, facts: HostFacts) -> Cause | None:
    """A file of the repository that is run without being executable."""
    found = failure.match(*_DENIED)
    path = path_in_tree(found["name"]) if found else None
    if path is None or not facts.has_path(path) or facts.is_executable(path):
        return None
    quoted = shlex.quote(path)
    return Cause(
        "not-executable", f"{path} is run as a program, and git has it as a plain file", shell=f"chmod +x {quoted}"
    )


def _rust_folders(home: str, facts: HostFacts) -> list[str]:
    """Without the rest of ~/.cargo, which has the user's credentials."""
    folders = (f"{home}/.cargo/bin", f"{home}/.cargo/registry", f"{home}/.rustup")
    return [folder for folder in folders if facts.has_path(folder)]


def _missing_node_program(name: str, facts: HostFacts) -> Cause:
    package = _NODE_PACKAGES.get(name, name)
    install = install_line(facts) if facts.has_path("package.json") else f"npm install --no-save {package}"
    return Cause("missing-node-module", f"{name} is not installed in node_modules", shell=install)


def _rust_home(folder: str) -> str | None:
    return folder.removesuffix("/.cargo/bin") if folder.endswith("/.cargo/bin") else None
