#!/usr/bin/env bash
# Runs the checks of CI locally. Exits 1 if any fails, after reporting all problems.
#   dev/check.sh            style, build, all tests
#   dev/check.sh --style    format, layers, file lengths, unused rows, log events, words, names, generated docs, symbols
#   dev/check.sh --lint     style, and clang-tidy over sources that changed since they passed it
#   dev/check.sh --staged   for the hook: format and length of staged files, layers, unit tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD:-build}
lines_max=1000
failed=0

wrong() {
    printf 'check: %s\n' "$*" >&2
    failed=1
}

# Existing C sources that the arguments, git ls-files or git diff, select.
sources() { "$@" -- '*.c' '*.h' | while read -r f; do [ ! -f "$f" ] || printf '%s\n' "$f"; done; }

# Releases of clang-format differ in what they write; Debian 13 does not have this one.
check_format() {
    local unformatted
    command -v clang-format-14 >/dev/null || {
        printf 'check: the format is NOT CHECKED: clang-format-14 is not installed\n' >&2
        return
    }
    unformatted=$(xargs -r clang-format-14 --dry-run --Werror 2>&1 |
        sed -nE 's/^([^:]+):[0-9]+:[0-9]+: error: .*/\1/p' | sort -u | tr '\n' ' ') || true
    [ -z "$unformatted" ] || wrong "not formatted (make format): $unformatted"
}

# The lengths of recorded traces and data are not limited (code_files).
check_lengths() {
    local f n
    while read -r f; do
        [ -f "$f" ] || continue
        n=$(wc -l <"$f")
        [ "$n" -le "$lines_max" ] || wrong "$f: $n lines, more than $lines_max"
    done
}

check_layers() { dev/check-layers || wrong "layers"; }
check_symbols() { dev/check-symbols "$build" || wrong "symbols of the programs"; }
check_language() { dev/check-language || wrong "words that texts must avoid"; }
check_tests() { dev/check-tests || wrong "names or assertions of tests"; }
check_names() { dev/check-names || wrong "retired names"; }
check_rows() { dev/check-rows || wrong "unused rows"; }
check_events() { dev/log-events --check || wrong "log events"; }

check_docs() {
    build resumelb resumelb-agent resumelb-poolcounter resumelbctl # the docs are compared with the current programs
    BUILD=$build dev/describe-docs --check || wrong "generated docs"
    BUILD=$build dev/check-conf || wrong "comments of conf/*.yaml"
}

# Builds all targets, or those given.
build() {
    local targets=()
    [ -f "$build/CMakeCache.txt" ] || cmake --preset dev -B "$build" >/dev/null
    [ $# -eq 0 ] || targets=(--target "$@")
    cmake --build "$build" -j"$(nproc)" "${targets[@]}" || {
        wrong "does not build"
        exit 1
    }
}

code_files=('*.c' '*.h' '*.def' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' 'dev/*' '.ci/*')

style() {
    check_format < <(sources git ls-files)
    check_lengths < <(git ls-files -- "${code_files[@]}")
    check_layers
    check_tests
    check_rows
    check_events
    check_language
    check_names
    check_docs
    check_symbols # of the programs that check_docs has built
}

# Writes to $build/lint/now/SOURCE what clang-tidy's result depends on: checksums of all files that SOURCE was compiled from.
note_sources() {
    (cd "$build" && ninja -t deps) | awk '/^ / { if (!source) source = $1; print source, $1; next } { source = "" }' |
        sort -u >"$build/lint/pairs"
    (cd "$build" && cut -d' ' -f2 lint/pairs | sort -u | xargs -r sha256sum) >"$build/lint/sums"
    rm -rf "$build/lint/now"
    sed "s|^|$build/lint/now/|" "$build/lint/files" | xargs -r dirname | sort -u | xargs -r mkdir -p
    awk -v there="$(realpath --relative-to="$build" .)/" -v root="$PWD/" -v now="$build/lint/now/" '
        FILENAME ~ /files$/ { wanted[root $1] = wanted[there $1] = $1; next }
        FILENAME ~ /sums$/ { sum[$2] = $1; next }
        $1 in wanted { to = now wanted[$1]; if (to != last) close(last); last = to; print sum[$2], $2 >to }
    ' "$build/lint/files" "$build/lint/sums" "$build/lint/pairs"
}

# One file per run: clang-tidy 14 reports false errors for va_list in further files.
lint_one() {
    local now=$build/lint/now/$1 passed=$build/lint/passed/$1
    [ ! -f "$now" ] || grep -F "/$1\"" "$build/lint/compile_commands.json" | cat .clang-tidy - >>"$now"
    ! cmp -s "$now" "$passed" || return 0
    clang-tidy-14 -p "$build/lint" --quiet --warnings-as-errors='*' "$1" 2>/dev/null || return 1
    [ ! -f "$now" ] || install -D "$now" "$passed"
}

# clang does not know gcc's -mmemcpy-strategy and -mmemset-strategy. Sources that passed are not checked again before they change.
lint() {
    command -v clang-tidy-14 >/dev/null || {
        wrong "clang-tidy-14 is not installed; other releases have other checks"
        return
    }
    mkdir -p "$build/lint"
    sed -E 's/ -mmem(set|cpy)-strategy=[^ "]*//g' "$build/compile_commands.json" >"$build/lint/compile_commands.json"
    git ls-files -- '*.c' | grep -vE '^tests/|^examples/' >"$build/lint/files"
    note_sources
    export -f lint_one && export build
    xargs -r -P"$(nproc)" -I{} bash -c 'lint_one {}' <"$build/lint/files" || wrong "clang-tidy"
}

staged() {
    check_format < <(sources git diff --cached --name-only --diff-filter=ACMR)
    check_lengths < <(git diff --cached --name-only --diff-filter=ACMR -- "${code_files[@]}")
    check_layers
    # Without a changed source nothing is built.
    if [ -n "$(git diff --cached --name-only -- '*.c' '*.h' '*.def' '*.cmake' '*CMakeLists.txt')" ]; then
        build
        ctest --test-dir "$build" -L unit --output-on-failure --no-tests=error -j"$(nproc)" || wrong "unit tests"
    fi
}

case ${1:-} in
--style) style ;;
--lint)
    style
    lint
    ;;
--staged) staged ;;
'')
    build
    style
    ctest --test-dir "$build" --output-on-failure --no-tests=error -j"$(nproc)" || wrong "tests"
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
exit $failed
