// SPDX-License-Identifier: Apache-2.0
// The agent's page: the pool of all processes, then each application with its processes, the last failure, and settings.
import {column, figures, h, memory, notice, number, percent, seconds, settings, some, start, table, text, treeProblems, unsavedFiles}
  from '/status.js';

function pool(s) {
  return h('section', {id: 'pool', 'aria-label': 'Pool'}, h('h2', null, 'Pool'),
    s.tree?.connected === false && notice('The tree cannot be reached: continuing with the last known state.'),
    treeProblems({...s.host, problem: null}), // a host need not have a node
    figures(
      ['max processes', s.max_processes === 0 ? 'no limit' : number(s.max_processes), {big: true}],
      ['processes', number(s.processes), {big: true}],
      ['busy', number(s.active_processes), {big: true, help: 'Processes with requests in flight.'}],
      ['requests waiting', number(s.waiting), {big: true, bad: some(s.waiting)}],
      ['connections', number(s.connections), {big: true, help: 'Connections to slots.'}]),
    settings('host', 'Settings of the host', s.host.settings));
}

// ---- processes ----

/** One row for each process; a slot without one shows its own state. Its queue is that of the process in it. */
function rows({slots, leaving}) {
  const slotOf = process => slots[process.slot] ?? {};
  const row = (slot, process, queue) => ({...process, slot: slot.slot, address: slot.address, queue});
  return [
    ...slots.flatMap(s => [row(s, s.process ?? {state: s.state}, s.waiting), ...s.successor ? [row(s, s.successor)] : []]),
    ...leaving.map(p => row(slotOf(p), p)),
  ];
}

function state(p) {
  const look = p.state === 'ready' && !p.going ? 'good' : 'soft';
  return h('span', {class: 'state ' + look}, p.state, p.successor && ' (replacement)', p.going && `, ${p.going}`);
}

function processes(name, a) {
  return table(name, 'Processes', [
    column('slot', 'slot', number),
    column('address', 'address'),
    column('pid', 'pid', number),
    column('state', 'state', text, {show: state}),
    column('sessions', 'sessions', number),
    column('processed', 'processed', number),
    column('uptime', 'uptime_s', seconds),
    column('last used', 'last_used_s', seconds),
    column('CPU', 'cpu_percent', percent),
    column('memory', 'memory_bytes', memory),
    column('queue', 'queue', number, {bad: some}),
    column('generation', 'generation', number),
    column('version', 'version'),
    column('id', 'id', text, {show: p => h('code', null, text(p.id))}),
  ], rows(a));
}

// ---- applications ----

function failure({last_failure: f}) {
  return f && [
    notice(`Last failure ${seconds(f.ago_s)} ago (${f.at}): slot ${f.slot}, pid ${f.pid} ${f.what}`, f.how && `: ${f.how}`),
    f.lines.length > 0 && h('pre', null, f.lines.map(line => line + '\n')),
  ];
}

function application(name, a) {
  const {counts: c, queue: q, figures: f} = a;
  return h('section', {id: 'application-' + name, 'aria-label': 'Application ' + name}, h('h2', null, name),
    treeProblems({...a, problem: null}),
    a.over_memory.too_low && notice('max_memory is too low: processes exceed it soon after they are ready. They are replaced every ',
      seconds(a.over_memory.interval_s), ', at growing intervals.'),
    failure(a),
    figures(
      ['processes', number(c.processes)], ['at least', number(a.min_processes)], ['at most', number(a.max_processes)],
      ['busy', number(c.busy)], ['idle', number(c.idle)], ['starting', number(c.starting)], ['leaving', number(c.leaving)],
      ['queue', text(q.policy)], ['waiting', number(q.waiting), {bad: some(q.waiting)}],
      ['for any process', number(q.waiting_any), {bad: some(q.waiting_any), help: 'Requests that wait for any process.'}],
      ['requests', number(f.requests)], ['running', number(f.requests_running)], ['tunnels', number(f.tunnels_open)],
      ['generation', number(a.generation), {help: 'Number of requested restarts of all processes.'}],
      ['started', number(f.spawns)], ['starts failed', number(f.spawn_failures), {bad: some(f.spawn_failures)}],
      ['deaths', number(f.deaths), {bad: some(f.deaths)}]),
    processes(name, a),
    settings(name, 'Settings of the application', a.settings));
}

start({
  program: 'resumelb-agent',
  links: ['/status.json', '/resumes.json', '/metrics'],
  render: s => [
    h('p', {id: 'program'}, `version ${s.version}, pid ${s.pid}, supervisor ${s.supervisor_pid}, up ${seconds(s.uptime_s)}, ${s.phase}`),
    unsavedFiles(s.unsaved_files),
    pool(s),
    Object.entries(s.applications).map(([name, a]) => application(name, a)),
  ],
});
