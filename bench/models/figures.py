#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of a run, and tables of several: medians over the runs, and ratios to one subject within each run.

    bench/models/figures.py DIR [--base haproxy-stick]      the tables of the results in DIR again
    bench/models/figures.py DIR --reasons                   by resumelb's reason: cached share and times; turns at another worker
"""
import argparse
import collections
import json
import pathlib
import statistics

OVERRUN_MAX = 0.3       # of the paced time; the times of a run with more are not valid


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cached_share(records):
    return sum(r['cached'] for r in records) / max(1, sum(r['prompt'] for r in records))


def summary(records, workers):
    """The figures of a run from its RECORDS: one per turn, with `error` or with tokens, times [s], and its worker."""
    served = [r for r in records if 'error' not in r]
    if not served:
        raise SystemExit('models: no turn was served: %s' % records[0]['error'])
    prefill = collections.Counter()
    for r in served:
        prefill[r['worker']] += r['prompt'] - r['cached']
    return {
        'requests': len(served), 'errors': len(records) - len(served),
        'error_samples': sorted({r['error'] for r in records if 'error' in r})[:3],
        'cached': cached_share(served),
        'cached_first': cached_share([r for r in served if r['turn'] == 0]),
        'cached_later': cached_share([r for r in served if r['turn'] > 0]),
        'prefill': sum(prefill.values()) / len(served),
        'ttft_mean': statistics.mean(r['ttft'] for r in served),
        'ttft_p50': quantile([r['ttft'] for r in served], 0.5), 'ttft_p99': quantile([r['ttft'] for r in served], 0.99),
        'per_second': len(served) / max(r['ended'] for r in served),
        'busiest': max(prefill.values()) * workers / max(1, sum(prefill.values())),
        'overrun': 0.0,
    }


HEAD = ('| %s | runs | errors | cached %% | first turns %% | later turns %% | prefill tokens | TTFT p50 / p99, ms | to %s '
        '| requests/s | to %s | busiest | overrun |\n| --- |' + ' ---: |' * 12)


def table(title, runs, base):
    """RUNS: {subject: {run: summary}}. The ratios are to BASE, if it is one of the subjects."""
    base = base if base in runs else next(iter(runs))
    lines = [HEAD % (title, base, base)]

    def row(subject):
        own = runs[subject]

        def median(figure):
            return statistics.median(s[figure] for s in own.values())

        def ratio(figure):
            both = [own[n][figure] / runs[base][n][figure] for n in own if n in runs[base]]
            return '%.2f' % statistics.median(both) if both else '-'

        return '| %s | %d | %d | %.1f | %.1f | %.1f | %.0f | %.0f / %.0f | %s / %s | %.2f | %s | %.2f | %.2f |' % (
            subject, len(own), sum(s['errors'] for s in own.values()),
            100 * median('cached'), 100 * median('cached_first'), 100 * median('cached_later'), median('prefill'),
            1000 * median('ttft_p50'), 1000 * median('ttft_p99'), ratio('ttft_p50'), ratio('ttft_p99'),
            median('per_second'), ratio('per_second'), median('busiest'), max(s['overrun'] for s in own.values()))

    lines += [row(subject) for subject in runs]
    late = [(subject, n) for subject, own in runs.items() for n, s in own.items() if s['overrun'] > OVERRUN_MAX]
    if late:
        lines.append('\nThe machine was too busy, times are not valid: ' + ', '.join('%s run %d' % place for place in late))
    return '\n'.join(lines)


def results(directory):
    """{scenario: {subject: {run: summary}}} of DIRECTORY, in the order in which they were measured first."""
    found = {}
    paths = sorted(directory.glob('*/*/result.json'), key=lambda path: path.stat().st_mtime)
    for result in map(json.loads, (path.read_text() for path in paths)):
        found.setdefault(result['scenario'], {}).setdefault(result['subject'], {})[result['run']] = result
    return found


def print_tables(directory, base):
    for scenario, runs in results(directory).items():
        print('\n' + table(scenario, dict(sorted(runs.items())), base))


def moves(records):
    """(later turns, those at another worker than the turn before)"""
    by_session = collections.defaultdict(list)
    for r in records:
        if 'error' not in r:
            by_session[r['session']].append(r['worker'])
    pairs = [pair for workers in by_session.values() for pair in zip(workers, workers[1:])]
    return len(pairs), sum(before != after for before, after in pairs)


def print_reasons(directory):
    for path in sorted(directory.glob('*/*/records.jsonl')):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        by_reason = collections.defaultdict(list)
        for r in records:
            if r.get('reason'):
                by_reason[r['reason']].append(r)
        print('\n%s: %d later turns, %d at another worker than the one before' % (path.parent.relative_to(directory), *moves(records)))
        for reason, of in sorted(by_reason.items(), key=lambda item: -len(item[1])):
            print('  %-14s %4d, first turns %3d, cached %5.1f %%, TTFT %5.0f ms, of it queued at the server %5.0f ms' % (
                reason, len(of), sum(r['turn'] == 0 for r in of), 100 * cached_share(of),
                1000 * statistics.mean(r['ttft'] for r in of), 1000 * statistics.mean(r['queued'] for r in of)))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('directory', type=pathlib.Path)
    p.add_argument('--base', default='nginx-round-robin')
    p.add_argument('--reasons', action='store_true')
    o = p.parse_args()
    if o.reasons:
        print_reasons(o.directory)
    else:
        print_tables(o.directory, o.base)


if __name__ == '__main__':
    main()
