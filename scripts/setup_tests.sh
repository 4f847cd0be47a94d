#!/bin/sh
# Install what only the tests need, where this user may: a C compiler, valgrind, Node, podman, PostgreSQL, sshd, and a browser. What is
# still missing afterwards is skipped by the tests that need it, and they say so.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

want() { # want PROGRAM PACKAGE…
    program=$1
    shift
    command -v "$program" >/dev/null && return
    say "installing $*"
    install_packages "$@" || say "$program is missing and could not be installed: its tests are skipped"
}

want cc gcc libc6-dev
want valgrind valgrind
want node nodejs
want chromium chromium
[ -x /usr/sbin/sshd ] || want sshd openssh-server # not on the path of every user
if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    say "installing postgresql"
    name=postgresql
    command -v dnf >/dev/null && name=postgresql-server # where the server is a package of its own
    install_packages "$name" || say "PostgreSQL is missing and could not be installed: its tests are skipped"
fi
if command -v apt-get >/dev/null; then
    want podman podman catatonit runc # the init and the runtime are packages of their own here
    want runc runc
    [ -e /usr/libexec/podman/catatonit ] || install_packages catatonit || true
else
    want podman podman
fi
touch .venv/.ready-for-tests
