// SPDX-License-Identifier: Apache-2.0
// Without this the page is whole, and as old as its last load. With it, the figures are made anew every two seconds, by the same
// server-side rendering: what is open stays open, and nothing is replaced under a selection.
'use strict';

const EVERY_MS = 2000;

function openOnes() {
  return new Set([...document.querySelectorAll('main details[open]')].map(d => d.id));
}

function selecting() {
  const s = getSelection();
  return s && !s.isCollapsed && document.querySelector('main').contains(s.anchorNode);
}

function show(page) {
  const open = openOnes(), fresh = page.querySelector('main'), program = page.getElementById('program');
  if (!fresh || !program || selecting()) return;
  for (const d of fresh.querySelectorAll('details')) d.open = open.has(d.id);
  document.querySelector('main').replaceWith(document.adoptNode(fresh));
  document.getElementById('program').textContent = program.textContent;
}

async function update() {
  const state = document.getElementById('state');
  try {
    const r = await fetch('/', {cache: 'no-store'});
    if (!r.ok) throw new Error('status ' + r.status);
    show(new DOMParser().parseFromString(await r.text(), 'text/html'));
    state.textContent = '';
  } catch (e) {
    state.textContent = 'no answer: ' + e.message;
    state.className = 'bad';
  }
  setTimeout(update, EVERY_MS);
}

setTimeout(update, EVERY_MS);
