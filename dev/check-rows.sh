#!/bin/sh
# Each row of a settings.def or stats.def must be used by code of its folder: a setting that is read and never obeyed, or a
# figure that is never counted, is a promise not kept. Prints the rows that are not; exits 1 when there is any.
set -eu
cd "$(dirname "$0")/.."

# Rows as "NAME MEMBER", the member being what code calls it by (times end in _ms, sizes in _bytes).
rows() {
    sed -nE 's/^[A-Z]+\(([a-z0-9_]+), *([A-Z]+),.*/\1 \2/p' "$1" |
        awk '{ print $1, $1 ($2 == "TIME" ? "_ms" : $2 == "SIZE" ? "_bytes" : "") }'
}

status=0
for table in $(git ls-files --cached --others --exclude-standard -- '*settings.def' '*stats.def'); do
    folder=$(dirname "$table")
    case $table in
    *settings.def) pattern='(\.|->)MEMBER([^a-z0-9_]|$)|"NAME"' ;;
    # Or a column of another table tells which figure a row counts in.
    *) pattern='(^|[^a-z0-9])[A-Z_]*STAT_NAME([^a-z0-9_]|$)|"NAME"|^[A-Z]+\(.*, *NAME *,' ;;
    esac
    used=$(mktemp)
    cat "$folder"/*.[ch] >"$used"
    find "$folder" -maxdepth 1 -name '*.def' ! -path "$table" -exec cat {} + >>"$used"
    rows "$table" | while read -r name member; do
        wanted=$(printf '%s' "$pattern" | sed "s/NAME/$name/g; s/MEMBER/$member/g")
        grep -qE "$wanted" "$used" || echo "$table: $name: no code of $folder/ uses it"
    done >"$used.unused"
    if [ -s "$used.unused" ]; then
        cat "$used.unused"
        status=1
    fi
    rm -f "$used" "$used.unused"
done
exit $status
