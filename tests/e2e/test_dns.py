# SPDX-License-Identifier: Apache-2.0
"""Workers by host name: every address is a worker, whatever the name server does."""
import json
import os
import subprocess
import threading
import time

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from dns_support import Knot, NameServer, dnsmasq
from load_support import Load
from support import many_workers
from support.base import BIN, LIMIT, free_port, wait_until
from support.http import get
from support.scripted import serve
from upgrade_support import upgrade

NAME = 'web.app.internal'
TOKEN = 'another-word-that-cannot-be-guessed'


@pytest.fixture
def workers(world):
    """Workers at many addresses with one port: address(i)."""
    port = free_port()
    child = many_workers.start(port, 40)
    world.closers.append(lambda: (child.kill(), child.wait()))
    return port


def ip(i):
    return many_workers.address(i, 0).rpartition(':')[0]


def records(*numbers):
    return [('A', ip(i)) for i in numbers]


def addresses(port, *numbers):
    return {many_workers.address(i, port) for i in numbers}


@pytest.fixture
def server(world):
    s = NameServer()
    world.closers.append(s.close)
    return s


def begin(world, server, *entries, ready=True, wrapper=(), **more):
    """A load balancer with these entries of `workers`, the name server, short intervals, and actions permitted."""
    lb = world.resumelb({'workers': list(entries), 'resolvers': [server.address], 'resolve_min_interval': '100ms',
                         'resolve_interval': '1s', **more}, wait=False, wrapper=wrapper)
    lb.process.stop()
    lb.config['admin'] = {'address': lb.admin, 'actions_token': TOKEN}
    lb.start(wait=ready)
    wait_until(lb.listening, 'the listeners')
    return lb


def start(world, server, port, worker=None, **more):
    return begin(world, server, {'address': '%s:%d' % (NAME, port), **(worker or {})}, **more)


def act(lb, what, order):
    r = get(lb.admin, '/actions/' + what, host=lb.admin, method='POST', body=json.dumps(order).encode(),
            headers=[('Authorization', 'Bearer ' + TOKEN)])
    assert r.status == 200, r.text


def known(lb):
    return set(lb.workers())


def name_of(lb, i=0):
    return lb.app()['names'][i]


def wait_known(lb, want):
    wait_until(lambda: known(lb) == want, 'workers %s' % sorted(want))


def test_every_address_of_a_name_is_a_worker_with_its_source(world, server, workers):
    server.records[NAME + '.'] = records(0, 1, 2)
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0, 1, 2))
    assert {tuple(w['sources']) for w in lb.workers().values()} == {('%s:%d' % (NAME, workers),)}
    n = name_of(lb)
    assert (n['addresses'], n['workers'], n['ttl_s'], n['problem']) == (3, 3, 1, None)
    shown = subprocess.run([BIN / 'resumelbctl', 'status', '-a', lb.admin], capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'name %s:%d: 3 addresses' % (NAME, workers) in shown and 'known from' in shown, shown
    assert {lb.get('/%d' % i).text for i in range(60)} <= addresses(workers, 0, 1, 2)


def test_an_application_grows_and_shrinks_under_load_without_a_failed_request(world, workers):
    knot = Knot(world)
    knot.set(NAME + '.', *records(0, 1))
    lb = start(world, knot, workers)
    wait_known(lb, addresses(workers, 0, 1))
    with Load([lb.address], clients=4) as load:
        load.go_on()
        knot.set(NAME + '.', *records(*range(10)))
        wait_known(lb, addresses(workers, *range(10)))
        load.go_on()
        # 7 of 10 at once are held, as all still respond.
        knot.set(NAME + '.', *records(0, 1, 2))
        wait_until(lambda: lb.app()['tree']['held'] == 7, 'held workers')
        load.go_on()
        assert lb.workers()[many_workers.address(9, workers)]['sources'][-1] == 'held'
        act(lb, 'confirm-removal', {})
        wait_known(lb, addresses(workers, 0, 1, 2))
        load.go_on()
        # One of three is not many: it leaves without being asked for.
        knot.set(NAME + '.', *records(0, 1))
        wait_known(lb, addresses(workers, 0, 1))
        load.go_on()
        knot.process.kill()
        wait_until(lambda: name_of(lb)['failures'] > 1, 'failed answers')
        load.go_on()
        assert known(lb) == addresses(workers, 0, 1)


def test_a_worker_that_left_while_the_name_had_no_addresses_leaves_with_the_next_response(world, server, workers):
    server.records[NAME + '.'] = records(0, 1, 2, 3)
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0, 1, 2, 3))
    server.records[NAME + '.'] = []
    wait_until(lambda: lb.app()['tree']['held'] == 4, 'held workers')
    server.records[NAME + '.'] = records(3, 4)      # more than half of them are still missing: they stay
    wait_known(lb, addresses(workers, 0, 1, 2, 3, 4))
    assert lb.app()['tree']['held'] == 3
    server.records[NAME + '.'] = []
    wait_until(lambda: lb.app()['tree']['held'] == 5, 'held workers')
    server.records[NAME + '.'] = records(1, 2, 3, 4)
    wait_known(lb, addresses(workers, 1, 2, 3, 4))
    assert lb.app()['tree']['held'] == 0


