// SPDX-License-Identifier: Apache-2.0
// The page is whole without this. With it: told anew each second by server-sent events, changed in place (so that
// focus, scrolling, open parts and selections stay), sorted by a click on a heading, paused, searched as one types.
'use strict';

const live = document.getElementById('live'), pause = document.getElementById('pause'), box = document.getElementById('q');
const SEARCH_AFTER_MS = 250;
let source = null, paused = false, waiting = null;
const sorts = new Map(); // by the table's label: {column, down}

function say(text, className) {
  if (live.textContent === text) return; // a screen reader says changes only
  live.textContent = text;
  live.className = className;
}

// ---- in place ----

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function attributes(old, fresh) {
  for (const {name} of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
  for (const {name, value} of fresh.attributes)
    if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS')) old.setAttribute(name, value);
}

function morph(old, fresh) {
  attributes(old, fresh);
  const children = [...fresh.childNodes];
  for (let i = 0; i < children.length; ++i) {
    const was = old.childNodes[i], is = children[i];
    if (!was) old.append(is);
    else if (!sameKind(was, is)) was.replaceWith(is);
    else if (was.nodeType === Node.ELEMENT_NODE) morph(was, is);
    else if (was.data !== is.data) was.data = is.data;
  }
  while (old.childNodes.length > children.length) old.lastChild.remove();
}

function selecting() {
  const s = getSelection();
  return s && !s.isCollapsed && document.getElementById('main').contains(s.anchorNode);
}

// ---- sorting ----

function labelOf(table) {
  const section = table.closest('section');
  return (section ? section.getAttribute('aria-label') : '') + '/' + table.closest('.wide').getAttribute('aria-label');
}

function keyOf(row, column) {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
}

function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', {numeric: true});
}

function sortTable(table) {
  const by = sorts.get(labelOf(table)), body = table.tBodies[0];
  if (!by) return;
  const rows = [...body.rows].sort((a, b) => (by.down ? -1 : 1) * compare(keyOf(a, by.column), keyOf(b, by.column)));
  body.replaceChildren(...rows);
}

function prepare(main) {
  for (const table of main.querySelectorAll('table.sortable')) {
    const by = sorts.get(labelOf(table));
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...th.childNodes);
      th.append(button);
      if (by && by.column === i) th.setAttribute('aria-sort', by.down ? 'descending' : 'ascending');
    });
    for (const body of table.tBodies)
      for (const node of [...body.childNodes]) if (node.nodeType === Node.TEXT_NODE) node.remove();
    sortTable(table);
  }
}

document.addEventListener('click', e => {
  const th = e.target.closest('th'), table = th && th.closest('table.sortable');
  if (!table || !e.target.closest('button')) return;
  const label = labelOf(table), by = sorts.get(label), column = th.cellIndex;
  const down = by && by.column === column ? !by.down : th.classList.contains('number');
  sorts.set(label, {column, down});
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  sortTable(table);
});

// ---- live ----

function show(html) {
  if (paused || selecting()) return;
  const fresh = new DOMParser().parseFromString(html, 'text/html').querySelector('main');
  if (!fresh) return;
  prepare(fresh);
  morph(document.getElementById('main'), document.adoptNode(fresh));
}

// What makes a text of the one before, line by line: "=FROM,COUNT" is lines of that, "+TEXT" a new one.
function changed(before, steps) {
  const now = [];
  for (const step of steps.split('\n')) {
    const [from, count] = step.slice(1).split(',', 2).map(Number);
    if (step[0] === '+') now.push(step.slice(1));
    else if (from + count <= before.length) now.push(...before.slice(from, from + count));
    else throw new RangeError(step);
  }
  return now;
}

function listen() {
  if (source) source.close();
  let lines = [];
  const told = now => {
    lines = now;
    if (!paused) say('live', 'on');
    show(lines.join('\n'));
  };
  source = new EventSource('/live?q=' + encodeURIComponent(box.value));
  source.onmessage = e => told(e.data.split('\n'));
  source.addEventListener('delta', e => told(changed(lines, e.data)));
  source.onerror = () => {
    if (!paused) say('no answer; trying again', 'off');
    // The browser tries again by itself, but not after an answer that was no stream (too many listeners).
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
}

function setPaused(on) {
  paused = on;
  pause.setAttribute('aria-pressed', String(on));
  pause.textContent = on ? 'Go on' : 'Pause';
  if (on) {
    source.close();
    say('paused', '');
  } else {
    say('connecting', '');
    listen();
  }
}

pause.hidden = false;
document.getElementById('go').hidden = true;
pause.addEventListener('click', () => setPaused(!paused));
box.form.addEventListener('submit', e => e.preventDefault());
box.addEventListener('input', () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    history.replaceState(null, '', box.value ? '/?q=' + encodeURIComponent(box.value) : '/');
    if (paused) setPaused(false); else listen();
  }, SEARCH_AFTER_MS);
});
prepare(document.getElementById('main'));
listen();
