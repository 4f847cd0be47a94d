#!/bin/sh
# Rent a machine through SkyPilot, run a loopty system worker there, and give the machine back.
#
#   uv tool install 'skypilot[aws]'   # an environment of its own, with the names of your clouds
#   loopty system worker --recipe sky > ~/loopty-sky.sh
#
# In loopty.toml, with the options of your machines as `sky launch` takes them:
#
#   [executor]
#   kind = "pool"
#   listen = "0.0.0.0:7700"   # a port of this machine that the rented ones reach by its name
#   start = "sh ~/loopty-sky.sh --infra aws --gpus H100:1 --use-spot"
#   workers = 4
#   wait_seconds = 3600       # a machine takes minutes to come
#
# Set the two values below.
#
# Nothing rented stays. When the session ends, the machine is given back. When the driver was killed, the worker ends
# after two minutes, and after its time limit in any case. A machine without a worker ends itself after five minutes,
# also if this script was killed.
#
# NEVER RUN ON A RENTED MACHINE. SkyPilot's own parser reads the task, and no more was tested. Watch `sky status` the
# first time.

install='@INSTALL@' # what pip installs there, in the driver's version: git+https://HOST/loopty, a wheel
minutes=600

: "${install:?say in this file what pip installs on the rented machine}"
name="loopty-$LOOPTY_WORKER_NUMBER-$$"
task=$(mktemp "${TMPDIR:-/tmp}/loopty-sky-XXXXXX.yaml")

give_back() {
    kill $! 2>/dev/null
    sky down --yes "$name" >/dev/null 2>&1
    rm -f "$task"
}
trap give_back EXIT
trap 'exit 143' TERM INT HUP

cat >"$task" <<END
name: loopty-worker
resources:
  autostop:
    idle_minutes: 5
    down: true
setup: |
  command -v bwrap >/dev/null || sudo apt-get install -y bubblewrap || true
  pip install '$install'
run: timeout ${minutes}m loopty system worker --trust --patience 120
END
sky launch --yes --cluster "$name" --secret LOOPTY_WORKER_URL "$@" "$task" &
wait $!