def test_dnsmasq_answers_in_any_order_and_workers_stay(world, workers):
    address = dnsmasq(world, *['--host-record=%s,%s,1' % (NAME, ip(i)) for i in range(5)], '--local=/internal/')
    lb = start(world, type('Server', (), {'address': address}), workers)
    wait_known(lb, addresses(workers, *range(5)))
    log = lb.process.output().count('worker-resolved')
    before = name_of(lb)['failures']
    time.sleep(2)   # two TTLs: another order is not a change
    assert lb.process.output().count('worker-resolved') == log and name_of(lb)['failures'] == before


def test_an_address_that_returns_keeps_its_skills_and_its_drain(world, server, workers):
    server.records[NAME + '.'] = records(0, 1, 2)
    lb = start(world, server, workers, classifier='host', history=5)
    wait_known(lb, addresses(workers, 0, 1, 2))
    two = many_workers.address(2, workers)
    act(lb, 'drain', {'worker': two})
    server.records[NAME + '.'] = []
    wait_until(lambda: lb.app()['tree']['held'] == 3, 'held workers')
    assert lb.workers()[two]['state'] == 'drained'
    for i in range(50):
        assert lb.get('/', host='site%d.example' % (i % 3)).status == 200
    before = {name: w['instance'] for name, w in lb.workers().items()}
    server.records[NAME + '.'] = records(0, 1, 2)
    wait_until(lambda: lb.app()['tree']['held'] == 0, 'the workers to return')
    assert {name: w['instance'] for name, w in lb.workers().items()} == before
    assert lb.workers()[two]['state'] == 'drained'
    assert sum(w['skills'] for w in lb.workers().values()) > 0


def negative(rcode):
    def answer(query, tcp):
        r = dns.message.make_response(query)
        r.set_rcode(rcode)
        return r
    return answer


def other_question(query, tcp):
    r = dns.message.make_response(dns.message.make_query('other.app.internal', 'A'))
    r.id = query.id
    r.answer.append(dns.rrset.from_text('other.app.internal.', 1, 'IN', 'A', ip(30)))
    return r


def other_owner(query, tcp):
    r = dns.message.make_response(query)
    r.answer.append(dns.rrset.from_text('other.app.internal.', 1, 'IN', 'A', ip(30)))
    return r


def loop(query, tcp):
    r = dns.message.make_response(query)
    r.answer.append(dns.rrset.from_text(NAME + '.', 1, 'IN', 'CNAME', 'b.app.internal.'))
    r.answer.append(dns.rrset.from_text('b.app.internal.', 1, 'IN', 'CNAME', NAME + '.'))
    return r


def always_truncated(query, tcp):
    r = dns.message.make_response(query)
    r.flags |= dns.flags.TC
    return r


