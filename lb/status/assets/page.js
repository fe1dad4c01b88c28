// SPDX-License-Identifier: Apache-2.0
// The load balancer's page: figures, map, workers, classes, limits, tree and settings of each application; events; the program.
import {column, compare, figures, h, memory, notice, number, part, seconds, settings, share, some, start, table, text, treeProblems, unsavedFiles}
  from '/status.js';

const STEPS = 8; // colors of the map besides that of nothing
const SHORT_NAME = 14, TOP_KEYS = 10;

// ---- figures ----

function pool(a) {
  return [figures(
    ['requests/s', number(a.now.requests_per_s), {big: true, help: 'Over the last quarter of a minute.'}],
    ['p50', seconds(a.now.p50_s), {big: true, help: 'Median duration of a request, over the last quarter of a minute.'}],
    ['p99', seconds(a.now.p99_s), {big: true, help: 'One request in a hundred took longer, over the last quarter of a minute.'}],
    ['to skilled workers', share(a.now.skilled_share), {big: true, help:
      'Share of requests sent to a home of their class, or to a worker skilled at it.'}],
    ['failed/s', number(a.now.failed_per_s), {big: true, bad: some(a.now.failed_per_s), help:
      'Responses 5xx, and requests without a complete response.'}],
    ['workers active', [number(a.workers_active), h('small', null, ' of ', number(a.workers_known))], {big: true, help:
      'Eligible workers, of those known.'}]),
  figures(
    ['backlog', number(a.backlog), {help: 'Requests in flight at workers.'}],
    ['mean backlog', number(a.mean_backlog), {help: 'Its decayed mean.'}],
    ['cutoff', a.policy === 'resume' ? number(a.max_backlog) : text(null), {help:
      'Policy resume: how far above the least recently used eligible worker a skilled worker may be.'}],
    ['queue', number(a.waiting), {bad: some(a.waiting), help: 'Requests that wait for any worker.'}],
    ['classes with scores', number(a.classes), {help: 'Classes that at least one worker is skilled at.'}],
    ['policy', text(a.policy), {help: 'How a worker is selected.'}])];
}

// ---- the map: a table and its own text alternative; each cell has its share as a number, which the color repeats ----

const className = name => name === '' ? h('i', null, '(none)') : name;

/** The part of the name that distinguishes a worker from its neighbors: the port, or the end of a path. */
function shortName(name) {
  const end = name.slice(Math.max(name.lastIndexOf(':'), name.lastIndexOf('/')) + 1) || name;
  return end.slice(-SHORT_NAME);
}

const step = part => part < 0.005 ? 0 : Math.min(Math.ceil(part * STEPS), STEPS);

function shareCell(row, i) {
  const part = row.share[i] ?? 0;
  return h('td', {class: `m${step(part)}${row.score[i] > 0 ? ' skill' : ''}`},
    part >= 0.005 ? (100 * part).toFixed(0) : h('span', {class: 'hidden'}, '0'));
}

function scoreCell(row, i) {
  const score = row.score[i] ?? 0, best = Math.max(...row.score.map(Number));
  return h('td', {class: `m${score > 0 ? step(score / best) : 0}`},
    score > 0 ? score.toFixed(score < 10 ? 1 : 0) : h('span', {class: 'hidden'}, 'none'));
}

function map(name, title, {workers, classes}, cell) {
  return h('div', {class: 'wide', tabindex: 0, role: 'region', 'aria-label': `${title}, ${name}`}, h('table', {class: 'map'},
    h('caption', null, title),
    h('thead', null, h('tr', null, h('th', {scope: 'col'}, 'class'),
      workers.map(w => h('th', {scope: 'col', class: 'who', title: w}, h('span', null, shortName(w)))),
      h('th', {scope: 'col', class: 'number'}, 'requests/s'))),
    h('tbody', null, classes.map(row => h('tr', null, h('th', {scope: 'row', title: row.class}, className(row.class)),
      workers.map((_, i) => cell(row, i)), h('td', {class: 'number'}, number(row.requests_per_s)))))));
}

const LEGEND = [['m0', '0'], ['m1', '12'], ['m2', '25'], ['m4', '50'], ['m6', '75'], ['m8', '100']];

