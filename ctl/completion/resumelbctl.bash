# SPDX-License-Identifier: Apache-2.0
# Completion of resumelbctl for bash; made by: resumelbctl completion bash

_resumelbctl_words()
{
    COMPREPLY=()
    local word
    for word in $2; do
        if [[ $word == "$1"* ]]; then
            COMPREPLY+=("$word")
        fi
    done
}

_resumelbctl_files()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_resumelbctl()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev= word= i
    COMPREPLY=()
    ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD - 1]}
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
        -a|--address|-T|--token-file|-t|--timeout) ((++i)) ;;
        -*) ;;
        *) word=${COMP_WORDS[i]}; break ;;
        esac
    done
    case $word in
    '')
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '--help --version'
        else
            _resumelbctl_words "$cur" 'status top resumes limits explain check trace classify simulate playback drain undrain confirm-removal forget reload detach tree completion'
        fi
        ;;
    status)
        case $prev in
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        -w|--watch) COMPREPLY=(); return ;;
        --count) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-a --address -j --json -T --token-file -t --timeout -h --help -w --watch --count'
        else
            COMPREPLY=()
        fi
        ;;
    top)
        case $prev in
        -i|--interval) COMPREPLY=(); return ;;
        -s|--sort) _resumelbctl_words "$cur" 'n b m o r f s k'; return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-i --interval -s --sort -a --address -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    resumes)
        case $prev in
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        -c|--class) COMPREPLY=(); return ;;
        -n|--top) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-a --address -j --json -T --token-file -t --timeout -h --help -c --class -n --top'
        else
            COMPREPLY=()
        fi
        ;;
    limits)
        case $prev in
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        -n|--top) COMPREPLY=(); return ;;
        -w|--watch) COMPREPLY=(); return ;;
        --count) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-a --address -j --json -T --token-file -t --timeout -h --help -n --top -w --watch --count'
        else
            COMPREPLY=()
        fi
        ;;
    explain)
        case $prev in
        -c|--class) COMPREPLY=(); return ;;
        -p|--application) COMPREPLY=(); return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-c --class -p --application -a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    check)
        case $prev in
        -b|--worker-mean-backlog-warn) COMPREPLY=(); return ;;
        -B|--worker-mean-backlog-error) COMPREPLY=(); return ;;
        -x|--worker-max-backlog-warn) COMPREPLY=(); return ;;
        -X|--worker-max-backlog-error) COMPREPLY=(); return ;;
        -a|--worker-request-age-warn) COMPREPLY=(); return ;;
        -A|--worker-request-age-error) COMPREPLY=(); return ;;
        -w|--minimum-worker-warn) COMPREPLY=(); return ;;
        -W|--minimum-worker-error) COMPREPLY=(); return ;;
        -p|--application) COMPREPLY=(); return ;;
        --address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-b --worker-mean-backlog-warn -B --worker-mean-backlog-error -x --worker-max-backlog-warn -X --worker-max-backlog-error -a --worker-request-age-warn -A --worker-request-age-error -w --minimum-worker-warn -W --minimum-worker-error -m --metrics -p --application --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    trace)
        case $prev in
        -n|--top) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-n --top -m --minutes -j --json -h --help'
        else
            _resumelbctl_files "$cur"
        fi
        ;;
    classify)
        case $prev in
        -c|--classifier) _resumelbctl_words "$cur" 'host segment path regex:'; return ;;
        --config) _resumelbctl_files "$cur"; return ;;
        -A|--application) COMPREPLY=(); return ;;
        -n|--top) COMPREPLY=(); return ;;
        -r|--requests) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-c --classifier --config -A --application -n --top -r --requests -j --json -h --help'
        else
            _resumelbctl_files "$cur"
        fi
        ;;
    simulate)
        case $prev in
        -p|--policy) COMPREPLY=(); return ;;
        -c|--classifier) _resumelbctl_words "$cur" 'host segment path regex:'; return ;;
        -s|--scenario) _resumelbctl_words "$cur" 'steady light flash crawl newworkers crash drain rolling hetero shift shareddb all'; return ;;
        -o|--plot) _resumelbctl_files "$cur"; return ;;
        --workers) COMPREPLY=(); return ;;
        --cache) COMPREPLY=(); return ;;
        --base-ms) COMPREPLY=(); return ;;
        --hit-us) COMPREPLY=(); return ;;
        --load-ms) COMPREPLY=(); return ;;
        --db-slots) COMPREPLY=(); return ;;
        --clients) COMPREPLY=(); return ;;
        --rate) COMPREPLY=(); return ;;
        --speed) COMPREPLY=(); return ;;
        --requests) COMPREPLY=(); return ;;
        --sites) COMPREPLY=(); return ;;
        --zipf) COMPREPLY=(); return ;;
        --site-objects) COMPREPLY=(); return ;;
        --objects) COMPREPLY=(); return ;;
        --balancers) COMPREPLY=(); return ;;
        --report-delay-ms) COMPREPLY=(); return ;;
        --homes-delay-ms) COMPREPLY=(); return ;;
        --history) COMPREPLY=(); return ;;
        --seed) COMPREPLY=(); return ;;
        --random) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-p --policy -c --classifier -s --scenario -o --plot -j --json --tune --queue-is-service -h --help --workers --cache --base-ms --hit-us --load-ms --db-slots --clients --rate --speed --requests --sites --zipf --site-objects --objects --balancers --report-delay-ms --homes-delay-ms --history --seed --random'
        else
            _resumelbctl_files "$cur"
        fi
        ;;
    playback)
        case $prev in
        -C|--clients) COMPREPLY=(); return ;;
        -s|--speed) COMPREPLY=(); return ;;
        -r|--requests) COMPREPLY=(); return ;;
        -c|--classifier) _resumelbctl_words "$cur" 'host segment path regex:'; return ;;
        -n|--top) COMPREPLY=(); return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        --loads-header) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-C --clients -s --speed -r --requests -c --classifier -n --top -t --timeout --loads-header -j --json -h --help'
        else
            _resumelbctl_files "$cur"
        fi
        ;;
    drain)
        case $prev in
        -p|--application) COMPREPLY=(); return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-p --application -a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    undrain)
        case $prev in
        -p|--application) COMPREPLY=(); return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-p --application -a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    confirm-removal)
        case $prev in
        -p|--application) COMPREPLY=(); return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-p --application -a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    forget)
        case $prev in
        -c|--class) COMPREPLY=(); return ;;
        -w|--worker) COMPREPLY=(); return ;;
        -p|--application) COMPREPLY=(); return ;;
        --agent) COMPREPLY=(); return ;;
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-c --class -w --worker --all -p --application --agent -a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    reload)
        case $prev in
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    detach)
        case $prev in
        -a|--address) COMPREPLY=(); return ;;
        -T|--token-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-a --address -j --json -T --token-file -t --timeout -h --help'
        else
            COMPREPLY=()
        fi
        ;;
    tree)
        case $prev in
        -u|--tree) COMPREPLY=(); return ;;
        -A|--auth-file) _resumelbctl_files "$cur"; return ;;
        -t|--timeout) COMPREPLY=(); return ;;
        -o|--output) _resumelbctl_files "$cur"; return ;;
        --unset) COMPREPLY=(); return ;;
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-u --tree -A --auth-file -t --timeout -j --json -e --ephemeral -o --output -n --dry-run --trim --no-trim --reset-acl --unset --create -h --help'
        else
            _resumelbctl_words "$cur" 'print export import diff set get watch'
        fi
        ;;
    completion)
        case $prev in
        esac
        if [[ $cur == -* ]]; then
            _resumelbctl_words "$cur" '-h --help'
        else
            _resumelbctl_words "$cur" 'bash zsh'
        fi
        ;;
    esac
}

complete -F _resumelbctl resumelbctl