FAULTS = {
    'server failure': negative(dns.rcode.SERVFAIL),
    'refused': negative(dns.rcode.REFUSED),
    'no such name': negative(dns.rcode.NXDOMAIN),
    'empty': negative(dns.rcode.NOERROR),
    'no response': lambda query, tcp: None,
    'answer to another question': other_question,
    'records of another name': other_owner,
    'loop of aliases': loop,
    'truncated by TCP too': always_truncated,
    'garbage': lambda query, tcp: query.to_wire()[:2] + b'\xff' * 40,
    'half a header': lambda query, tcp: query.to_wire()[:7],
}


@pytest.mark.parametrize('fault', FAULTS)
def test_a_name_server_that_fails_or_lies_removes_no_worker_that_responds(world, server, workers, fault):
    server.records[NAME + '.'] = records(0, 1, 2)
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0, 1, 2))
    with Load([lb.address], clients=2) as load:
        server.answer = FAULTS[fault]
        wait_until(lambda: name_of(lb)['problem'], 'a problem')
        load.go_on()
        assert known(lb) == addresses(workers, 0, 1, 2)
        assert 'resumelb_failing_names{application="default"} 1\n' in get(lb.admin, '/metrics', host=lb.admin).text
        server.records[NAME + '.'] = records(0, 1, 2, 3)
        server.answer = server.by_records
        wait_known(lb, addresses(workers, 0, 1, 2, 3))
        wait_until(lambda: name_of(lb)['problem'] is None and lb.app()['tree']['held'] == 0, 'the end of the problem')
        load.go_on()


def test_a_slow_name_server_delays_no_request_and_a_long_ttl_no_change_beyond_the_interval(world, server, workers):
    server.records[NAME + '.'], server.ttl = records(0), 3600
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0))
    release = threading.Event()

    def answer(query, tcp):
        release.wait(1.5)      # less than the time-out of the first attempt
        return server.by_records(query, tcp)
    server.answer = answer
    with Load([lb.address], clients=2) as load:
        asked = len(server.queries)
        wait_until(lambda: len(server.queries) > asked, 'a query')
        load.go_on()
        release.set()
        server.records[NAME + '.'] = records(0, 1)
        wait_known(lb, addresses(workers, 0, 1))
        load.go_on()


def test_a_name_that_does_not_exist_at_the_start_is_reported_and_used_when_it_does(world, server, workers):
    lb = start(world, server, workers, ready=False, worker_wait_timeout='100ms')
    lb.process.wait_logged('worker-not-resolved')
    assert lb.get('/').status == 503
    server.records[NAME + '.'] = records(4)
    wait_known(lb, addresses(workers, 4))
    assert lb.get('/').status == 200


def by_tcp_only(server):
    return lambda query, tcp: server.by_records(query, tcp) if tcp else None


def truncated_by_udp(server):
    return lambda query, tcp: server.by_records(query, tcp) if tcp else always_truncated(query, tcp)


@pytest.mark.parametrize('way', [by_tcp_only, truncated_by_udp])
def test_a_server_that_needs_tcp_is_asked_by_tcp(world, server, workers, way):
    server.records[NAME + '.'] = records(0, 1)
    server.answer = way(server)
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0, 1))
    assert any(tcp for _, _, tcp in server.queries)


def test_aliases_are_followed_and_the_shortest_ttl_counts(world, server, workers):
    def answer(query, tcp):
        r = dns.message.make_response(query)
        r.answer.append(dns.rrset.from_text(NAME + '.', 1, 'IN', 'CNAME', 'b.app.internal.'))
        r.answer.append(dns.rrset.from_text('b.app.internal.', 300, 'IN', 'CNAME', 'c.app.internal.'))
        r.answer.append(dns.rrset.from_text('c.app.internal.', 300, 'IN', 'A', ip(0), ip(1)))
        return r
    server.answer = answer
    lb = start(world, server, workers, resolve_interval='1h')
    wait_known(lb, addresses(workers, 0, 1))
    assert name_of(lb)['ttl_s'] == 1