function maps(name, a) {
  return [h('h3', null, 'Workers by class'),
    h('p', {class: 'explain'}, 'resumelb sends each kind of request (a ', h('b', null, 'class'), ', one per row) to the few ',
      h('b', null, 'workers'), ' (columns) with its data in their caches. One or two strong cells in a row are good; a pale row ' +
      'is a class that no worker is skilled at yet.'),
    h('p', {class: 'legend'},
      h('span', {class: 'key'}, LEGEND.map(([color, value]) => h('i', {class: color}, value)),
        ' % of the class\u2019s requests, or of its best score'), ' ',
      h('span', {class: 'key'}, h('i', {class: 'm0 skill'}, '\u00a0'), ' framed: the worker has a score for the class')),
    a.map.classes.length === 0 ? h('p', {class: 'soft'}, 'No requests yet.') : h('div', {class: 'maps'},
      map(name, 'Traffic: % of a class\u2019s requests, last quarter minute', a.map, shareCell),
      map(name, 'Skills: scores, requests per second of work', a.map, scoreCell))];
}

// ---- workers ----

const isBad = w => w.ejected || ['absent', 'silent', 'unhealthy'].includes(w.state);

function state(w) {
  const isReady = w.state === 'ready';
  return [
    h('span', {class: 'state ' + (isBad(w) ? 'bad' : isReady && w.active ? 'good' : 'soft')},
      w.ejected ? `ejected: ${w.ejected_why}, for ${seconds(w.ejected_for_s)}` : w.state + (isReady && !w.active ? ', inactive' : '')),
    w.check?.failing && [' ', h('span', {class: 'bad'}, text(w.check.why))],
    w.standby && [' ', h('span', {class: w.on_standby ? 'bad' : 'soft'}, `${w.on_standby ? 'at ' : ''}standby ${w.standby}`)],
  ];
}

/** The backlog as a bar of SCALE in all, with a mark at its mean. */
function bar(w, scale) {
  const WIDTH = 72, at = v => Math.min(v / scale * WIDTH, WIDTH).toFixed(1);
  return h('svg', {class: 'bar', width: WIDTH, height: 10, viewBox: `0 0 ${WIDTH} 10`, 'aria-hidden': 'true'},
    h('rect', {class: 'track', width: WIDTH, height: 10, rx: 2}), h('rect', {class: 'fill', width: at(w.backlog), height: 10, rx: 2}),
    h('rect', {class: 'mean', x: Math.min(at(w.mean_backlog), WIDTH - 2), width: 2, height: 10}));
}

function connections({connections: c, tunnels}) {
  return [number(c?.in_use), h('small', null, ` + ${number(c?.idle)} idle${tunnels > 0 ? ` + ${tunnels} tunnels` : ''}`)];
}

function workers(name, a) {
  const scale = Math.max(2, ...a.workers.map(w => w.backlog)), shown = a.workers.length;
  const chosen = shown < a.workers_found; // by the program, the busiest first
  const rows = [...a.workers].sort((x, y) => isBad(y) - isBad(x) || (chosen ? 0 : compare(x.name, y.name)));
  const aside = shown === a.workers_known ? shown
    : `${shown} of ${a.workers_known}${chosen ? ', the busiest; search finds the others' : ''}`;
  return part('Workers', aside, true, a.workers_known === 0 && h('p', {class: 'bad'}, 'No worker is known.'), table(name, 'Workers', [
    column('worker', 'name'),
    column('state', 'state', text, {show: state}),
    column('version', 'version'),
    column('known from', w => (w.sources ?? []).map(s => s === 'call' && w.ends_in_s != null ? `call (${seconds(w.ends_in_s)})` : s).join(', '), text, {number: false, class: 'classes'}),
    column('backlog here, total', 'backlog', number, {help: 'Requests in flight: of this load balancer, of all that are known.',
      show: w => [number(w.backlog), h('small', null, ` of ${w.backlog + w.backlog_others}`)]}),
    column(h('span', {class: 'hidden'}, 'bar'), 'backlog', text, {show: w => bar(w, scale)}),
    column('mean', 'mean_backlog', number),
    column('work', w => w.backlog * (w.service_mean_s ?? NaN), seconds,
      {help: 'Backlog times the time the worker takes for a request.'}),
    column('oldest', 'oldest_s', seconds),
    column('requests/s', 'requests_per_s', number),
    column('errors', 'failures', number, {bad: (_, w) => some(w.failures_per_s)}),
    column('connections', w => (w.connections?.in_use ?? 0) + (w.connections?.idle ?? 0), number, {show: connections}),
    column('skills', 'skills', number),
    column('most of its requests', w => (w.top_classes ?? []).map(c => c || '(none)').join(', '), x => x, {number: false, class: 'classes'}),
  ], rows));
}

