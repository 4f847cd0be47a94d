"""Causes: a program that the trial does not find, or may not run; and the line that installs its package."""

from __future__ import annotations

import posixpath
import re
import shlex

from loopty.features.setup.causes.failure import Failure, HostFacts, path_in_tree
from loopty.features.setup.causes.modules import install_line
from loopty.kit.records import Record
from loopty.show.explanation import Cause, Reach

_MANAGERS = {
    "apt-get": ("apt-get install -y", 0),
    "dnf": ("dnf install -y", 1),
    "zypper": ("zypper install -y", 1),
    "apk": ("apk add", 2),
    "pacman": ("pacman -S --noconfirm", 3),
}
"""How each package manager installs, and whose names of packages it knows."""

Names = tuple[str, str, str, str]
"""What Debian, Fedora, Alpine and Arch call the packages of one thing; empty where they have none."""

LIBRARIES: dict[str, Names] = {
    r"gtest|gmock|googletest": ("libgtest-dev libgmock-dev", "gtest-devel gmock-devel", "gtest-dev", "gtest"),
    r"benchmark": ("libbenchmark-dev", "google-benchmark-devel", "benchmark-dev", "benchmark"),
    r"catch2?": ("catch2", "catch-devel", "catch2", "catch2"),
    r"doctest": ("doctest-dev", "doctest-devel", "doctest-dev", "doctest"),
    r"boost\w*": ("libboost-all-dev", "boost-devel", "boost-dev", "boost"),
    r"cppunit": ("libcppunit-dev", "cppunit-devel", "cppunit-dev", "cppunit"),
    r"cunit": ("libcunit1-dev", "CUnit-devel", "cunit-dev", "cunit"),
    r"cmocka": ("libcmocka-dev", "libcmocka-devel", "cmocka-dev", "cmocka"),
    r"check": ("check", "check-devel", "check-dev", "check"),
    r"criterion": ("libcriterion-dev", "criterion-devel", "", "criterion"),
    r"glib(?:-2\.0)?": ("libglib2.0-dev", "glib2-devel", "glib-dev", "glib2"),
    r"curl|libcurl": ("libcurl4-openssl-dev", "libcurl-devel", "curl-dev", "curl"),
    r"zlib": ("zlib1g-dev", "zlib-devel", "zlib-dev", "zlib"),
    r"bzip2|bzlib": ("libbz2-dev", "bzip2-devel", "bzip2-dev", "bzip2"),
    r"lzma|liblzma": ("liblzma-dev", "xz-devel", "xz-dev", "xz"),
    r"zstd|libzstd": ("libzstd-dev", "libzstd-devel", "zstd-dev", "zstd"),
    r"lz4|liblz4": ("liblz4-dev", "lz4-devel", "lz4-dev", "lz4"),
    r"png|libpng": ("libpng-dev", "libpng-devel", "libpng-dev", "libpng"),
    r"jpeg|libjpeg": ("libjpeg-dev", "libjpeg-turbo-devel", "libjpeg-turbo-dev", "libjpeg-turbo"),
    r"tiff|libtiff": ("libtiff-dev", "libtiff-devel", "tiff-dev", "libtiff"),
    r"openssl|libssl|libcrypto": ("libssl-dev", "openssl-devel", "openssl-dev", "openssl"),
    r"expat": ("libexpat1-dev", "expat-devel", "expat-dev", "expat"),
    r"libxml-?2|libxml": ("libxml2-dev", "libxml2-devel", "libxml2-dev", "libxml2"),
    r"readline": ("libreadline-dev", "readline-devel", "readline-dev", "readline"),
    r"n?curses\w*": ("libncurses-dev", "ncurses-devel", "ncurses-dev", "ncurses"),
    r"gmp": ("libgmp-dev", "gmp-devel", "gmp-dev", "gmp"),
    r"libevent|event2?": ("libevent-dev", "libevent-devel", "libevent-dev", "libevent"),
    r"eigen3?": ("libeigen3-dev", "eigen3-devel", "eigen-dev", "eigen"),
    r"fftw3?f?": ("libfftw3-dev", "fftw-devel", "fftw-dev", "fftw"),
    r"sndfile": ("libsndfile1-dev", "libsndfile-devel", "libsndfile-dev", "libsndfile"),
    r"x11|xorg": ("xorg-dev", "libX11-devel libXrandr-devel", "libx11-dev libxrandr-dev", "libx11 libxrandr"),
    r"protobuf|protoc": (
        "libprotobuf-dev libprotoc-dev protobuf-compiler",
        "protobuf-devel protobuf-compiler",
        "protobuf-dev protoc",
        "protobuf",
    ),
    r"opengl|gl": ("libgl1-mesa-dev", "mesa-libGL-devel", "mesa-dev", "mesa"),
}
"""Libraries as CMake, pkg-config and headers name them."""
_AUTOTOOLS = ("autoconf automake libtool",) * 4
_NINJA = ("ninja-build", "ninja-build", "ninja", "ninja")
PROGRAMS: dict[str, Names] = {
    **dict.fromkeys(("autoreconf", "autoconf", "autoheader", "aclocal", "automake", "libtoolize"), _AUTOTOOLS),
    **dict.fromkeys(("cmake", "ctest"), ("cmake",) * 4),
    "meson": ("meson ninja-build", "meson ninja-build", "meson ninja", "meson ninja"),
    "ninja": _NINJA,
    **{name: (name,) * 4 for name in ("bison", "flex", "help2man", "gperf", "nasm", "yasm", "pandoc", "valgrind")},
    "makeinfo": ("texinfo",) * 4,
    **dict.fromkeys(("go", "gofmt"), ("golang-go", "golang", "go", "go")),
    **dict.fromkeys(("cargo", "rustc"), ("cargo", "cargo", "cargo", "rust")),
    **dict.fromkeys(("node", "npm"), ("nodejs npm", "nodejs npm", "nodejs npm", "nodejs npm")),
    "pkg-config": ("pkg-config", "pkgconf", "pkgconf", "pkgconf"),
    **dict.fromkeys(
        ("gcc", "cc", "g++", "c++", "make"), ("build-essential", "gcc-c++ make", "build-base", "base-devel")
    ),
}
"""Programs that builds and tests call."""


