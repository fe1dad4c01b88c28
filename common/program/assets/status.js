// SPDX-License-Identifier: Apache-2.0
// Shared by the status pages of all programs: elements, formats, tables that can be sorted, and the stream of states (/live).
// Each program's page.js turns a state into the sections of <main>. Text from outside becomes text nodes and attribute values,
// never markup.

const DASH = '\u2013', SEARCH_AFTER_MS = 250, RECONNECT_MS = 5000, SILENT_MS = 5000, DEAD_MS = 30000, LOOK_MS = 1000;

// ---- elements ----

const isShown = x => x !== undefined && x !== null && x !== false;

/** An element. Attributes and children that are undefined, null or false are left out; children may be nested arrays. */
export function h(name, attributes, ...children) {
  const isSvg = name === 'svg' || name === 'rect';
  const element = isSvg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) if (isShown(value)) element.setAttribute(key, value);
  element.append(...children.flat(Infinity).filter(isShown));
  return element;
}

export const notice = (...children) => h('p', {class: 'bad notice'}, children);

/** A part of a section that can be closed. */
export function part(title, aside, open, ...children) {
  return h('details', {class: 'part', open: open && ''},
    h('summary', null, h('h3', null, title), ' ', h('span', {class: 'soft'}, aside)), children);
}

// ---- formats; what is absent is a dash ----

const ofNumber = format => v => Number.isFinite(v) ? format(v) : DASH;
const UNITS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

export const text = v => isShown(v) && v !== '' ? String(v) : DASH;
export const number = ofNumber(v => v.toFixed(Number.isInteger(v) || Math.abs(v) >= 10 ? 0 : Math.abs(v) < 1 ? 2 : 1));
export const percent = ofNumber(v => v.toFixed(1) + ' %');
export const share = ofNumber(v => percent(100 * v));
export const memory = ofNumber(v => (v / 1048576).toFixed(1) + ' MiB');
export const seconds = ofNumber(v => {
  if (v < 0.00005) return '0 s';
  if (v < 1) return (1000 * v).toFixed(v < 0.1 ? 1 : 0) + ' ms';
  if (v < 60) return v.toFixed(1) + ' s';
  const i = UNITS.findIndex(([, size]) => v >= size), [unit, size] = UNITS[i], [lower, part] = UNITS[i + 1];
  return `${Math.floor(v / size)} ${unit} ${Math.floor(v % size / part)} ${lower}`;
});

// ---- figures and tables ----

/** A list of single values: [title, what is shown, {help, bad, big}]. */
export function figures(...rows) {
  return h('dl', {class: 'figures'}, rows.map(([title, shown, {help, bad, big} = {}]) =>
    h('div', {class: big && 'big', title: help}, h('dt', null, title), h('dd', {class: bad && 'bad'}, shown))));
}

/**
 * A column of a table. FIELD is a member's name or a function of the row; it is what rows are sorted by. Options: show(row), what
 * is shown in place of the formatted value; bad(value, row); class; help.
 */
export function column(title, field, format = text, options = {}) {
  const value = typeof field === 'function' ? field : row => row[field];
  return {title, value, show: row => format(value(row)), number: format !== text, ...options};
}

export const some = v => v >= 0.005; // for `bad`

const collator = new Intl.Collator('en', {numeric: true});
const sorts = new Map(); // {column, down} by the key of a table

export function compare(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b || 0 : collator.compare(a ?? '', b ?? '');
}

function cell(c, i, row) {
  const classes = [c.number && 'number', c.class, c.bad?.(c.value(row), row) && 'bad'].filter(Boolean).join(' ');
  return h(i === 0 ? 'th' : 'td', {scope: i === 0 && 'row', class: classes || null}, c.show(row));
}

function heading(c, i, by) {
  const sorted = by?.column === i && (by.down ? 'descending' : 'ascending');
  return h('th', {scope: 'col', class: c.number && 'number', title: c.help, 'aria-sort': sorted}, h('button', {type: 'button'}, c.title));
}

