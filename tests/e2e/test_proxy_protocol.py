# SPDX-License-Identifier: Apache-2.0
"""PROXY headers: a real HAProxy in front sends the address of the client; headers of other peers are rejected."""
import fcntl
import json
import pathlib
import socket
import ssl
import struct
import subprocess

import pytest
from support.base import BIN, LIMIT, free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, connect, get
from support.scripted import hello, serve

BY_ADDRESS = {'regex': {'variable': 'REMOTE_ADDR', 'pattern': '^(?<class>.*)$'}}
SIGNATURE = b'\r\n\r\n\0\r\nQUIT\n'
REQUEST = b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n'
TEXT = b'PROXY TCP4 192.0.2.7 198.51.100.9 51000 443\r\n'


def binary(source='192.0.2.7', destination='198.51.100.9', command=0x21, more=b''):
    family = socket.AF_INET6 if ':' in source else socket.AF_INET
    body = (socket.inet_pton(family, source) + socket.inet_pton(family, destination) +
            struct.pack('>HH', 51000, 443) + more)
    return SIGNATURE + bytes([command, 0x21 if ':' in source else 0x11]) + struct.pack('>H', len(body)) + body


class Front:
    """A load balancer with a listener that requires the header, and its worker."""

    def __init__(self, world, listen=None, **settings):
        self.worker = world.scripted(serve(hello))
        self.log = world.directory / 'access.log'
        self.address = '127.0.0.1:%d' % free_port()
        listener = dict({'address': self.address, 'proxy_protocol': True}, **(listen or {}))
        self.lb = world.resumelb(dict({'workers': [{'address': self.worker.address}], 'classifier': BY_ADDRESS,
                                       'access_log': str(self.log), 'access_log_format': 'json'}, **settings),
                                 listen=[listener])

    def seen(self):
        """The client address in X-Forwarded-For and the class of the last request at the worker."""
        head = self.worker.requests[-1][0].decode().lower().split('\r\n')
        fields = dict(line.split(': ', 1) for line in head[1:])
        return fields['x-forwarded-for'], fields['resumelb-class']

    def scheme(self):
        """X-Forwarded-Proto of the last request."""
        head = self.worker.requests[-1][0].decode().lower().split('\r\n')
        return dict(line.split(': ', 1) for line in head[1:])['x-forwarded-proto']

    def lines(self, n):
        wait_until(lambda: self.log.exists() and self.log.read_text().count('\n') >= n, '%d lines' % n)
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def rejected(self, reason):
        text = get(self.lb.admin, '/metrics', host=self.lb.admin).text
        for line in text.splitlines():
            if line.startswith('resumelb_client_rejected_total{reason="%s"}' % reason):
                return int(line.split()[-1])
        raise AssertionError('no such reason: ' + reason)

    def send(self, data):
        s = connect(self.address)
        s.sendall(data)
        return s


def closed(s):
    """Returns whether the connection ended without any data."""
    with s:
        try:
            return s.recv(100) == b''
        except ConnectionResetError:
            return True


class HAProxy:
    def __init__(self, world, options, target, bind=''):
        self.address = '127.0.0.1:%d' % free_port()
        path = world.directory / 'haproxy.cfg'
        path.write_text('''
defaults
  mode tcp
  timeout connect 600s
  timeout client 600s
  timeout server 600s
listen passed_on
  bind %s %s
  server resumelb %s %s
''' % (self.address, bind, target, options))
        self.process = world.process(['/usr/sbin/haproxy', '-db', '-f', path], 'haproxy')
        wait_until(self.up, 'haproxy: ' + self.process.output())

    def up(self):
        assert self.process.alive(), self.process.output()
        try:
            connect(self.address).close()
        except OSError:
            return False
        return True

    def dial(self, source='127.0.0.77'):
        host, _, port = self.address.rpartition(':')
        return socket.create_connection((host, int(port)), timeout=LIMIT, source_address=(source, 0))


@pytest.mark.parametrize('options', ['send-proxy', 'send-proxy-v2', 'send-proxy-v2 proxy-v2-options crc32c,unique-id'])
def test_haproxy_in_front_names_the_client(world, options):
    front = Front(world)
    proxy = HAProxy(world, options, front.address)
    with Client(None, sock=proxy.dial()) as c:
        for _ in range(2):
            assert c.request().status == 200
            assert front.seen() == ('127.0.0.77', '127.0.0.77')
    assert [line['client'] for line in front.lines(2)] == ['127.0.0.77'] * 2


