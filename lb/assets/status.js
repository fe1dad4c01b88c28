// SPDX-License-Identifier: Apache-2.0
// The live page: figures once a second, resumes (which may be large) every ten. All text goes in by textContent.
'use strict';

const EVERY_MS = 1000, RESUMES_EVERY_MS = 10000, TOP_CLASSES = 5;
let resumes = {}, resumesAt = 0, before = null;

function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

function number(x, digits) {
  return x === null || x === undefined ? '–' : x.toLocaleString('en', {maximumFractionDigits: digits || 0});
}

function seconds(x) {
  if (x === null || x === undefined) return '–';
  if (x < 1) return Math.round(x * 1000) + ' ms';
  if (x < 120) return x.toFixed(1) + ' s';
  if (x < 7200) return Math.round(x / 60) + ' min';
  return x < 172800 ? Math.round(x / 3600) + ' h' : Math.round(x / 86400) + ' d';
}

function figures(pairs) {
  const dl = make('dl');
  for (const [name, value, bad] of pairs) {
    const d = make('div');
    d.append(make('dt', '', name), make('dd', bad ? 'bad' : '', value));
    dl.append(d);
  }
  return dl;
}

function rate(name, app, key) {
  const old = before && before.status.applications[name];
  if (!old) return '–';
  const passed = (performance.now() - before.at) / 1000;
  return number((app.stats[key] - old.stats[key]) / passed, 1) + ' /s';
}

function failed(app) {
  return Object.entries(app.outcomes).filter(([k]) => k !== 'answered' && k !== 'tunnelled' && k !== 'client-gone')
    .reduce((sum, [, n]) => sum + n, 0);
}

function bar(w, scale) {
  const track = make('div', 'track'), fill = make('div', 'bar'), mean = make('div', 'mean');
  fill.style.width = Math.min(100, 100 * w.backlog / scale) + '%';
  mean.style.left = Math.min(99, 100 * w.mean_backlog / scale) + '%';
  track.append(fill, mean);
  track.title = 'bar: backlog now; mark: mean backlog';
  return track;
}

function topClasses(name, worker) {
  const skills = (resumes[name] || {})[worker] || {};
  return Object.entries(skills).sort((a, b) => b[1] - a[1]).slice(0, TOP_CLASSES)
    .map(([c, s]) => (c || '(none)') + ' ' + number(s, 1)).join(', ');
}

function stateOf(w) {
  if (w.ejected) return ['ejected: ' + w.ejected_why, 'bad'];
  if (w.state === 'ready') return w.active ? ['ready', 'good'] : ['ready, inactive', 'soft'];
  if (w.state === 'unhealthy') return ['unhealthy: ' + w.check.why, 'bad'];
  return [w.state, w.state === 'absent' || w.state === 'silent' ? 'bad' : 'soft'];
}

// The address that it has instead of its own, or would have.
function standbyOf(w) {
  return make('div', w.on_standby ? 'bad' : 'soft', (w.on_standby ? 'at its standby ' : 'standby ') + w.standby);
}

const COLUMNS = [['worker'], ['state'], ['version'], ['backlog', 1], ['mean', 1], [''], ['oldest', 1], ['requests', 1],
  ['failures', 1], ['connections', 1], ['classes', 1], ['best at (requests per second)']];

function workerRow(name, w, scale) {
  const tr = make('tr'), [state, stateClass] = stateOf(w), c = w.connections;
  const cell = (content, className) => {
    const td = make('td', className);
    td.append(content);
    tr.append(td);
  };
  cell(w.name);
  cell(state, stateClass);
  if (w.standby) tr.lastChild.append(standbyOf(w));
  cell(w.version || '–');
  cell(number(w.backlog), 'number');
  cell(number(w.mean_backlog, 2), 'number');
  cell(bar(w, scale));
  cell(seconds(w.oldest_s), 'number');
  cell(number(w.requests), 'number');
  cell(number(w.failures), w.failures ? 'number bad' : 'number');
  cell(c ? c.in_use + ' + ' + c.idle + ' idle' : '–', 'number');
  cell(number(w.skills), 'number');
  cell(topClasses(name, w.name), 'classes');
  return tr;
}

function tableOf(columns, rows) {
  const table = make('table'), head = make('tr'), body = make('tbody'), thead = make('thead');
  for (const [title, isNumber] of columns) head.append(make('th', isNumber ? 'number' : '', title));
  body.append(...rows);
  thead.append(head);
  table.append(thead, body);
  return table;
}

function workerTable(name, app) {
  const scale = Math.max(1, ...app.workers.map(w => Math.max(w.backlog, w.mean_backlog)));
  const sorted = app.workers.slice().sort((a, b) => a.name.localeCompare(b.name, 'en', {numeric: true}));
  return tableOf(COLUMNS, sorted.map(w => workerRow(name, w, scale)));
}

const LIMIT_COLUMNS = [['counter'], ['mode'], ['held', 1], ['limit'], ['waiting', 1], ['refused', 1], ['timed out', 1],
  ['coalesced', 1], ['stale', 1], ['let through', 1], ['waited', 1], ['longest holder']];
const KEY_COLUMNS = [['key'], ['waited', 1], ['waits', 1]], TOP_KEYS = 10;
const DAEMON_COLUMNS = [['daemon'], ['state'], ['connections', 1]];