/**
 * A table that is sorted by a click on a heading. SCOPE: what it is of (an application), where there are several of one LABEL.
 * except(row): text in place of all columns but the first; or undefined.
 */
export function table(scope, label, columns, rows, {className, except} = {}) {
  const key = scope + '/' + label, by = sorts.get(key), sign = by?.down ? -1 : 1;
  const line = row => {
    const instead = except?.(row);
    return h('tr', null, cell(columns[0], 0, row), instead === undefined ? columns.slice(1).map((c, i) => cell(c, i + 1, row))
      : h('td', {colspan: columns.length - 1, class: 'soft'}, instead));
  };
  if (by) rows = [...rows].sort((a, b) => sign * compare(columns[by.column].value(a), columns[by.column].value(b)));
  return h('div', {class: 'wide ' + (className ?? ''), tabindex: 0, role: 'region', 'aria-label': label},
    h('table', {'data-key': key},
      h('thead', null, h('tr', null, columns.map((c, i) => heading(c, i, by)))),
      h('tbody', null, rows.map(line))));
}

/** The settings of the program or of an application: {name: {value, origin, rejected}}. */
export function settings(scope, title, all) {
  const rows = Object.entries(all ?? {});
  return part(title, `${rows.length}, with the origin of each value`, false, table(scope, title, [
    column('setting', row => row[0]),
    column('value', row => row[1].value, text, {show: ([, s]) => h('code', null, text(s.value))}),
    column('origin', row => row[1].origin, text, {show: ([, s]) => h('span', {class: s.origin === 'default' && 'soft'}, text(s.origin))}),
    column('rejected', row => row[1].rejected, text, {class: 'bad', show: ([, s]) => s.rejected}),
  ], rows, {className: 'settings'}));
}

/** State that a restart would forget. */
export function unsavedFiles(files = []) {
  return files.map(f => notice('Not saved for ', seconds(f.unsaved_s), ': ', h('code', null, f.file), `: ${f.reason}`));
}

/** Problems of the tree's settings: of an application, or of an agent's host. */
export function treeProblems({rejected = [], broken_links = [], held, problem}) {
  return [
    rejected.map(r => notice('Setting ', h('code', null, r.name), ' = ', h('code', null, text(r.value)), ' of the tree is rejected: ', r.why)),
    held && notice('The settings of the tree are held: their node does not exist or cannot be read.'),
    broken_links.map(link => notice('A link in the tree cannot be resolved: ', link)),
    problem && !broken_links.includes(problem) && notice('The tree\u2019s node: ', problem),
  ];
}

// ---- the page: changed in place, so that focus, scrolling, open parts and selections stay ----

const main = document.getElementById('main'), live = document.getElementById('live'), pause = document.getElementById('pause');
const box = document.getElementById('q');
let render = null, source = null, last = null, paused = false, waiting = null, heard = 0;

function say(words, className) {
  if (live.textContent === words) return; // a screen reader reads changes only
  live.textContent = words;
  live.className = className;
}

function setAttributes(old, fresh) {
  const isOpen = name => name === 'open' && old.nodeName === 'DETAILS'; // the reader's choice
  for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name) && !isOpen(name)) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes)
    if (old.getAttribute(name) !== value && !isOpen(name)) old.setAttribute(name, value);
}

function morph(old, fresh) {
  const children = [...fresh.childNodes];
  children.forEach((is, i) => {
    const was = old.childNodes[i];
    if (!was) old.append(is);
    else if (was.nodeName !== is.nodeName) was.replaceWith(is);
    else if (was.nodeType !== Node.ELEMENT_NODE) was.data !== is.data && (was.data = is.data);
    else {
      setAttributes(was, is);
      morph(was, is);
    }
  });
  while (old.childNodes.length > children.length) old.lastChild.remove();
}