@pytest.mark.parametrize('options', ['send-proxy', 'send-proxy-v2'])
@pytest.mark.parametrize('http2', [False, True])
def test_tls_begins_behind_the_header(world, options, http2):
    pair = Pair(world.directory, 'cert', ['test.example'])
    front = Front(world, listen={'tls': pair.entry, 'http2': http2})
    proxy = HAProxy(world, options, front.address)
    port = proxy.address.rpartition(':')[2]
    r = subprocess.run(['curl', '-sS', '--max-time', str(LIMIT), '--cacert', pair.cert, '--interface', '127.0.0.77', '--resolve',
                        'test.example:%s:127.0.0.1' % port, '-w', ' %{http_version} %{http_code}',
                        'https://test.example:%s/' % port], capture_output=True, text=True)
    assert r.stdout.endswith(' 2 200' if http2 else ' 1.1 200'), r.stdout + r.stderr
    assert front.seen() == ('127.0.0.77', '127.0.0.77')


@pytest.mark.parametrize('options, scheme', [('send-proxy-v2-ssl', 'https'), ('send-proxy-v2', 'http'), ('send-proxy', 'http')])
def test_a_client_that_has_tls_with_haproxy_has_https_when_haproxy_reports_it(world, options, scheme):
    pair = Pair(world.directory, 'cert', ['test.example'])
    both = world.directory / 'both.pem'
    both.write_text(pathlib.Path(pair.cert).read_text() + pathlib.Path(pair.key).read_text())
    front = Front(world, classifier={'regex': {'variable': 'wsgi.url_scheme', 'pattern': '^(?<class>.*)$'}})
    proxy = HAProxy(world, options, front.address, bind='ssl crt %s' % both)
    with Client(None, sock=blind_context().wrap_socket(proxy.dial())) as c:
        assert c.request().status == 200
    assert front.seen() == ('127.0.0.77', scheme)
    assert front.scheme() == scheme


def test_a_client_without_tls_at_haproxy_has_http(world):
    front = Front(world)
    proxy = HAProxy(world, 'send-proxy-v2-ssl', front.address)
    with Client(None, sock=proxy.dial()) as c:
        assert c.request().status == 200
    assert front.scheme() == 'http'


def test_only_a_listed_proxy_may_report_that_a_client_has_tls(world):
    front = Front(world, listen={'proxy_from': ['127.0.0.70']})
    header = binary(more=b'\x20\0\5\1\0\0\0\0')
    assert closed(front.send(header + REQUEST)) and not front.worker.requests
    host, _, port = front.address.rpartition(':')
    with Client(None, sock=socket.create_connection((host, int(port)), LIMIT, source_address=('127.0.0.70', 0))) as c:
        c.send_raw(header)
        assert c.request(headers=[('X-Forwarded-Proto', 'http')]).status == 200
    assert front.scheme() == 'https'


def test_health_checks_of_haproxy_come_in_its_own_name(world):
    front = Front(world)
    proxy = HAProxy(world, 'send-proxy-v2 check inter 100ms fall 1000000 check-send-proxy', front.address)
    with Client(None, sock=proxy.dial()) as c:
        assert c.request().status == 200
    assert front.rejected('malformed PROXY header') == front.rejected('no PROXY header') == 0


@pytest.mark.parametrize('header', [
    TEXT, binary(), binary(more=b'\4\0\2xx\2\0\x05a.com'),
])
def test_bytes_in_one_segment_with_the_header_are_not_lost(world, header):
    front = Front(world)
    with Client(None, sock=front.send(header + REQUEST)) as c:
        assert c.receive().status == 200
        assert front.seen() == ('192.0.2.7', '192.0.2.7')
        assert c.request().status == 200, 'one header serves the whole connection'


@pytest.mark.parametrize('header', [TEXT, binary()])
def test_a_tls_hello_in_the_headers_segment_is_not_lost(world, header):
    pair = Pair(world.directory, 'cert', ['test.example'])
    front = Front(world, listen={'tls': pair.entry})
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = blind_context().wrap_bio(to_client, to_server, server_hostname='test.example')

    def step(what):
        while True:
            try:
                return what()
            except ssl.SSLWantReadError:
                if to_server.pending:
                    s.sendall(header_once.pop() + to_server.read() if header_once else to_server.read())
                data = s.recv(65536)
                assert data, 'ended early'
                to_client.write(data)
    header_once = [header]
    with connect(front.address) as s:
        step(tls.do_handshake)
        tls.write(REQUEST)
        s.sendall(to_server.read())
        assert step(lambda: tls.read(65536)).startswith(b'HTTP/1.1 200 ')
    assert front.seen()[0] == '192.0.2.7'