def test_a_ttl_of_zero_is_asked_again_at_the_least_interval_and_a_long_one_is_not_before_its_end(world, server, workers):
    server.records[NAME + '.'] = records(0)
    server.ttl = 0
    lb = start(world, server, workers, resolve_interval='1h')
    wait_until(lambda: len(server.queries) > 5, 'more queries')
    server.ttl = 3600
    wait_until(lambda: name_of(lb)['ttl_s'] == 3600, 'the long TTL')
    asked = len(server.queries)
    time.sleep(1)
    assert len(server.queries) == asked


def test_the_families_of_a_name_are_used_as_configured(world, server, workers):
    server.records[NAME + '.'] = [*records(0), ('AAAA', '::1')]
    server.records['six.app.internal.'] = [('AAAA', '::1')]
    four, six = many_workers.address(0, workers), '[::1]:%d' % workers
    for family, want in ('auto', {four}), ('ipv4', {four}), ('ipv6', {six}), ('both', {four, six}):
        lb = start(world, server, workers, {'family': family})
        wait_known(lb, want)
        lb.process.stop()
    lb = begin(world, server, 'six.app.internal:%d' % workers)
    wait_known(lb, {six})


def test_only_the_first_address_is_used_if_so_configured_and_stays(world, server, workers):
    server.records[NAME + '.'] = records(1, 2)
    lb = start(world, server, workers, {'addresses': 'first'})
    wait_until(lambda: len(known(lb)) == 1, 'one worker')
    only = known(lb)
    server.records[NAME + '.'] = records(0, 1, 2)
    wait_until(lambda: name_of(lb)['addresses'] == 3, 'the new answer')
    assert known(lb) == only
    with Load([lb.address]) as load:
        server.records[NAME + '.'] = records(5, 6)
        wait_until(lambda: known(lb) & addresses(workers, 5, 6), 'another worker')
        load.go_on()


def test_two_names_of_one_address_are_one_worker(world, server, workers):
    server.records[NAME + '.'] = records(0, 1)
    server.records['b.app.internal.'] = records(1, 2)
    lb = begin(world, server, '%s:%d' % (NAME, workers), 'b.app.internal:%d' % workers, many_workers.address(0, workers),
               discovery_max_drop=1)
    wait_known(lb, addresses(workers, 0, 1, 2))
    server.records['b.app.internal.'] = records(2)
    server.records[NAME + '.'] = records(1)
    wait_until(lambda: name_of(lb)['addresses'] == 1 and name_of(lb, 1)['addresses'] == 1, 'the answers')
    wait_known(lb, addresses(workers, 0, 1, 2))
    assert lb.workers()[many_workers.address(0, workers)]['sources'][0] == 'list'
    server.records[NAME + '.'] = records(3)
    wait_known(lb, addresses(workers, 0, 2, 3))


def test_addresses_outside_the_permitted_networks_are_rejected(world, server, workers):
    server.records[NAME + '.'] = [*records(0), ('A', '10.9.9.9')]
    lb = start(world, server, workers, provider_networks=['loopback'])
    wait_known(lb, addresses(workers, 0))
    n = name_of(lb)
    assert (n['addresses'], n['workers'], n['rejected']) == (2, 1, 1)
    assert n['rejections'][0]['name'] == '10.9.9.9:%d' % workers


def test_a_reload_keeps_the_workers_of_a_name_and_ends_those_of_one_that_left(world, server, workers):
    server.records[NAME + '.'] = records(0, 1)
    server.records['b.app.internal.'] = records(2)
    lb = start(world, server, workers)
    wait_known(lb, addresses(workers, 0, 1))
    config = {'resolvers': [server.address], 'resolve_min_interval': '100ms', 'resolve_interval': '1s'}
    with Load([lb.address], clients=2) as load:
        lb.reload({**config, 'workers': [{'address': '%s:%d' % (NAME, workers), 'max_connections': 7}, 'b.app.internal:%d' % workers]})
        wait_known(lb, addresses(workers, 0, 1, 2))
        wait_until(lambda: lb.workers()[many_workers.address(0, workers)]['connections']['max'] == 7, 'the new limit')
        load.go_on()
        lb.reload({**config, 'workers': ['b.app.internal:%d' % workers]})
        wait_known(lb, addresses(workers, 2))
        load.go_on()
        other = NameServer({'b.app.internal.': records(3)})
        world.closers.append(other.close)
        lb.reload({**config, 'discovery_max_drop': 1, 'resolvers': [other.address], 'workers': ['b.app.internal:%d' % workers]})
        wait_until(lambda: addresses(workers, 3) <= known(lb), 'the answer of the other server')
        load.go_on()