function isSelecting() {
  const s = getSelection();
  return s && !s.isCollapsed && main.contains(s.anchorNode);
}

function show() {
  if (last && !isSelecting()) morph(main, h('main', null, render(last)));
}

document.addEventListener('click', e => {
  const th = e.target.closest('th'), key = th?.closest('table').dataset.key, by = sorts.get(key);
  if (key === undefined || !e.target.closest('thead button')) return;
  const down = by?.column === th.cellIndex ? !by.down : th.classList.contains('number');
  sorts.set(key, {column: th.cellIndex, down});
  show();
});

// ---- the stream ----

/** The pieces after STEPS, line by line: "=FROM,COUNT" are pieces of BEFORE, "+TEXT" is a new one (common/program/line_delta.h). */
function changed(before, steps) {
  return steps.split('\n').flatMap(step => {
    const [from, count] = step.slice(1).split(',', 2).map(Number);
    if (step[0] === '+') return [step.slice(1)];
    if (from + count > before.length) throw new RangeError(step);
    return before.slice(from, from + count);
  });
}

const version = () => (last?.status ?? last)?.version;

function listen() {
  let pieces = [];
  const update = now => {
    const before = version();
    pieces = now;
    heard = performance.now();
    last = JSON.parse(pieces.join(','));
    if (before !== undefined && before !== version()) location.reload(); // a page of that program's own
    say('live', 'on');
    show();
  };
  source?.close();
  heard = performance.now();
  source = new EventSource('/live' + (box.value ? '?q=' + encodeURIComponent(box.value) : ''));
  source.onmessage = e => update(e.data.split(','));
  source.addEventListener('delta', e => update(changed(pieces, e.data)));
  source.onerror = () => {
    say('no response; reconnecting', 'off');
    // The browser reconnects by itself, but not after a response that is not a stream (too many listeners).
    if (source.readyState === EventSource.CLOSED) setTimeout(() => paused || listen(), RECONNECT_MS);
  };
}

// A server that is stopped, or a tunnel that is dead, leaves the stream open, or a connection attempt waiting: a state is due
// each second. In steps of SILENT_MS, for screen readers; after DEAD_MS by a new connection.
setInterval(() => {
  const silent = performance.now() - heard;
  if (paused || source === null || source.readyState === EventSource.CLOSED) return;
  if (silent >= DEAD_MS) {
    say('no response; reconnecting', 'off');
    listen();
  } else if (source.readyState === EventSource.OPEN && silent >= SILENT_MS) {
    say('no data for ' + Math.floor(silent / SILENT_MS) * SILENT_MS / 1000 + ' s', 'off');
  }
}, LOOK_MS);

function setPaused(on) {
  paused = on;
  pause.setAttribute('aria-pressed', on);
  pause.textContent = on ? 'Continue' : 'Pause';
  say(on ? 'paused' : 'connecting', '');
  if (on) source.close();
  else listen();
}

function search() {
  history.replaceState(null, '', box.value ? '/?q=' + encodeURIComponent(box.value) : '/');
  setPaused(false);
}

/** Shows the page of PROGRAM. LINKS: paths of its data. SEARCH: what the search finds, where there is one. MAKE: state -> sections. */
export function start({program, links, search: found, render: make}) {
  render = make;
  document.title = program;
  document.querySelector('h1').textContent = program;
  document.querySelector('nav').append(...links.flatMap(path => [h('a', {href: path}, path.slice(1).replace('.json', '')), ' ']));
  pause.hidden = false;
  pause.addEventListener('click', () => setPaused(!paused));
  if (found) {
    box.form.hidden = false;
    box.placeholder = found;
    box.value = new URLSearchParams(location.search).get('q') ?? '';
    box.form.addEventListener('submit', e => e.preventDefault());
    box.addEventListener('input', () => {
      clearTimeout(waiting);
      waiting = setTimeout(search, SEARCH_AFTER_MS);
    });
  }
  listen();
}