@pytest.mark.parametrize('header', [TEXT, binary(source='2001:db8::7', destination='2001:db8::1', more=b'\4\0\0')])
def test_an_unhurried_proxy_is_understood_byte_by_byte(world, header):
    front = Front(world)
    with Client(front.address) as c:
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(header)):
            c.send_raw(header[i:i + 1])
            # Wait until the byte was read before the next one is sent: no queue has data.
            wait_until(lambda: struct.unpack('i', unsent(c.sock))[0] == 0, 'the byte to be taken')
        assert c.request().status == 200
    assert front.seen()[0] == ('192.0.2.7' if header == TEXT else '2001:db8::7')


def unsent(s):
    return fcntl.ioctl(s.fileno(), 0x5411, b'\0\0\0\0')     # SIOCOUTQ


@pytest.mark.parametrize('header', [b'PROXY UNKNOWN\r\n', b'PROXY UNKNOWN ffff::1 anything\r\n', binary(command=0x20),
                                    SIGNATURE + b'\x20\x00\0\0', SIGNATURE + b'\x21\x00\0\3abc'])
def test_a_proxy_that_names_none_is_the_client_itself(world, header):
    front = Front(world)
    with Client(None, sock=front.send(header + REQUEST)) as c:
        assert c.receive().status == 200
    assert front.seen() == ('127.0.0.1', '127.0.0.1')


@pytest.mark.parametrize('data, reason', [
    (REQUEST, 'no PROXY header'),
    (b'\x16\x03\x01\x02\x00', 'no PROXY header'),
    (b'PROXY TCP4 192.0.2.7 198.51.100.9 51000\r\n' + REQUEST, 'malformed PROXY header'),
    (b'PROXY TCP4 192.0.02.7 198.51.100.9 51000 443\r\n' + REQUEST, 'malformed PROXY header'),
    (b'PROXY UNKNOWN ' + b'x' * 100, 'PROXY header too long'),
    (SIGNATURE + b'\x21\x11\xff\xff', 'PROXY header too long'),
    (SIGNATURE + b'\x11\x11\0\x0c', 'malformed PROXY header'),
    (binary(more=b'\3\0\4abcd') + REQUEST, 'PROXY header with a wrong checksum'),
])
def test_without_a_good_header_the_connection_is_closed_without_a_response(world, data, reason):
    front = Front(world)
    assert closed(front.send(data))
    assert front.rejected(reason) == 1
    line = front.lines(1)[0]
    assert (line['outcome'], line['reason'], line['client'], line['status']) == ('rejected', reason, '127.0.0.1', 400)
    assert not front.worker.requests
    with Client(None, sock=front.send(TEXT)) as c:
        assert c.request().status == 200


def test_a_header_that_does_not_come_in_time_is_not_waited_for(world):
    front = Front(world, header_timeout='5s')
    slow, silent = front.send(TEXT[:20]), front.send(b'')
    assert closed(slow) and closed(silent)
    assert front.rejected('PROXY header not whole within header_timeout') == 2


def test_a_connection_without_bytes_is_not_an_error_and_half_a_header_is(world):
    front = Front(world)
    front.send(b'').close()
    front.send(TEXT[:10]).close()
    wait_until(lambda: front.rejected('malformed PROXY header') == 1, 'the half header to be rejected')
    assert len(front.lines(1)) == 1


def test_only_the_networks_listed_get_it(world):
    front = Front(world, listen={'proxy_from': ['127.0.0.64/26', '::1']})
    host, _, port = front.address.rpartition(':')
    assert closed(front.send(TEXT + REQUEST))
    assert front.rejected('PROXY header expected, and the peer is none of proxy_from') == 1
    with Client(None, sock=socket.create_connection((host, int(port)), LIMIT, source_address=('127.0.0.70', 0))) as c:
        c.send_raw(TEXT)
        assert c.request().status == 200
    assert front.seen()[0] == '192.0.2.7'


def test_a_header_that_none_asked_for_is_a_bad_request(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [{'address': w.address}]})
    with Client(lb.address) as c:
        c.send_raw(TEXT + REQUEST)
        assert c.receive().status == 400
    assert not w.requests


def test_trusted_proxies_are_searched_for_behind_the_header(world):
    front = Front(world, trusted_proxies=['192.0.2.0/24'])
    with Client(None, sock=front.send(TEXT)) as c:
        assert c.request(headers=[('X-Forwarded-For', '203.0.113.5')]).status == 200
        assert front.seen()[0] == '203.0.113.5'
    with Client(None, sock=front.send(TEXT.replace(b'192.0.2.7', b'198.51.100.7'))) as c:
        assert c.request(headers=[('X-Forwarded-For', '203.0.113.5')]).status == 200
        assert front.seen()[0] == '198.51.100.7'


