"""Repositories from Debian's development packages: the whole source of a crate or of a module of Go.

Debian installs the crates that others depend on in one folder, which cargo reads in place of crates.io; the
repository names it in `.cargo/config.toml`, as Debian's own builds do.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from wild_preparation import PreparationError, run_bounded

REGISTRY = "Debian development"
_CRATES = "/usr/share/cargo/registry"
_MOST_CRATES = 20
_CONFIG = f"""[source.crates-io]
replace-with = "debian"

[source.debian]
directory = "{_CRATES}"
"""
_INSTALL = "apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends"


def fetch_development(name: str, folder: Path) -> Path:
    """The package, from the cache or the registry."""
    if not (found := sorted(folder.glob("*.deb"))):
        run_bounded(f"apt-get download {name}", folder)
        found = sorted(folder.glob("*.deb"))
    return found[0]


def development_version(package: Path) -> str:
    return package.name.split("_")[1].rsplit("-", 1)[0]


def unpack_development(package: Path, checkout: Path) -> None:
    """Unpack the source alone: the one crate, or the folder of the module of Go."""
    unpacked = checkout.parent / "unpacked"
    subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
    crates = list(unpacked.glob(f"{_CRATES.lstrip('/')}/*/Cargo.toml"))
    modules = unpacked / "usr/share/gocode/src"
    if crates:
        shutil.copytree(crates[0].parent, checkout, symlinks=True)
        (checkout / ".cargo").mkdir(exist_ok=True)
        (checkout / ".cargo/config.toml").write_text(_CONFIG)
        (checkout / ".cargo-checksum.json").unlink(missing_ok=True)
    elif modules.exists():
        top = modules
        while len(inside := list(top.iterdir())) == 1 and inside[0].is_dir() and not inside[0].is_symlink():
            top = inside[0]
        shutil.copytree(top, checkout, symlinks=True)
        if not (checkout / "go.mod").exists():
            (checkout / "go.mod").write_text(f"module {top.relative_to(modules)}\n\ngo 1.19\n")
    else:
        raise PreparationError("the package holds no source")
    shutil.rmtree(unpacked)


def install_crates(checkout: Path) -> None:
    """Install the crates that this one and its tests depend on; cargo says which are still missing."""
    manifest: dict[str, Any] = tomllib.loads((checkout / "Cargo.toml").read_text())
    tables = [manifest, *manifest.get("target", {}).values()]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    crates = {
        item.get("package", name) if isinstance(item, dict) else name
        for table in tables
        for kind in kinds
        for name, item in table.get(kind, {}).items()
    }
    for crate in sorted(crates):
        with contextlib.suppress(PreparationError):
            _install(crate, checkout)
    for _ in range(_MOST_CRATES):  # what those depend on in turn, by a feature that Debian leaves out
        try:
            run_bounded("cargo fetch", checkout)
        except PreparationError as error:
            if not (missing := re.search(r"no matching package named `([\w-]+)` found", str(error))):
                return
            try:
                _install(missing[1], checkout)
            except PreparationError:
                return
        else:
            return


def _install(crate: str, checkout: Path) -> None:
    run_bounded(f"{_INSTALL} librust-{crate.replace('_', '-').lower()}-dev", checkout)
