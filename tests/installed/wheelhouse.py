"""Wheels of what is installed here, so that pip and set-up do all they do for a user without asking an index."""

import base64
import hashlib
import importlib.metadata
import re
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path


def make_wheels(names: Iterable[str], into: Path) -> dict[str, Path]:
    """Pack the installed packages of these names again."""
    into.mkdir()
    return {name: _pack(importlib.metadata.distribution(name), into) for name in names}


def _pack(package: importlib.metadata.Distribution, into: Path) -> Path:
    tags = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)
    name = package.name.replace("-", "_")
    wheel = into / f"{name}-{package.version}-{tags[-1]}.whl"
    lines = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in package.files or ():
            # Scripts and byte code are made by pip; what pip noted is not of the wheel.
            if file.parts[0] == ".." or file.suffix == ".pyc" or file.name in ("INSTALLER", "REQUESTED", "RECORD"):
                continue
            path = Path(str(file.locate()))
            entry = zipfile.ZipInfo(str(file))
            entry.external_attr = (stat.S_IFREG | stat.S_IMODE(path.stat().st_mode)) << 16
            content = path.read_bytes()
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{file},sha256={digest},{len(content)}\n")
        record = f"{name}-{package.version}.dist-info/RECORD"
        archive.writestr(record, "".join(lines) + f"{record},,\n")
    return wheel


def pin(lock: Path, wheels: dict[str, Path]) -> None:
    """Write the hashes of these wheels into a lock file, in place of those of the index."""
    text = lock.read_text()
    for name, wheel in wheels.items():
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        text = re.sub(
            rf"^({re.escape(name)}==\S+)(?:.*\\\n)(?: +--hash=\S+(?: \\)?\n)+",
            rf"\1 \\\n    --hash=sha256:{digest}\n",
            text,
            flags=re.MULTILINE,
        )
    lock.write_text(text)