def test_rates_are_by_the_client_behind_the_proxy(world):
    front = Front(world, rates={'each': {'key': '{REMOTE_ADDR}', 'rate': '1/h', 'burst': 1}})
    for client, statuses in ((b'192.0.2.7', [200, 429]), (b'192.0.2.8', [200, 429])):
        got = []
        for _ in range(2):
            with Client(None, sock=front.send(TEXT.replace(b'192.0.2.7', client))) as c:
                got.append(c.request().status)
        assert got == statuses


def test_a_drain_does_not_wait_for_headers(world):
    front = Front(world)
    silent, half = front.send(b''), front.send(TEXT[:5])
    with Client(None, sock=front.send(TEXT)) as c:
        assert c.request().status == 200, 'all three have been accepted'
    front.lb.process.popen.terminate()
    assert front.lb.process.wait() == 0
    assert closed(silent) and closed(half)


@pytest.mark.parametrize('listen, said', [
    ({'address': '0.0.0.0:%d', 'proxy_protocol': True}, 'needs proxy_from'),
    ({'address': '[::]:%d', 'proxy_protocol': True}, 'needs proxy_from'),
    ({'address': '127.0.0.1:%d', 'proxy_protocol': True, 'proxy_from': ['10.0.0.1/8']}, 'beyond its prefix'),
    ({'address': '127.0.0.1:%d', 'proxy_protocol': True, 'proxy_from': ['proxy.example']}, 'expected a network'),
    ({'address': '127.0.0.1:%d', 'proxy_from': ['10.0.0.0/8']}, 'has no effect without proxy_protocol'),
])
def test_a_listener_that_would_trust_all_peers_is_rejected(world, listen, said):
    path = world.directory / 'bad.yaml'
    listen = dict(listen, address=listen['address'] % free_port())
    path.write_text('listen: [%s]\nworkers: [{address: "127.0.0.1:9"}]\n' % json.dumps(listen))
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and said in r.stderr, r.stderr


def test_unix_listeners_take_it_from_one_that_reaches_them(world, tmp_path):
    path = 'unix:' + str(tmp_path / 'front.sock')
    front = Front(world, listen={'address': path})
    front.address = path
    with Client(None, sock=front.send(binary())) as c:
        assert c.request().status == 200
    assert front.seen()[0] == '192.0.2.7'


@pytest.mark.parametrize('header', [b'PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.9 51000 443\r\n',
                                    binary('::ffff:192.0.2.7', '::ffff:198.51.100.9')])
def test_an_ipv4_mapped_client_is_the_ipv4_client(world, header):
    rate = {'rate': '1/d', 'burst': 1, 'match': {'path': 'prefix:/rated'}}
    front = Front(world, rates={'r': rate})
    for head, status in ((TEXT, b'200'), (header, b'429')):
        with front.send(head + REQUEST.replace(b' / ', b' /rated ')) as s:
            assert s.recv(4096).split()[1] == status
    with front.send(header + REQUEST) as s:
        assert s.recv(4096).split()[1] == b'200'
    assert front.seen() == ('192.0.2.7', '192.0.2.7')
    assert {line['client'] for line in front.lines(3)} == {'192.0.2.7'}


def test_mapped_clients_are_counted_each_by_its_address(world):
    front = Front(world, max_connections_per_address=1)
    held = [front.send(b'PROXY TCP6 ::ffff:192.0.2.%d ::1 1 2\r\n' % n + REQUEST) for n in range(1, 5)]
    assert [s.recv(4096).split()[1] for s in held] == [b'200'] * 4
    assert closed(front.send(b'PROXY TCP4 192.0.2.4 192.0.2.9 1 2\r\n' + REQUEST))
    for s in held:
        s.close()


def test_a_mapped_address_in_x_forwarded_for_is_the_ipv4_client(world):
    w = world.scripted(serve(hello))
    lb = world.resumelb({'workers': [{'address': w.address}], 'classifier': BY_ADDRESS, 'trusted_proxies': ['192.0.2.0/24', '127.0.0.1']})
    assert lb.get('/', headers=[('X-Forwarded-For', '198.51.100.7, ::ffff:192.0.2.1')]).status == 200
    assert 'resumelb-class: 198.51.100.7' in w.requests[-1][0].decode().lower()
    assert lb.get('/', headers=[('X-Forwarded-For', '::ffff:198.51.100.7')]).status == 200
    assert 'resumelb-class: 198.51.100.7' in w.requests[-1][0].decode().lower()