// ---- classes ----

function classes(name, a) {
  const query = c => `/explain?application=${encodeURIComponent(name)}&class=${encodeURIComponent(c.name)}`;
  const help = 'Which worker would be selected for a request of this class now, and why';
  return part('Classes', `the busiest ${a.classes_now.length} of ${a.now.classes} seen recently`, true, table(name, 'Classes', [
    column('class', 'name', text, {show: c => h('a', {href: query(c), title: help}, className(c.name))}),
    column('requests/s', 'requests_per_s', number),
    column('homes', 'homes', number),
    column('workers with a score', 'skilled_workers', number),
    column('overflow/s', 'overflow_per_s', number),
    column('waited/s', 'waited_per_s', number, {bad: some}),
    column('mean wait', 'wait_mean_s', seconds),
    column('limited/s', 'limited_per_s', number, {bad: some}),
    column('failed/s', 'failed_per_s', number, {bad: some}),
  ], a.classes_now));
}

// ---- limits ----

/** Rejected by a full queue, or because the daemon was unreachable; of a shadow: would have been. */
const rejected = ({figures: f}) => f && (f.shadow ? f.shadow_full : f.rejected_full + f.rejected_connections + f.unreachable_closed);

function limitTable(name, limits) {
  const of = member => row => row.figures?.[member];
  return table(name, 'Limits', [
    column('limit', 'name'),
    column('mode', of('mode'), text, {show: ({figures: f}) => h('span', {class: f.shadow && 'soft'},
      f.mode, f.where === 'daemon' && ', at a daemon', f.shadow && ', shadow')}),
    column('held', of('held'), number),
    column('workers', of('workers'), number, {show: ({figures: f}) => `${f.workers} a key${f.slots > 0 ? `, ${f.slots} in all` : ''}`}),
    column('waiting', of('waiting'), number, {bad: some}),
    column('rejected', rejected, number, {bad: (n, row) => n > 0 && !row.figures.shadow}),
    column('timed out', of('rejected_timeout'), number, {bad: some}),
    column('coalesced', of('coalesced'), number),
    column('stale', of('stale'), number),
    column('admitted uncounted', of('unreachable_open'), number, {bad: some}),
    column('waited', of('waited_s'), seconds),
    column('longest holder', row => row.figures?.longest?.for_s, seconds, {number: false, class: 'classes',
      show: ({figures: {longest: l}}) => l ? `${seconds(l.for_s)} ${l.key}` : text(null)}),
  ], limits, {except: row => row.figures ? undefined : `not effective: ${row.why}`});
}

function limits(name, a) {
  const keys = a.limits.flatMap(row => row.figures?.top ?? []).sort((x, y) => y.waited_s - x.waited_s).slice(0, TOP_KEYS);
  return [
    a.limits.length > 0 && [h('h3', null, 'Limits'), limitTable(name, a.limits)],
    keys.length > 0 && [h('h3', null, 'Keys most waited for'), table(name, 'Keys most waited for', [
      column('key', 'key', text, {class: 'classes'}), column('waited', 'waited_s', seconds), column('waits', 'waits', number)], keys)],
    a.pool_counter_servers.length > 0 && [h('h3', null, 'Pool counter daemons'), table(name, 'Pool counter daemons', [
      column('daemon', 'name'),
      column('state', d => d.suspended ? 'suspended' : 'in use', text,
        {show: d => h('span', {class: d.suspended ? 'bad' : 'good'}, d.suspended ? 'suspended' : 'in use')}),
      column('connections', 'connections', number),
      column('idle', 'idle', number)], a.pool_counter_servers)],
    a.stored_responses?.responses > 0 && h('p', {class: 'soft'}, `Stored responses: ${number(a.stored_responses.responses)}, ${memory(a.stored_responses.bytes)}`),
    a.rates.length > 0 && [h('h3', null, 'Rates'), table(name, 'Rates', [
      column('rate', 'name'),
      column('admitted', 'passed', number),
      column('rejected', 'rejected', number, {bad: some}),
      column('would be rejected', 'shadow_rejected', number, {help: 'Requests that a rate with shadow: true would have rejected.'}),
      column('keys', 'keys', number),
      column('keys evicted', 'evicted', number, {bad: some, help: 'Removed to make room: max_keys may be too small.'})], a.rates)],
  ];
}

