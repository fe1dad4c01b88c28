# SPDX-License-Identifier: Apache-2.0
"""
Clients that send first bytes of another protocol, at each kind of listener: the response is as documented or absent, the event is
counted as documented, nothing reaches a worker, and the next client is served.
"""
import contextlib
import random
import re
import socket
import ssl

import pytest
from agent_support import TinyAgent
from support.base import free_port, wait_until
from support.certificates import Pair, blind_context
from support.http import Client, connect, get
from support.http2 import PREFACE, SETTINGS, Http2, frame, only_settings
from support.scripted import hello, serve

SEED = random.randrange(1 << 32)
LENGTHS = [1, 2, 3, 4, 5, 6, 8, 9, 10, 15, 16, 23, 24, 25, 32, 33, 34, 48, 64, 100, 255, 256, 500, 1000, 1460, 4096, 16384, 16393, 65536, 200_000]
GET = b'GET / HTTP/1.1\r\nHost: test.example\r\n\r\n'
POST = b'POST / HTTP/1.1\r\nHost: test.example\r\nContent-Length: 5\r\n\r\nhello'
PROXY = {'PROXY 1': b'PROXY TCP4 192.0.2.7 198.51.100.9 51000 443\r\n',
         'PROXY 2': b'\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x09\xc7\x38\x01\xbb'}
OTHERS = {
    'SSH': b'SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7\r\n',
    'SMTP': b'EHLO client.example\r\n',
    'SMTP, more': b'EHLO client.example\r\nMAIL FROM:<a@client.example>\r\nRCPT TO:<b@test.example>\r\nDATA\r\n',
    'FTP': b'USER anonymous\r\n',
    'SIP': b'OPTIONS sip:test.example SIP/2.0\r\nVia: SIP/2.0/TCP client.example\r\n\r\n',
    'RTSP': b'OPTIONS rtsp://test.example/ RTSP/1.0\r\nCSeq: 1\r\n\r\n',
    'SMB': b'\0\0\0\x85\xffSMBr\0\0\0\0\x18\x53\xc8' + bytes(120),
    'RDP': b'\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0',
    'DNS': b'\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04test\x07example\0\0\x01\0\x01',
    'Redis': b'*1\r\n$4\r\nPING\r\n',
    'memcached': b'stats\r\n',
    'MongoDB': b'\x3f\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0admin.$cmd\0\0\0\0\0\xff\xff\xff\xff\x18\0\0\0\x10isMaster\0\x01\0\0\0\0',
    'one NUL': b'\0', 'NULs': bytes(100), 'many NULs': bytes(100_000),
    'NULs, then a request': bytes(8) + GET, 'line ends': b'\r\n' * 1000, 'blanks': b' ' * 1000,
    'a byte order mark': b'\xef\xbb\xbf' + GET, 'UTF-16': GET.decode().encode('utf-16'),
}


def client_hello(version=None):
    """The first bytes of a TLS client."""
    context = blind_context(version)
    context.set_alpn_protocols(['h2', 'http/1.1'])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname='test.example')
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def random_ones():
    """Random bytes of many lengths. They may start like a valid protocol by chance."""
    draw = random.Random(SEED)
    print('seed', SEED)
    return {'%d random bytes, %d' % (n, i): draw.randbytes(n) for n in LENGTHS for i in range(2)}


class Front:
    """A load balancer with listeners of each kind, and one worker that records its requests."""

    def __init__(self, world, **settings):
        self.worker = world.scripted(serve(hello))
        self.plain, self.tls, self.proxied = ('127.0.0.1:%d' % free_port() for _ in range(3))
        self.log = world.directory / 'access.log'
        pair = Pair(world.directory, 'front', ['test.example'])
        self.lb = world.resumelb({'workers': [self.worker.address], 'access_log': str(self.log), **settings}, listen=[
            {'address': self.plain}, {'address': self.tls, 'tls': pair.entry, 'http2': True},
            {'address': self.proxied, 'proxy_protocol': True}])

    def secure(self, *protocols):
        context = blind_context()
        if protocols:
            context.set_alpn_protocols(list(protocols))
        s = context.wrap_socket(connect(self.tls), server_hostname='test.example')
        assert s.selected_alpn_protocol() == (protocols[0] if protocols else None)
        return s

    def counts(self, family):
        """{label: count} of the counters that are not 0."""
        text = get(self.lb.admin, '/metrics', host=self.lb.admin).text
        found = re.findall(r'^resumelb_%s\{reason="(.*)"\} (\d+)$' % family, text, re.M)
        return {reason: int(n) for reason, n in found if n != '0'}

    def serves(self):
        """Checks that each listener serves the next client, and that the worker has received only these requests."""
        del self.worker.requests[:]
        assert self.lb.process.alive()
        assert get(self.plain).status == 200
        with Client(None, sock=self.secure()) as c:
            assert c.request().status == 200
        with Http2(int(self.tls.split(':')[1])) as c:
            assert c.get(1).status == '200'
        with Client(self.proxied) as c:
            c.send_raw(PROXY['PROXY 1'])
            assert c.request().status == 200
        return len(self.worker.requests) == 4


