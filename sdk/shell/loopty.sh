# The functions with which a benchmark in POSIX sh reports to loopty. Source it: . loopty.sh
# They run in subshells, so that they leave no variables behind; on failure they print the reason and return 1.
# shellcheck shell=sh

loopty_started_at=$(date -u +%Y-%m-%dT%H:%M:%S+00:00)

# loopty_report STEP NAME=VALUE...: add one row to the learning curve; every row needs the same names.
loopty_report() (
    step=$1
    shift
    case $step in
        '' | *[!0-9]*) _loopty_fail "step must be a whole number, not '$step'" ;;
    esac
    [ $# -gt 0 ] || _loopty_fail "a row needs at least one metric, as in: loopty_report 3 accuracy=0.9"
    header=iteration
    row=$step
    for pair in "$@"; do
        name=${pair%=*}
        case $pair in
            *=*) ;;
            *) _loopty_fail "'$pair' is not of the form NAME=VALUE" ;;
        esac
        case $name in
            '' | iteration | *"$_loopty_newline"*) _loopty_fail "a metric cannot be called '$name'" ;;
            *[\",]*) name=\"$(printf '%s\n' "$name" | sed 's/"/""/g')\" ;;
        esac
        value=$(_loopty_finite "${pair##*=}" "metric '$name'") || exit 1
        header=$header,$name
        row=$row,$value
    done
    [ -n "${LOOPTY_METRICS_CSV:-}" ] || exit 0
    if [ -s "$LOOPTY_METRICS_CSV" ]; then
        IFS= read -r first <"$LOOPTY_METRICS_CSV" || _loopty_fail "the header of $LOOPTY_METRICS_CSV is cut short"
        [ "$first" = "$header" ] ||
            _loopty_fail "this row has the columns '$header', the header has '$first': report the same in every step"
        printf '%s\n' "$row" >>"$LOOPTY_METRICS_CSV"
    else
        printf '%s\n%s\n' "$header" "$row" >>"$LOOPTY_METRICS_CSV"
    fi
)

# loopty_should_stop: succeed when the trial should end early; it is killed after a grace period.
loopty_should_stop() {
    [ -n "${LOOPTY_STOP_PATH:-}" ] && [ -e "$LOOPTY_STOP_PATH" ]
}

# loopty_param NAME [DEFAULT]: print a parameter that is a string, a number, true, false or null.
loopty_param() (
    [ -n "${LOOPTY_PARAMS:-}" ] || LOOPTY_PARAMS=/dev/null
    value=$(LC_ALL=C _loopty_name=$1 awk "$_loopty_lookup" "$LOOPTY_PARAMS") && code=0 || code=$?
    case $code in
        0) printf '%s\n' "$value" ;;
        3)
            [ $# -gt 1 ] || _loopty_fail "there is no parameter '$1' and no default"
            printf '%s\n' "$2"
            ;;
        *) _loopty_fail "parameter '$1' in $LOOPTY_PARAMS cannot be read from sh: use the Python or Node SDK" ;;
    esac
)

# loopty_finish SCORE: publish the result, once.
loopty_finish() (
    score=$(_loopty_finite "${1-}" "the score") || exit 1
    ended_at=$(date -u +%Y-%m-%dT%H:%M:%S+00:00)
    result="{\"score\": $score, \"tasks\": {}, \"started_at\": \"$loopty_started_at\", \"ended_at\": \"$ended_at\"}"
    if [ -z "${EVO_RESULT_PATH:-}" ]; then
        printf '%s\n' "$result"
        exit
    fi
    # noclobber creates the file exclusively; a crash between this claim and the rename leaves it empty.
    set -C
    (: >"$EVO_RESULT_PATH") 2>/dev/null ||
        _loopty_fail "$EVO_RESULT_PATH cannot be claimed: a trial has one result, so finish once"
    (printf '%s\n' "$result" >"$EVO_RESULT_PATH.tmp") || _loopty_fail "$EVO_RESULT_PATH.tmp cannot be written"
    mv -f "$EVO_RESULT_PATH.tmp" "$EVO_RESULT_PATH"
)

_loopty_newline='
'

_loopty_fail() {
    printf 'loopty: %s\n' "$1" >&2
    exit 1
}

# Print the number in JSON's form: bc writes .5 for 0.5.
_loopty_finite() {
    _loopty_number=$(printf '%s\n' "$1" | sed 's/^\(-\{0,1\}\)\./\10./')
    case $_loopty_number in
        *"$_loopty_newline"*) _loopty_fail "$2 must be a finite number, not '$1'" ;;
    esac
    printf '%s\n' "$_loopty_number" | grep -Eqx -e '-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?' &&
        LC_ALL=C awk 'BEGIN { v = ARGV[1] + 0; exit v > 1.7976931348623157e308 || v < -1.7976931348623157e308 }' \
            "$_loopty_number" || _loopty_fail "$2 must be a finite number, not '$1'"
    printf '%s\n' "$_loopty_number"
}

# Walks the tokens of one JSON object. Exit 0: printed; 3: no such name; 1: nested or escaped, which sh cannot show.
_loopty_lookup='
{ text = text $0 "\n" }
END {
    while (match(text, /"([^"\\]|\\.)*"|[][{}:,]|[^][{}:," \t\r\n]+/)) {
        token = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (depth == 1 && before == ":" && key == ENVIRON["_loopty_name"]) {
            if (token == "{" || token == "[" || token ~ /^"/ && !unquote(token)) exit 1
            print token ~ /^"/ ? unquoted : token
            exit 0
        }
        if (depth == 1 && (before == "{" || before == ",")) key = substr(token, 2, length(token) - 2)
        if (token == "{" || token == "[") depth++
        if (token == "}" || token == "]") depth--
        before = token
    }
    exit 3
}
function unquote(quoted,   rest, at, code) {
    rest = substr(quoted, 2, length(quoted) - 2); unquoted = ""
    while (at = index(rest, "\\")) {
        code = substr(rest, at + 1, 1)
        unquoted = unquoted substr(rest, 1, at - 1)
        if (code == "n") unquoted = unquoted "\n"
        else if (code == "t") unquoted = unquoted "\t"
        else if (code == "r") unquoted = unquoted "\r"
        else if (index("\"\\/", code)) unquoted = unquoted code
        else return 0
        rest = substr(rest, at + 2)
    }
    unquoted = unquoted rest
    return 1
}'