// ---- names and tree ----

function names(name, a) {
  const t = a.tree;
  return [
    t?.confirm_removal && notice('Workers are held, because their registrations ended with many others. If they were removed on ' +
      'purpose, run: ', h('code', null, t.confirm_removal)),
    a.names?.length > 0 && [h('h3', null, 'Names'), table(name, 'Names', [
      column('name', 'name'),
      column('state', n => n.problem ?? (n.age_s === null ? 'no response yet' : 'resolved'), text,
        {show: n => h('span', {class: n.problem ? 'bad' : n.age_s === null ? 'soft' : 'good'}, n.problem ?? (n.age_s === null ? 'no response yet' : 'resolved'))}),
      column('addresses', 'addresses', number, {help: 'In the last response that did not fail.', bad: (_, n) => n.truncated}),
      column('workers', 'workers', number),
      column('rejected', 'rejected', number, {bad: some, help: 'Addresses outside provider_networks, or of this load balancer.'}),
      column('age', 'age_s', seconds, {help: 'Of that response.'}),
      column('TTL', 'ttl_s', seconds),
      column('failures', 'failures', number, {help: 'Responses that failed or were empty.'})], a.names)]];
}

function tree({tree: t}) {
  return t?.used && [
    t.connected === false && notice('The tree cannot be reached: continuing with the last known state.'),
    h('h3', null, 'Tree'),
    figures(
      ['tree connected', t.connected ? 'yes' : 'no', {help: 'Whether it can be reached; otherwise the last known state is used.'}],
      ['registered', t.registered ? 'yes' : 'no', {help: 'This load balancer, under all its names.'}],
      ['registrations', number(t.providers), {help: 'Workers registered.'}],
      ['rejected', number(t.rejected), {bad: some(t.rejected), help: 'Registrations of another application, or without a permitted address.'}],
      ['held', number(t.held), {bad: some(t.held), help: 'Workers that are held although their registration ended, because many ended at once.'}],
      ['snapshot age', seconds(t.remembered_age_s), {bad: some(t.remembered_age_s), help:
        'Age of the list of workers, if it is the one stored on disk.'}],
      ['sessions expired', number(t.expired), {help: 'Sessions ended by ZooKeeper; registrations were created again.'}],
      ['nodes not read', number(t.quarantined), {bad: some(t.quarantined), help: 'Nodes that are not read, because reading them broke the connection.'}])];
}

// ---- the page ----

/** All workers are unhealthy for the same reason, which is the check. */
function checksRejected({checks_rejected: r}) {
  return r && notice(`All workers reject their health checks: status ${r.status}, Host `, h('code', null, r.host), '. Correct ',
    h('code', null, 'health_check_path'), ', or set ', h('code', null, 'health_check_host'), ' to a host that the application accepts.');
}

function application(name, a) {
  return h('section', {'aria-label': 'Application ' + name}, h('h2', null, name), treeProblems(a), checksRejected(a), pool(a), maps(name, a),
    workers(name, a), classes(name, a), limits(name, a), names(name, a), tree(a), settings(name, 'Settings of the application', a.settings));
}

function events(all) {
  const time = e => new Date(1000 * e.time).toISOString();
  return h('section', {'aria-label': 'Events'}, part('Events', `${all.length} in the last hour (UTC)`, true,
    all.length === 0 ? h('p', {class: 'soft'}, 'No events.') : table('', 'Events', [
      column('time', 'time', text, {show: e => h('time', {datetime: time(e)}, time(e).slice(11, 19))}),
      column('event', 'kind', text, {bad: (_, e) => e.bad}),
      column('application', 'application'),
      column('subject', 'subject'),
      column('details', 'text', text, {class: 'classes'})], [...all].reverse(), {className: 'events'})));
}

start({
  program: 'resumelb',
  links: ['/status.json', '/resumes.json', '/settings.json', '/events', '/metrics'],
  search: 'worker, state or class',
  render: ({status: s, settings: {program}, events: {events: all}}) => [
    h('p', {id: 'program'}, `version ${s.version}, pid ${s.pid}, up ${seconds(s.uptime_s)}, ${s.phase}`),
    unsavedFiles(s.unsaved_files),
    Object.entries(s.applications).map(([name, a]) => application(name, a)),
    events(all),
    h('section', {'aria-label': 'Program'}, settings('', 'Settings of the program', program.settings)),
  ],
});