def is_known_library(name: str) -> bool:
    return any(re.fullmatch(key, name, re.IGNORECASE) for key in LIBRARIES)


class PackageInstaller(Record):
    """The package manager of a machine."""

    facts: HostFacts

    def install_line(self, names: Names) -> str:
        """Write the line that installs these packages; empty if no package manager is known, or it has none."""
        as_root = "sudo " if self.facts.program("sudo") else ""
        for tool, (words, column) in _MANAGERS.items():
            if names[column] and self.facts.program(tool):
                return f"{as_root}{words} {names[column]}"
        return ""

    def library_line(self, name: str) -> str:
        """Write the line that installs the files for builds of a library; empty if none is known."""
        known = next((LIBRARIES[key] for key in LIBRARIES if re.fullmatch(key, name, re.IGNORECASE)), None)
        if known is None:
            plain = name.lower().removeprefix("lib")
            known = self._own_names(f"lib{plain}-dev", f"{plain}-dev")
        return self.install_line(known) if known else ""

    def program_line(self, name: str) -> str:
        """Write the line that installs a program; empty if none is known."""
        known = PROGRAMS.get(re.sub(r"-[\d.]+$", "", name)) or self._own_names(name)
        return self.install_line(known) if known else ""

    def _own_names(self, *names: str) -> Names | None:
        """Return the names of a package that only Debian was asked about."""
        found = self.facts.system_package(*names) if self.facts.program("apt-get") else None
        return (found, "", "", "") if found else None


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


def missing_program(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a program of the user's shell that is outside of what trials see, or is not installed."""
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
    """Explain programs of Rust that are rustup's, and have no toolchain behind them."""
    if not failure.match(r"rustup could not choose a version of (\w+) to run"):
        return None
    return Cause("missing-toolchain", "rustup has no toolchain on this machine", shell="rustup default stable")


def no_permission(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a file of the repository that is run without being executable."""
    found = failure.match(*_DENIED)
    path = path_in_tree(found["name"]) if found else None
    if path is None or not facts.has_path(path) or facts.is_executable(path):
        return None
    quoted = shlex.quote(path)
    return Cause(
        "not-executable", f"{path} is run as a program, and git has it as a plain file", shell=f"chmod +x {quoted}"
    )


def _rust_folders(home: str, facts: HostFacts) -> list[str]:
    """List Rust's folders without the rest of ~/.cargo, which has the user's credentials."""
    folders = (f"{home}/.cargo/bin", f"{home}/.cargo/registry", f"{home}/.rustup")
    return [folder for folder in folders if facts.has_path(folder)]


def _missing_node_program(name: str, facts: HostFacts) -> Cause:
    package = _NODE_PACKAGES.get(name, name)
    install = install_line(facts) if facts.has_path("package.json") else f"npm install --no-save {package}"
    return Cause("missing-node-module", f"{name} is not installed in node_modules", shell=install)


def _rust_home(folder: str) -> str | None:
    return folder.removesuffix("/.cargo/bin") if folder.endswith("/.cargo/bin") else None
