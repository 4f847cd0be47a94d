# Shell functions that install system packages where this user may; sourced by the set-up scripts.

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=120 "$@"
}

# install_packages NAME…: with whichever package manager there is; fails where there is none or it refuses.
install_packages() {
    if command -v apt-get >/dev/null; then
        apt_install "$@" >/dev/null 2>&1 || {
            # An installation that was killed is completed first; the lists of packages may be old or missing.
            as_root dpkg --configure -a && as_root apt-get update -qq && apt_install "$@"
        } >/dev/null
    elif command -v dnf >/dev/null; then as_root dnf install -y -q "$@"
    elif command -v pacman >/dev/null; then as_root pacman -S --noconfirm "$@"
    elif command -v apk >/dev/null; then as_root apk add -q "$@"
    elif command -v zypper >/dev/null; then as_root zypper -nq install "$@"
    else return 1
    fi
}