function row(...cells) {
  const tr = make('tr');
  for (const [text, className] of cells) tr.append(make('td', className, text));
  return tr;
}

function limitOf(f) {
  const each = number(f.workers) + ' a key';
  return f.slots ? each + ', ' + number(f.slots) + ' in all' : each;
}

function limitRow(limit) {
  const f = limit.figures;
  if (!f) {
    const tr = row([limit.name]), td = make('td', 'soft', 'not in force: ' + (limit.why || 'not yet'));
    td.colSpan = LIMIT_COLUMNS.length - 1;
    tr.append(td);
    return tr;
  }
  const count = n => [number(n), n ? 'number bad' : 'number'];
  const refused = f.shadow ? [number(f.shadow_full), 'number soft'] : count(f.refused_full + f.unreachable_closed);
  return row([limit.name], [f.mode + (f.where === 'daemon' ? ', at a daemon' : '') + (f.shadow ? ', shadow' : ''), f.shadow ? 'soft' : ''],
    [number(f.held), 'number'], [limitOf(f)], [number(f.waiting), 'number'], refused, count(f.refused_timeout),
    [number(f.coalesced), 'number'], [number(f.stale), 'number'], count(f.unreachable_open), [seconds(f.waited_s), 'number'],
    [f.longest ? seconds(f.longest.for_s) + ' ' + f.longest.key : '–', 'classes']);
}

/* Pool counters, or nothing where there are none. */
function limitParts(app) {
  const limits = app.limits || [], daemons = app.pool_counter_servers || [];
  const keys = limits.flatMap(l => l.figures ? l.figures.top : []).sort((a, b) => b.waited_s - a.waited_s).slice(0, TOP_KEYS);
  if (!limits.length) return [];
  const parts = [make('h3', '', 'Pool counters'), tableOf(LIMIT_COLUMNS, limits.map(limitRow))];
  if (keys.length)
    parts.push(make('h3', '', 'Keys most waited for'),
      tableOf(KEY_COLUMNS, keys.map(k => row([k.key, 'classes'], [seconds(k.waited_s), 'number'], [number(k.waits), 'number']))));
  if (daemons.length)
    parts.push(make('h3', '', 'Pool counter daemons'), tableOf(DAEMON_COLUMNS, daemons.map(d => row([d.name],
      d.resting ? ['left alone for a while', 'bad'] : ['in use', 'good'], [d.connections - d.idle + ' + ' + d.idle + ' idle', 'number']))));
  return parts;
}

/* What there is to say of an application's tree, as figures. */
function treeFigures(app) {
  const t = app.tree || {};
  const refused = [app, ...(app.limits || [])].reduce((sum, x) => sum + (x.refused || []).length, 0);
  const figures = [['settings refused', number(refused), refused > 0]];
  if (app.held) figures.push(['settings held for', seconds(app.held_s), true]);
  if (!t.used) return figures;
  figures.push(['tree', t.connected ? 'connected' : 'away', !t.connected],
    ['registered', t.registered ? 'yes' : 'no', !t.registered], ['providers', number(t.providers)]);
  if (t.refused) figures.push(['providers refused', number(t.refused), true]);
  if (t.held) figures.push(['workers held', number(t.held), true]);
  if (t.remembered) figures.push(['remembered for', seconds(t.remembered_age_s), true]);
  if (t.expired) figures.push(['sessions expired', number(t.expired)]);
  if (t.quarantined) figures.push(['nodes not read', number(t.quarantined), true]);
  return figures;
}

function section(name, app) {
  const s = make('section'), total = app.stats.total_us, bad = failed(app);
  s.append(make('h2', '', name));
  s.append(figures([
    ['policy', app.policy], ['requests', rate(name, app, 'requests')], ['under way', number(app.stats.requests_active)],
    ['backlog', number(app.backlog)], ['mean backlog', number(app.mean_backlog, 2)],
    ['waiting for a worker', number(app.waiting), app.waiting > 0], ['classes', number(app.classes)],
    ['median time', total ? seconds(total.p50 / 1e6) : '–'], ['99 % within', total ? seconds(total.p99 / 1e6) : '–'],
    ['failed', number(bad), bad > 0], ...treeFigures(app),
  ]));
  s.append(app.workers.length ? workerTable(name, app) : make('p', 'bad', 'No worker is known.'));
  s.append(...limitParts(app));
  return s;
}

function show(status) {
  document.getElementById('program').textContent =
    'version ' + status.version + ', pid ' + status.pid + ', up ' + seconds(status.uptime_s) + ', ' + status.phase;
  const main = document.getElementById('applications');
  main.replaceChildren(...Object.entries(status.applications).map(([name, app]) => section(name, app)));
}

async function get(path) {
  const r = await fetch(path, {cache: 'no-store'});
  if (!r.ok) throw new Error('status ' + r.status);
  return r.json();
}

async function update() {
  const state = document.getElementById('state');
  try {
    if (performance.now() - resumesAt > RESUMES_EVERY_MS || !resumesAt) {
      resumes = (await get('/resumes.json')).applications;
      resumesAt = performance.now();
    }
    const status = await get('/status.json');
    show(status);
    before = {status: status, at: performance.now()};
    state.textContent = '';
  } catch (e) {
    state.textContent = 'no answer: ' + e.message;
    state.className = 'bad';
  }
  setTimeout(update, EVERY_MS);
}

update();