def all_of(sock, data):
    """Sends DATA and closes the sending side. Returns the received data until the peer closes."""
    got = b''
    try:
        sock.sendall(data)
        socket.socket.shutdown(sock, socket.SHUT_WR)        # the method of SSLSocket would also end reading
        while more := sock.recv(65536):
            got += more
    except (OSError, ValueError):
        pass
    return got


@pytest.fixture
def front(world):
    return Front(world)


HELLOS = {'TLS 1.3': client_hello(), 'TLS 1.2': client_hello(ssl.TLSVersion.TLSv1_2)}
PREFACES = {'a preface': PREFACE, 'a preface with SETTINGS': PREFACE + frame(SETTINGS), 'half a preface': PREFACE[:12],
            'the last byte wrong': PREFACE[:-1] + b'x' + frame(SETTINGS), 'another word': b'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n'}
ALERT = b'\x15\x03\x03'
CASES = {**OTHERS, **PROXY, **HELLOS, **PREFACES}
# At HTTP/1 listeners a complete head gets a response; an incomplete one when the client closes gets none.
LINE, BARE, BLANK, VERSION = ('malformed request line', 'line that does not end in CRLF', 'blank line before the request',
                              'HTTP version not offered here')
RESPONSES = {'SIP': (400, LINE), 'RTSP': (400, LINE), 'NULs, then a request': (400, LINE), 'many NULs': (431, 'header fields too large'),
           'line ends': (400, BLANK), 'PROXY 2': (400, BLANK), 'a byte order mark': (400, 'malformed method'), 'UTF-16': (400, BARE),
           'TLS 1.3': (400, BARE), 'TLS 1.2': (400, BARE), **{name: (505, VERSION) for name in PREFACES if name != 'half a preface'}}


def status(got):
    found = re.match(rb'HTTP/1\.1 (\d{3}) ', got)
    return int(found[1]) if found else None


def logged(front):
    """{reason: count} of the rejected requests in the access log."""
    found = {}
    for line in front.log.read_text().splitlines():
        if 'outcome="rejected"' in line:
            reason = re.search(r'reason="([^"]*)"', line)[1]
            found[reason] = found.get(reason, 0) + 1
    return found


def counted(front, expected, family='client_rejected_total'):
    """Waits for the expected counters, and checks that the access log has the same rejections."""
    wait_until(lambda: sum(front.counts(family).values()) >= sum(expected.values()), '%s of %s' % (expected, family))
    assert front.counts(family) == expected
    if family == 'client_rejected_total':
        wait_until(lambda: logged(front) == expected, 'the access log: %s' % logged(front))
        assert front.counts('tls_failures_total') == {}
    else:
        assert logged(front) == front.counts('client_rejected_total') == {}


def tally(reasons):
    return {reason: reasons.count(reason) for reason in reasons}


HTTP1 = {'plain': lambda front: connect(front.plain), 'http/1.1 by ALPN': lambda front: front.secure('http/1.1'),
         'no ALPN': lambda front: front.secure()}


@pytest.mark.parametrize('where', HTTP1)
def test_where_http1_is_spoken(front, where):
    for name, data in CASES.items():
        with HTTP1[where](front) as s:
            got = all_of(s, data)
        # The response may be lost if much data follows the invalid part.
        assert status(got) == RESPONSES.get(name, (None,))[0] or (len(data) > 50_000 and got == b''), (name, got)
        assert not got or b'\r\nConnection: close\r\n' in got or b'\r\nconnection: close\r\n' in got, got
    counted(front, tally([reason for _, reason in RESPONSES.values()]))
    assert front.worker.requests == [] and front.serves()


@pytest.mark.parametrize('where', HTTP1)
def test_random_bytes_where_http1_is_spoken(front, where):
    for name, data in random_ones().items():
        with HTTP1[where](front) as s:
            got = all_of(s, data)
        assert got == b'' or status(got) in (400, 431, 505), (name, got)
    wait_until(lambda: logged(front) == front.counts('client_rejected_total'), 'the access log')
    assert front.worker.requests == [] and front.serves()


def test_a_client_that_stays_without_a_request_gets_a_response_in_the_end(world):
    front = Front(world, header_timeout='1s')
    with connect(front.plain) as s:
        s.sendall(OTHERS['SSH'])
        assert status(s.recv(65536)) == 408
    counted(front, {'request head too slow': 1})
    assert front.serves()


