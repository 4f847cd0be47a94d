"""Runs a command in a private, writable copy of the tree, for builds that write beside their sources."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

# Environments and scratch directories at the top of the tree are linked: they would take long to copy, or are for
# writing. Times are kept, because build tools compare them. Without namespaces, changed directories of a node are
# links, and may hold others; they become copies. Of node_modules each package is linked, because test runners and
# compilers of JavaScript keep what they have compiled in node_modules/.cache.
_SCRIPT = """set -e
tree="${TMPDIR:?}/tree" linked=":$1:" has_links="$2"
shift 2
mkdir "$tree"
for name in * .[!.]* ..?*; do
    [ -e "$name" ] || [ -L "$name" ] || continue
    case "$linked" in
        *":$name:"*) ;;
        *) cp -a -- "$name" "$tree/" ;;
    esac
done
for _ in $has_links; do
    find "$tree" -type l -lname "/*" -exec sh -c '
        for link; do
            [ ! -e "$link" ] || { cp -aH -- "$link" "$link~" && rm -- "$link" && mv -- "$link~" "$link"; }
        done' copy {} +
done
for name in * .[!.]* ..?*; do
    case "$linked" in
        *":$name:"*)
            if [ "$name" = node_modules ]; then
                mkdir "$tree/$name"
                find -H "$PWD/$name" -mindepth 1 -maxdepth 1 ! -name .cache -exec ln -s -t "$tree/$name" -- {} +
            else
                ln -s "$PWD/$name" "$tree/$name"
            fi ;;
    esac
done
cd "$tree"
export EVO_WORKTREE="$tree"
exec "$@"
"""


def in_writable_copy(
    argv: tuple[str, ...], top: str, linked: Iterable[str], has_links: bool = False
) -> tuple[str, ...]:
    """The command that copies the tree at `top` and runs there; paths of `linked` directly below it are linked.

    `has_links`: whether changed directories of the tree are links.
    """
    names = sorted({PurePosixPath(path).name for path in linked if str(PurePosixPath(path).parent) == top})
    return ("/bin/sh", "-c", _SCRIPT, "copy", ":".join(names), "1 2 3" if has_links else "", *argv)
