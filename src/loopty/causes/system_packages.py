"""The line that installs a package of this machine's distribution, and what each distribution calls it."""

from __future__ import annotations

import re

from loopty.causes.host_facts import HostFacts
from loopty.kit.records import Record

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
    r"randr|xrandr|xinerama|xkb|xcursor|xinput": (
        "xorg-dev",
        "libXrandr-devel libXinerama-devel libXcursor-devel libXi-devel",
        "libxrandr-dev libxinerama-dev libxcursor-dev libxi-dev",
        "libxrandr libxinerama libxcursor libxi",
    ),
    r"R|Rinternals|Rmath": ("r-base-dev", "R-devel", "R-dev", "r"),
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
    "redis-server": ("redis-server", "redis", "redis", "redis"),
    "memcached": ("memcached",) * 4,
    **dict.fromkeys(("R", "Rscript"), ("r-base-dev", "R", "R", "r")),
    "runtest": ("dejagnu",) * 4,
    "tclsh": ("tcl",) * 4,
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
        """The line that installs these packages; empty where no package manager is known, or it has none."""
        as_root = "sudo " if self.facts.program("sudo") else ""
        for tool, (words, column) in _MANAGERS.items():
            if names[column] and self.facts.program(tool):
                return f"{as_root}{words} {names[column]}"
        return ""

    def library_line(self, name: str) -> str:
        """The line that installs the files for builds of a library; empty where none is known."""
        known = next((LIBRARIES[key] for key in LIBRARIES if re.fullmatch(key, name, re.IGNORECASE)), None)
        if known is None:
            plain = name.lower().removeprefix("lib")
            known = self._own_names(f"lib{plain}-dev", f"{plain}-dev")
        return self.install_line(known) if known else ""

    def program_line(self, name: str) -> str:
        """The line that installs a program; empty where none is known."""
        known = PROGRAMS.get(re.sub(r"-[\d.]+$", "", name)) or self._own_names(name)
        return self.install_line(known) if known else ""

    def _own_names(self, *names: str) -> Names | None:
        """A package that only Debian was asked about."""
        found = self.facts.system_package(*names) if self.facts.program("apt-get") else None
        return (found, "", "", "") if found else None