@pytest.mark.parametrize('again', ['restart', 'upgrade'])
def test_a_new_process_without_a_name_server_uses_the_last_addresses(world, server, workers, again):
    state = world.directory / 'state'
    state.mkdir()
    server.records[NAME + '.'] = records(0, 1, 2)
    lb = start(world, server, workers, state_dir=str(state))
    wait_known(lb, addresses(workers, 0, 1, 2))
    wait_until((state / 'default' / 'names.json').exists, 'the file')
    server.answer = lambda query, tcp: None
    if again == 'restart':
        assert lb.process.stop() == 0
        lb.start()
    else:
        with Load([lb.address], clients=2) as load:
            upgrade(lb)
            load.go_on()
    wait_until(lambda: 'worker-addresses-restored' in lb.process.output(), 'the addresses of the last run')
    wait_known(lb, addresses(workers, 0, 1, 2))
    assert lb.get('/').status == 200
    # The first response is compared with them: an empty one removes none.
    server.records[NAME + '.'] = []
    server.answer = server.by_records
    wait_until(lambda: lb.app()['tree']['held'] == 3, 'held workers')
    assert lb.get('/').status == 200


# Mounts the two files that follow for the program after them.
MOUNT = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'


def test_hosts_and_search_domains_are_those_of_the_machine_and_changes_are_followed(world, server, workers):
    hosts, conf = world.directory / 'hosts', world.directory / 'resolv.conf'
    hosts.write_text('%s box.example\n' % ip(0))
    conf.write_text('search app.internal\noptions ndots:2\n')
    server.records['web.app.internal.'], server.records['web.other.internal.'] = records(1), records(2)
    server.records['a.b.app.internal.'], server.records['a.b.'] = records(3), records(4)
    rights = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    lb = begin(world, server, *['%s:%d' % (name, workers) for name in ('box.example', 'web', 'a.b')], discovery_max_drop=1,
               wrapper=['unshare', *rights, '--mount', 'sh', '-c', MOUNT, 'sh', hosts, conf])
    wait_known(lb, addresses(workers, 0, 1, 3))
    conf.write_text('search other.internal\n')
    wait_known(lb, addresses(workers, 0, 2, 4))
    lb.process.wait_logged('resolver-config-changed')
    hosts.write_text('%s box.example\n%s box.example\n' % (ip(0), ip(5)))
    wait_known(lb, addresses(workers, 0, 2, 4, 5))


def srv(priority, weight, port, target):
    return 'SRV', '%d %d %d %s' % (priority, weight, port, target)


SERVICE = '_http._tcp.app.internal'


def start_service(world, server, **more):
    return begin(world, server, {'srv': SERVICE}, **{'max_connections': 10, **more})


def test_every_target_of_a_service_is_a_worker_with_its_port_and_its_part_by_weight(world, server, workers):
    server.records[SERVICE + '.'] = [srv(1, 30, workers, 'a.app.internal.'), srv(1, 10, workers, 'b.app.internal.'),
                                     srv(1, 0, workers, 'c.app.internal.')]
    for i, letter in enumerate('abc'):
        server.records['%s.app.internal.' % letter] = records(i)
    lb = start_service(world, server)
    wait_known(lb, addresses(workers, 0, 1, 2))
    limits = [lb.workers()[many_workers.address(i, workers)]['connections']['max'] for i in range(3)]
    assert limits == [10, 4, 1]
    assert name_of(lb)['name'] == SERVICE
    # A target without an address is left out.
    del server.records['b.app.internal.']
    wait_known(lb, addresses(workers, 0, 2))
    # One that cannot be resolved now makes the whole answer a failed one.
    server.records['d.app.internal.'] = []
    server.records[SERVICE + '.'].append(srv(1, 1, workers, 'd.app.internal.'))

    def answer(query, tcp):
        failed = query.question[0].name.to_text() in ('a.app.internal.', 'd.app.internal.')
        return negative(dns.rcode.SERVFAIL)(query, tcp) if failed else server.by_records(query, tcp)
    server.answer = answer
    wait_until(lambda: name_of(lb)['problem'], 'a problem')
    assert known(lb) == addresses(workers, 0, 2)