def test_no_tls_where_tls_is_spoken(front):
    clear = ['SIP', 'RTSP', *PREFACES]          # they start like a request
    for name, data in CASES.items():
        if name not in HELLOS:
            with connect(front.tls) as s:
                got = all_of(s, data)
            # OpenSSL rejects data that is not TLS with an alert.
            assert status(got) == 400 if name in clear else got == b'' or got[:3] == ALERT, (name, got)
    counted(front, {'plain-http': len(clear), 'closed': len(CASES) - len(HELLOS) - len(clear)}, 'tls_failures_total')
    for name, data in random_ones().items():
        with connect(front.tls) as s:
            assert status(all_of(s, data)) in (None, 400), name
    wait_until(lambda: sum(front.counts('tls_failures_total').values()) == len(CASES) - len(HELLOS) + 2 * len(LENGTHS), 'all to be counted')
    assert front.worker.requests == [] and front.serves()


def test_handshakes_with_wrong_bytes_in_them(front):
    draw = random.Random(SEED)
    print('seed', SEED)
    sent = []
    for hello_ in HELLOS.values():
        sent += [hello_[:n] for n in range(0, len(hello_), 7)][1:]
        for _ in range(100):
            wrong = bytearray(hello_)
            for _ in range(draw.choice((1, 1, 3, 20))):
                wrong[draw.randrange(len(wrong))] = draw.randrange(256)
            sent.append(bytes(wrong))
        sent += [hello_[:5] + draw.randbytes(len(hello_) - 5), hello_ + draw.randbytes(500), hello_ + hello_, hello_ + GET]
    for data in sent:
        with connect(front.tls) as s:
            all_of(s, data)
    wait_until(lambda: sum(front.counts('tls_failures_total').values()) == len(sent), 'all to be counted')
    assert front.worker.requests == [] and front.serves()


PREFACE_WRONG = 'wrong connection preface of HTTP/2'


def test_no_preface_where_http2_was_negotiated(front):
    wrong = {**OTHERS, **PROXY, **HELLOS, 'POST': POST, 'many requests': GET * 1000, 'a long one': GET[:-2] + b'X: %s\r\n\r\n' % (b'y' * 100_000),
             'the last byte wrong': PREFACES['the last byte wrong'], 'another word': PREFACES['another word'],
             **{'%d right bytes, then a request' % n: PREFACE[:n] + GET for n in range(1, len(PREFACE))}}
    for name, data in wrong.items():
        with front.secure('h2') as s:
            assert only_settings(all_of(s, data)), name
    counted(front, {PREFACE_WRONG: len(wrong)})
    for name, data in random_ones().items():
        with front.secure('h2') as s:
            assert only_settings(all_of(s, data)) or PREFACE.startswith(data), name
    wait_until(lambda: logged(front) == front.counts('client_rejected_total'), 'the access log')
    assert front.worker.requests == [] and front.serves()


@pytest.mark.parametrize('start', [b'', frame(SETTINGS)], ids=['no SETTINGS', 'SETTINGS'])
def test_other_bytes_behind_a_preface(front, start):
    """
    The bytes are at least one frame header, nearly always with an invalid length: the client receives GOAWAY, or is
    disconnected.
    """
    cases = {name: data for name, data in {**OTHERS, **PROXY, **HELLOS, 'GET': GET, **random_ones()}.items() if len(data) >= 9}
    for name, data in cases.items():
        with Http2(int(front.tls.split(':')[1]), preface=PREFACE + start + data) as c:     # the client sends SETTINGS after it
            with contextlib.suppress(OSError):          # the connection is closed
                socket.socket.shutdown(c.sock, socket.SHUT_WR)
            c.until(lambda: False)
            assert c.goaway in ('PROTOCOL_ERROR', 'FRAME_SIZE_ERROR', None), (name, c.goaway)
            assert not c.streams or all(s.status is None for s in c.streams.values()), name
    assert front.worker.requests == [] and front.serves()


def test_no_proxy_header_where_one_is_expected(front):
    wrong = {**OTHERS, **HELLOS, **PREFACES, 'GET': GET}
    for name, data in wrong.items():
        with connect(front.proxied) as s:
            assert all_of(s, data) == b'', name
    counted(front, {'no PROXY header': len(wrong)})
    for name, data in random_ones().items():
        with connect(front.proxied) as s:
            assert all_of(s, data) == b'', name
    assert front.worker.requests == [] and front.serves()


def test_administration_addresses_and_an_agent_take_it_too(world):
    front = Front(world)
    agent = TinyAgent(world)
    addresses = [front.lb.admin, agent.admin, agent.addresses[0]]
    wait_until(lambda: responds(agent.addresses[0]), 'its process')
    for address in addresses:
        for name, data in {**CASES, **random_ones()}.items():
            with connect(address) as s:
                got = all_of(s, data)
            assert got == b'' or status(got) in (400, 431, 505), (address, name, got)
        assert front.lb.process.alive() and agent.process.alive() and responds(agent.addresses[0])
    assert agent.json() and front.serves()


def responds(address):
    try:
        return get(address).status == 200
    except OSError:
        return False
