// SPDX-License-Identifier: Apache-2.0
// The pool counter daemon's page: locks and waiting requests, now and since the start, by type of key and by key.
import {column, figures, h, number, seconds, some, start, table} from '/status.js';

function counts({counters: c, server, wait, work, clients, uptime_s}) {
  return h('section', {'aria-label': 'Counters'},
    h('h2', null, 'Now'),
    figures(
      ['clients', number(clients), {big: true}], ['keys', number(c.keys), {big: true, help: 'Keys with holders or waiting requests.'}],
      ['held', number(c.held), {big: true, help: 'Requests that hold a lock.'}],
      ['waiting', number(c.waiting), {big: true, bad: some(c.waiting), help: 'Requests that wait for a lock.'}]),
    h('h3', null, 'Since the start'),
    figures(
      ['LOCKED', number(c.acquired_total)], ['DONE', number(c.done_total)],
      ['QUEUE_FULL', number(c.queue_full_total), {bad: some(c.queue_full_total)}],
      ['TIMEOUT after waiting', number(c.timeouts_total), {bad: some(c.timeouts_total)}],
      ['TIMEOUT at once', number(c.timeouts_at_once_total)], ['waits cancelled', number(c.given_up_total)],
      ['OUT_OF_MEMORY', number(c.no_room_total), {bad: some(c.no_room_total)}],
      ['bad commands', number(server.bad_commands), {bad: some(server.bad_commands)}],
      ['waits, median', seconds(wait.p50_s)], ['waits, p99', seconds(wait.p99_s)],
      ['work, median', seconds(work.p50_s)], ['work, p99', seconds(work.p99_s)],
      ['uptime', seconds(uptime_s)]));
}

function longest(oldest) {
  return h('section', {'aria-label': 'Longest holder'}, h('h2', null, 'Longest holder'),
    oldest ? h('p', null, h('code', null, oldest.key), `, for ${seconds(oldest.held_s)}, by ${oldest.client}`)
      : h('p', {class: 'soft'}, 'No key is held.'));
}

function types(rows) {
  return h('section', {'aria-label': 'Types'}, h('h2', null, 'Types of keys'), table('', 'Types of keys', [
    column('type', 'type', x => x, {number: false, show: t => t.type === '' ? h('span', {class: 'soft'}, 'all others') : t.type}),
    column('held', 'held', number),
    column('waiting', 'waiting', number, {bad: some}),
    column('LOCKED', 'acquired', number),
    column('DONE', 'done', number),
    column('QUEUE_FULL', 'queue_full', number, {bad: some}),
    column('TIMEOUT', 'timeouts', number, {bad: some}),
    column('waited', 'waited_s', seconds),
    column('worked', 'worked_s', seconds),
  ], rows));
}

function keys(rows) {
  return h('section', {'aria-label': 'Keys'}, h('h2', null, 'Keys most waited for'), table('', 'Keys most waited for', [
    column('key', 'key'),
    column('waited', 'waited_s', seconds),
    column('at least', k => k.waited_s - k.too_much_by_at_most_s, seconds, {help: 'The time waited is an upper estimate.'}),
    column('waits', 'waits', number),
  ], rows));
}

start({
  program: 'resumelb-poolcounter',
  links: ['/status.json', '/metrics'],
  render: s => [
    h('p', {id: 'program'}, `version ${s.version}, up ${seconds(s.uptime_s)}`),
    counts(s), longest(s.oldest_holder), types(s.types), keys(s.most_waited_for),
  ],
});
