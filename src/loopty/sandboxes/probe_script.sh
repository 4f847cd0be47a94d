# The attempts that need no Python. The probe runs this where Python is missing; it prints lines as probe_script.py does.
. ./facts.sh
echo tried read
[ "$(cat "$secret" 2>/dev/null)" = loopty-secret ] && echo did read
echo tried write
(echo changed >>"$outside") 2>/dev/null
echo tried mode
chmod 640 "$outside" 2>/dev/null
echo tried see
grep -q loopty-decoy "/proc/$decoy/cmdline" 2>/dev/null && echo did see
echo tried signal
kill "$decoy" 2>/dev/null
echo tried daemon
(sh -c 'trap "" TERM HUP; sleep 60; :' "$1" >/dev/null 2>&1 </dev/null &)
exit 0