def test_targets_of_a_higher_priority_number_serve_only_while_none_of_a_lower_one_is_available(world, server):
    port = free_port()

    def by_name(name):
        return serve(lambda c, h, b: c.respond(name))
    first = [world.scripted(by_name(b'first'), host=ip(i), port=port) for i in range(2)]
    world.scripted(by_name(b'second'), host=ip(2), port=port)
    server.records[SERVICE + '.'] = [srv(1, 1, port, 'a.app.internal.'), srv(2, 1, port, 'b.app.internal.')]
    server.records['a.app.internal.'], server.records['b.app.internal.'] = records(0, 1), records(2)
    lb = start_service(world, server, eject_time='200ms', eject_probe='50ms')
    wait_known(lb, addresses(port, 0, 1, 2))
    last = many_workers.address(2, port)
    assert lb.workers()[last]['state'] == 'reserve'
    with Load([lb.address], clients=2) as load:
        assert {lb.get('/').body for _ in range(20)} == {b'first'}
        for s in first:
            s.close()
        wait_until(lambda: lb.get('/').body == b'second', 'the reserve')
        load.go_on()
        again = [world.scripted(by_name(b'first'), host=ip(i), port=port) for i in range(2)]
        wait_until(lambda: lb.workers()[last]['state'] == 'reserve', 'the first ones to be back')
        load.go_on()
        assert {lb.get('/').body for _ in range(20)} == {b'first'} and again[0].requests


def test_more_addresses_than_are_used_are_reported(world, server, workers):
    many = ['127.%d.%d.%d' % (2 + i // 62500, i // 250 % 250, i % 250 + 1) for i in range(10500)]
    server.records[SERVICE + '.'] = [srv(1, 1, workers, '%s.app.internal.' % letter) for letter in 'abc']
    for i, letter in enumerate('abc'):
        server.records['%s.app.internal.' % letter] = [('A', a) for a in many[i * 3500:(i + 1) * 3500]]
    server.ttl = 3600
    lb = start_service(world, server, ready=False, resolve_interval='1h', worker_wait_timeout='100ms')
    lb.process.wait_logged('worker-addresses-truncated')
    wait_until(lambda: name_of(lb)['addresses'] == 2000, 'the addresses')
    assert name_of(lb)['truncated'] is True and len(lb.workers()) == 2000


def test_a_dead_name_server_blocks_no_request(world, server, workers):
    server.answer = lambda query, tcp: None
    lb = begin(world, server, '%s:%d' % (NAME, workers), many_workers.address(0, workers), start_wait='0s')
    trace = world.directory / 'strace'
    tracer = subprocess.Popen(['strace', '-f', '-T', '-e', 'trace=recvfrom,recvmsg,connect,sendto,select,pselect6,ppoll', '-o', trace,
                               '-p', str(lb.process.pid)], stderr=subprocess.PIPE, text=True)
    try:
        assert 'attached' in tracer.stderr.readline()
        threading.Thread(target=tracer.stderr.read, daemon=True).start()
        wait_until(lambda: name_of(lb)['failures'] >= 1, 'a failed answer')
        assert lb.get('/').status == 200
    finally:
        tracer.terminate()
        tracer.wait()
    control = [line for line in trace.read_text().splitlines() if line.startswith('%d ' % lb.process.pid)]
    assert [line for line in control if server.address.rpartition(':')[2] in line], control[:20]
    assert not [line for line in control if 'select' in line or 'ppoll' in line]
    # The first attempt alone waits for two seconds.
    assert not [line for line in control if float(line.rpartition('<')[2].rstrip('>') or 0) > 1.5]
