#!/bin/sh
# Who may include whom. The edges of docs/architecture.md, and which file may see which library: whatever is not listed here
# is refused. Prints "FILE:LINE: INCLUDED: why" for each that is wrong; exits 1 when there is any.
set -eu
cd "$(dirname "$0")/.."

git grep --untracked -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]' -- '*.c' '*.h' '*.def' | awk '
    BEGIN {
        FS = ":"
        # FOLDER: the folders it may include from. A line that ends in a file name allows that file alone.
        edges("common/base", "common/base")
        edges("common/core", "common/base common/core")
        edges("common/wire", "common/base common/core common/wire")
        # Parts of libh2o that need neither its loop nor its connections, each behind an interface of ours.
        edges("common/h2o", "common/base common/h2o")
        edges("common/event", "common/base common/event")
        edges("common/net", "common/base common/core common/wire common/h2o common/event common/net")
        edges("common/tree", "common/base common/core common/wire common/event common/tree")
        edges("classifiers", "common/base classifiers")
        # Cut out of lb: the simulator, the replay tool and the tests drive it without a server.
        edges("pool", "common/base common/core pool")
        edges("lb", "common/base common/core common/wire common/event common/net common/tree classifiers pool lb")
        edges("worker-agent", "common/base common/core common/wire common/event common/net common/tree worker-agent")
        edges("poolcounter", "common/base common/core common/wire common/event common/net poolcounter")
        # Beside lb: workers in virtual time before the same pool.
        edges("sim", "common/base common/core pool sim")
        # The settings of a pool are those of the server, and the figures of a shadow: one table, one list.
        edges("ctl", "common/base common/core common/wire common/event common/net common/tree classifiers pool sim ctl lb/settings.def lb/shadow_json.h")
        edges("tests", "common classifiers pool sim lb worker-agent poolcounter ctl tests")
        edges("bench", "common classifiers pool lb bench")
        edges("examples", "examples")

        # Libraries: HEADER (a pattern), the files that may include it.
        library("^h2o(/.*)?\\.h$|^h2o/", "^common/h2o/[^/]*[.]c$|^common/net/|^lb/(front|tap|exchange|forward|headers|answer)\\.|^worker-agent/front\\.|^tests/")
        library("^openssl/", "^common/net/|^common/tree/(zookeeper_session|zookeeper_acl|store_zookeeper)\\.c$|^lb/(tls(_[a-z]+)?|limit_key)\\.|^tests/")
        library("^jansson\\.h$", "^common/(wire|tree)/|^(lb|worker-agent|ctl|tests)/")
        library("^yaml\\.h$", "^common/base/config\\.c$")
        library("^pcre2.*\\.h$", "^classifiers/search\\.c$")
        library("^zookeeper/|^zookeeper\\.h$", "^common/tree/(zookeeper_session|zookeeper_acl|store_zookeeper)\\.[ch]$|^tests/")
        library("^uthash\\.h$|^utlist\\.h$", "^common/base/map\\.h$")
        library("^xxhash\\.h$", "^common/base/map\\.c$|^classifiers/registry\\.c$|^common/core/hash_ring\\.c$|^common/wire/counter_reply\\.c$")
        library("^(uv|event2?|nghttp2)[/.]", "^$")
        library("^cmocka\\.h$", "^tests/")
    }

    function edges(folder, list) { allowed[folder] = list }

    function library(header, files) {
        library_header[++libraries] = header
        library_files[libraries] = files
    }

    # The folder whose rules a path falls under; "" for none.
    function folder_of(path,    parts, n) {
        if (path ~ /^lb\/(pool|worker|homes)[._]/ || path ~ /^lb\/(pool.*|homes.*|worker|pick_reason)\.(c|h|def)$/)
            return "pool"
        n = split(path, parts, "/")
        if (n == 1)
            return ""
        return parts[1] == "common" ? parts[1] "/" parts[2] : parts[1]
    }

    function complain(why) {
        print $1 ":" $2 ": " included ": " why
        wrong = 1
    }

    function may_include(folder, path,    list, n, i, to) {
        n = split(allowed[folder], list, " ")
        to = folder_of(path)
        for (i = 1; i <= n; ++i) {
            if (list[i] == to || list[i] == path || (list[i] == "common" && to ~ /^common\//))
                return 1
        }
        return 0
    }

    function exists(path,    line, found) {
        found = (getline line < path) >= 0
        close(path)
        return found
    }

    function check_ours(from) {
        # Made while building: the version, the files of the status pages (rlb_assets), the parts of a test program (rlb_test_programs).
        if (included == "version.h" || (included == "test_parts.def" && from == "tests") || (included == "assets.h" && from ~ /^(lb|worker-agent|common\/net)$/))
            return
        if (!exists(included))
            complain("not a path from the top of the tree")
        else if (!may_include(from, included))
            complain("not for " from)
    }

    function check_library(    i) {
        for (i = 1; i <= libraries; ++i) {
            if (included ~ library_header[i] && $1 !~ library_files[i])
                complain("this library is not for this file")
        }
    }

    {
        ours = $0 ~ /include[[:space:]]*"/
        included = $0
        sub(/^[^"<]*["<]/, "", included)
        sub(/[">].*$/, "", included)
        from = folder_of($1)
        if (!(from in allowed))
            complain("folder without a rule: give it one in dev/check-includes.sh")
        else if (ours)
            check_ours(from)
        else
            check_library()
        # What plugins are written against must stand alone.
        if ($1 == "classifiers/classifier.h" && included != "stddef.h")
            complain("the plugin contract includes <stddef.h> and nothing else")
        if ($1 == "classifiers/example_path.c" && ours && included != "classifiers/classifier.h")
            complain("the example includes the plugin contract and nothing else of ours")
    }

    END { exit wrong }
'
