# SPDX-License-Identifier: Apache-2.0
"""Changes that a gateway makes to forwarded requests (RFC 9110 7.6), and the state of the connection afterwards."""
from .conformance import Case
from .request_cases import END, GET, NEXT, POST, chunked, free, get, post, rejected

ASKED_NEXT = ('GET', '/next', b'')


def hop_cases():
    g = 'hop by hop'
    for name in ('Keep-Alive', 'Proxy-Connection', 'TE', 'Trailer', 'Upgrade', 'Proxy-Authorization',
                 'HTTP2-Settings'):
        only = 'resumelb' if name.startswith(('Proxy-A', 'HTTP2', 'Proxy-C', 'Keep')) else None
        yield Case(g, name + ' does not pass', get(name.encode() + b': x'), lacks=[name.lower()], only=only)
    for listed in ('X-One', 'x-one', 'close, X-One', 'X-One, X-Two', ' X-One ', ',X-One,', 'keep-alive,\tX-One'):
        yield Case(g, 'what Connection names: %r' % listed, get(b'Connection: ' + listed.encode(), b'X-One: 1'),
                   lacks=['x-one'], after=None if 'close' in listed else 'open')
    yield Case(g, 'two Connection fields', get(b'Connection: X-One', b'X-One: 1', b'X-Two: 2', b'Connection: X-Two'),
               lacks=['x-one', 'x-two'])
    yield Case(g, 'others pass', get(b'Connection: X-One', b'X-Three: 3'), has={'x-three': [b'3']})
    yield Case(g, 'Connection: Host', get(b'Connection: Host'), has={'host': [b'a.example']})
    yield Case(g, 'Connection: Content-Length', post(b'Connection: Content-Length', b'Content-Length: 3', body=b'abc'),
               requests=[POST])
    yield Case(g, 'Connection: Transfer-Encoding', chunked(b'3\r\nabc\r\n0\r\n\r\n', b'Connection: Transfer-Encoding'),
               requests=[POST])
    for name in (b'X-Forwarded-For', b'X-Forwarded-Proto', b'X-Forwarded-Host'):
        yield Case(g, 'Connection: ' + name.decode(), get(b'Connection: close, ' + name), after='closed',
                   check=says(name.decode().lower()), only='resumelb' if name.endswith(b'Host') else None)
    g = 'upgrade'
    h2c = [b'HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA', b'Connection: Upgrade, HTTP2-Settings']
    yield Case(g, 'h2c', get(b'Upgrade: h2c', *h2c), lacks=['upgrade', 'http2-settings'])
    yield Case(g, 'h2c with a body', post(b'Content-Length: 3', b'Upgrade: h2c', *h2c, body=b'abc'), requests=[POST],
               lacks=['upgrade', 'http2-settings'])
    for name in (b'h2', b'TLS/1.0', b'foo/2', b'HTTP/2.0', b'h2c, websocket', b'IRC/6.9'):
        yield Case(g, name.decode(), get(b'Upgrade: ' + name, b'Connection: Upgrade'), lacks=['upgrade'])
    ws = [b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', b'Sec-WebSocket-Version: 13']
    yield Case(g, 'websocket', get(b'Upgrade: websocket', b'Connection: Upgrade', *ws), after=None,
               has={'upgrade': [b'websocket']})
    yield Case(g, 'websocket in POST', post(b'Upgrade: websocket', b'Connection: Upgrade', *ws, b'Content-Length: 0'),
               requests=[('POST', '/c', b'')], lacks=['upgrade'], only='resumelb')
    yield Case(g, 'websocket that Connection does not name', get(b'Upgrade: websocket', *ws), lacks=['upgrade'],
               only='resumelb')
    yield Case(g, 'websocket in HTTP/1.0', get(b'Upgrade: websocket', b'Connection: Upgrade', *ws,
                                               version=b'HTTP/1.0'), lacks=['upgrade'], after='closed', only='resumelb')
    # Other proxies may accept it as HTTP/2 with prior knowledge.
    yield rejected(g, 'HTTP/2 without having asked', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', None, status=(400, 405, 505),
                  only='resumelb')


def says(name, value=None):
    def check(out):
        head = out.arrived[0].head.lower()
        lines = [line for line in head.split(b'\r\n') if line.startswith(name.encode() + b':')]
        if len(lines) != 1 or (value is not None and lines[0].partition(b':')[2].strip() != value):
            return '%s: %r' % (name, lines)
        return None
    return check


def claim_cases():
    g = 'claims'
    for form in (b'X-Forwarded-For', b'x-forwarded-for', b'X_Forwarded_For', b'X-Forwarded_For'):
        yield Case(g, form.decode(), get(form + b': 9.9.9.9'), check=says('x-forwarded-for', b'127.0.0.1'),
                   lacks=['x_forwarded_for', 'x-forwarded_for'], only='resumelb' if b'_' in form else None)
    yield Case(g, 'two X-Forwarded-For', get(b'X-Forwarded-For: 9.9.9.9', b'X-Forwarded-For: 8.8.8.8'),
               check=says('x-forwarded-for', b'127.0.0.1'))
    yield Case(g, 'X-Forwarded-Proto', get(b'X-Forwarded-Proto: https'), check=says('x-forwarded-proto', b'http'))
    yield Case(g, 'X-Forwarded-Host', get(b'X-Forwarded-Host: b'), check=says('x-forwarded-host', b'a.example'),
               only='resumelb')
    for name in ('Forwarded', 'X-Forwarded-Port', 'X-Forwarded-Ssl', 'X-Forwarded-Protocol', 'X-Forwarded-Prefix',
                 'X-Real-IP', 'X_Real_IP', 'X_Forwarded_Ssl', 'Resumelb-Feed', 'resumelb_feed', 'Resumelb-Unprocessed'):
        yield Case(g, name + ' of a stranger', get(name.encode() + b': on'), lacks=[name.lower()], only='resumelb')
    yield Case(g, 'Resumelb-Class is ours', get(b'Resumelb-Class: zz', b'Resumelb_Class: zz'), only='resumelb',
               check=says('resumelb-class'), lacks=['resumelb_class'])
    yield Case(g, 'Via is added', get(), check=lambda out: None if b'\r\nvia: 1.1 ' in out.arrived[0].head.lower()
               else 'no Via', only='resumelb')
    yield Case(g, 'Via is appended', get(b'Via: 1.0 fred'), only='resumelb', check=lambda out: None if
               out.arrived[0].head.lower().index(b'via: 1.0 fred') < out.arrived[0].head.lower().rindex(b'via: 1.1 ')
               else 'order')
    yield Case(g, 'Via has HTTP/1.0', get(version=b'HTTP/1.0'), after='closed', only='resumelb', check=lambda out: None
               if b'\r\nvia: 1.0 ' in out.arrived[0].head.lower() else 'no Via')
    for name in (b'Accept', b'Range', b'If-Match', b'If-None-Match', b'Referer', b'Origin', b'Date', b'From', b'Age',
                 b'Cache-Control', b'Pragma', b'Content-Type', b'Content-Encoding', b'Max-Forwards', b'X_Under', b'Accept-Encoding',
                 b'Access-Control-Request-Method', b'User-Agent', b'Warning', b'Server', b'Sec-Fetch-Mode'):
        yield Case(g, '%s passes' % name.decode(), get(name + b': 7'), has={name.decode().lower(): [b'7']},
                   only='resumelb' if b'_' in name else None)


def response_says(name, value):
    def check(out):
        got = out.responses[0][1].get(name)
        ok = got is None or got.lower() == value if value == 'keep-alive?' else (got or '').lower() == value
        return None if ok else '%s: %r' % (name, got)
    return check


def connection_cases():
    g = 'connection'
    old = b'HTTP/1.0'
    yield Case(g, 'HTTP/1.1 stays open', get())
    yield Case(g, 'close', get(b'Connection: close'), after='closed', check=response_says('connection', 'close'))
    yield Case(g, 'CLOSE', get(b'Connection: CLOSE'), after='closed')
    yield Case(g, 'close in a list', get(b'Connection: x, close'), after='closed')
    yield Case(g, 'HTTP/1.0 closes', get(version=old), after='closed')
    yield Case(g, 'HTTP/1.0 with keep-alive', get(b'Connection: keep-alive', version=old), after='open',
               check=response_says('connection', 'keep-alive'))
    yield Case(g, 'HTTP/1.0 with Keep-Alive', get(b'Connection: Keep-Alive', version=old), after='open')
    yield free(g, 'HTTP/1.0 with close and keep-alive', get(b'Connection: close, keep-alive', version=old), 'pass',
               after='closed')
    yield Case(g, 'bytes after close are no request', get(b'Connection: close') + NEXT, after='closed')
    yield Case(g, 'garbage after close', get(b'Connection: close') + b'\0\1\2\r\n\r\n', after='closed')
    yield Case(g, 'HTTP/1.0 and a next one', get(version=old) + NEXT, after='closed')
    g = 'pipelining'
    yield Case(g, '50 requests', get() * 50, requests=[GET] * 50)
    yield Case(g, 'after a body', post(b'Content-Length: 3', body=b'abc') + get(), requests=[POST, GET])
    yield Case(g, 'after chunks', chunked(b'3\r\nabc\r\n0\r\n\r\n') + get(), requests=[POST, GET])
    yield Case(g, '20 bodies', (post(b'Content-Length: 3', body=b'abc') + chunked(b'3\r\nabc\r\n0\r\n\r\n')) * 10,
               requests=[POST] * 20)
    yield Case(g, 'HEAD and GET', get(method=b'HEAD') + get(), requests=[('HEAD', '/c', b''), GET])
    yield Case(g, 'a body that looks like a request', post(b'Content-Length: %d' % len(NEXT), body=NEXT) + get(),
               requests=[('POST', '/c', NEXT), GET])
    yield rejected(g, 'good ones before a bad one', get() * 3 + b'GET /c HTTP/1.1\r\n\r\n' + NEXT, 'no Host',
                  requests=[GET] * 3)
    yield rejected(g, 'a bad one before good ones', get(b'X : y') + NEXT * 3, 'malformed or folded header field')
    g = 'pieces'
    for name, data, asked in [('a request', get(b'X: y'), [GET]), ('two', get() + NEXT, [GET, ASKED_NEXT]),
                              ('a body', post(b'Content-Length: 3', body=b'abc'), [POST]),
                              ('chunks', chunked(b'3;a="b"\r\nabc\r\n0\r\nA: b\r\n\r\n') + NEXT, [POST, ASKED_NEXT]),
                              ('an empty line before', b'\r\n' + get(), [GET])]:
        yield Case(g, name + ', byte by byte', [data[i:i + 1] for i in range(len(data))], requests=asked)
        for i in range(1, len(data), 7):
            yield Case(g, '%s, cut at %d' % (name, i), [data[:i], data[i:]], requests=asked)
    g = 'cut short'
    whole = get(b'X: y')
    for i in range(1, len(whole) - 1, 3):
        yield rejected(g, 'head ends after %d bytes' % i, whole[:i], None, fin=True, after=None)
    yield rejected(g, 'nothing at all', b'', None, fin=True, after=None)


def expect_cases():
    g = 'expect'

    def interim(n):
        return lambda out: None if out.interim == [100] * n else 'interim: %r' % out.interim
    yield Case(g, '100-continue', post(b'Expect: 100-continue', b'Content-Length: 3', body=b'abc'), requests=[POST])
    yield Case(g, '100-Continue in other case', post(b'Expect: 100-Continue', b'Content-Length: 3', body=b'abc'),
               requests=[POST])
    yield Case(g, 'not said twice', post(b'Expect: 100-continue', b'Content-Length: 3', body=b'abc'), requests=[POST],
               lacks=['expect'], only='resumelb')
    yield Case(g, 'HTTP/1.0 gets no 100 response', get(b'Expect: 100-continue', b'Content-Length: 3', method=b'POST',
                                                       version=b'HTTP/1.0') + b'abc', requests=[POST], after='closed',
               check=interim(0))
    yield Case(g, 'without a body', get(b'Expect: 100-continue'), check=interim(0), only='resumelb')
    yield rejected(g, 'no 100 for what is rejected', post(b'Expect: 100-continue', b'Content-Length: 3',
                                                        b'Transfer-Encoding: chunked'),
                  'both Content-Length and Transfer-Encoding', only='resumelb')


def garbage_cases():
    g = 'garbage'
    hello = b'\x16\x03\x01\x00\xf5\x01\x00\x00\xf1\x03\x03' + bytes(range(200)) + b'\r\n\r\n'
    for name, data in [('TLS', hello), ('SSLv2', b'\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10' + b'\r\n' * 20),
                       ('zeros', bytes(1000) + END), ('0xff', b'\xff' * 1000 + END), ('SSH', b'SSH-2.0-OpenSSH_9\r\n\r\n'),
                       ('SMTP', b'EHLO a.example\r\n\r\n'), ('a response', b'HTTP/1.1 200 OK\r\nHost: a\r\n\r\n'),
                       ('PROXY', b'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n' + get()),
                       ('PROXY, version 2', b'\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c' + bytes(12) + get()),
                       ('UTF-16', get().decode().encode('utf-16')), ('a byte order mark', b'\xef\xbb\xbf' + get()),
                       ('redis', b'*1\r\n$4\r\nPING\r\n\r\n'), ('memcached', b'get key\r\n\r\n'),
                       ('SOCKS', b'\x05\x01\x00' + END), ('FastCGI', b'\x01\x01\x00\x01\x00\x08\x00\x00' + END)]:
        yield rejected(g, name, data, None)


def cases():
    for part in (hop_cases, claim_cases, connection_cases, expect_cases, garbage_cases):
        yield from part()
