# Shell functions that make .venv; sourced by the set-up scripts, after packages.sh.

needed_mb=100 # what .venv takes without extras, and the build of the page

newest_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    say 'loopty needs Python 3.11 or newer: install it, or set PYTHON=… to its path'
    exit 1
}

# lock_file PATH: hold its lock until this process and its children have ended; fails where another holds it.
lock_file() {
    mkdir -p "$(dirname "$1")"
    exec 9>"$1"
    "$(newest_python)" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null
}

# begin_setup STAMP FILE…: wait for another set-up; the script ends here if that one left nothing to do.
begin_setup() {
    started_at=$(date +%s)
    if ! lock_file build/setup.lock; then
        say 'another set-up of this clone is running: waiting for it'
        until lock_file build/setup.lock; do sleep 1; done
    fi
    stamp=$1
    shift
    [ -e "$stamp" ] && [ $# -gt 0 ] || return 0
    for file in "$@"; do
        [ ! "$file" -nt "$stamp" ] || return 0
    done
    exit 0
}

# end_setup STAMP: say what was made, and note that it is complete.
end_setup() {
    say "ready after $(($(date +%s) - started_at)) s: .venv has $(du -sm .venv | cut -f 1) MB"
    touch "$1"
}

# make_venv: an environment that was left incomplete is made anew, because pip would take its halves for whole.
make_venv() {
    if [ -e .venv/.incomplete ]; then
        say 'the last set-up did not finish: making .venv anew'
        rm -rf .venv
    fi
    if .venv/bin/python -m pip --version >/dev/null 2>&1; then return; fi
    python=$(newest_python)
    free=$(df -Pm . | awk 'NR == 2 { print $4 }')
    if [ "${free:-$needed_mb}" -lt "$needed_mb" ]; then
        say "set-up needs $needed_mb MB, and the disk of this folder has $free MB left: make room, then run the same command again"
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say 'this Python has no venv module: installing it'
        install_packages python3-venv || { say 'python3-venv could not be installed: install it, then try again'; exit 1; }
    fi
    say "creating .venv with $("$python" --version)"
    rm -rf .venv
    mkdir .venv
    : >.venv/.incomplete
    failure=$("$python" -m venv .venv 2>&1) || {
        say ".venv could not be made: $(printf '%s' "$failure" | tail -n 1)"
        exit 1
    }
}

# install_locked FILE: the packages that it pins, and loopty itself from this clone.
install_locked() {
    count=$(grep -c '^[^ #].*==' "$1")
    say "installing the $count packages of $1"
    : >.venv/.incomplete
    pip_install --require-hashes -r "$1"
    export LOOPTY_WITHOUT_PAGE=1 # pip would hide why it cannot be built: scripts/page.py says it
    pip_install --no-build-isolation --no-deps --editable .
    rm .venv/.incomplete
}

pip_install() {
    failed=build/setup.failed
    rm -f "$failed"
    { .venv/bin/python -m pip install --disable-pip-version-check --root-user-action=ignore --progress-bar off "$@" ||
        : >"$failed"; } | show_packages
    [ -e "$failed" ] || return 0
    rm -f "$failed"
    say 'the packages could not be installed; pip says why above. Without a network, connect first;' \
        'PIP_INDEX_URL names a mirror. Then run the same command again.'
    exit 1
}

# show_packages: of what pip prints, a line for each package, as it arrives.
show_packages() {
    number=0
    while IFS= read -r line; do
        case $line in
        *.metadata*) ;;
        'Requirement already satisfied'* | 'Processing '*) number=$((number + 1)) ;;
        '  Downloading '* | '  Using cached '*)
            number=$((number + 1))
            line=${line##*/}
            line=${line#*Downloading }
            say "  $number of $count: ${line#*Using cached }" ;;
        'Installing collected packages'*) say "  unpacking${line#*packages}" ;;
        esac
    done
}
