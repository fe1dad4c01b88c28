# SPDX-License-Identifier: Apache-2.0
"""
Requests that a proxy must pass on completely or reject, according to RFC 9110 and 9112, and to our choice where they leave one.
Each case that passes requests /c; a request for any other target was smuggled.
"""
from .conformance import Case

END = b'\r\n\r\n'
NEXT = b'GET /next HTTP/1.1\r\nHost: a\r\n\r\n'
GET, POST = ('GET', '/c', b''), ('POST', '/c', b'abc')
TOKEN = set(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

LINE_END, HEADER = 'line that does not end in CRLF', 'malformed or folded header field'
LINE, METHOD = 'malformed request line', 'malformed method'
TARGET, AUTHORITY = 'malformed or unsupported request target', 'malformed Host'
CODING, CODINGS = 'Transfer-Encoding other than chunked', 'more than one Transfer-Encoding'
LENGTH, LENGTHS = 'malformed Content-Length', 'more than one Content-Length'
BOTH = 'both Content-Length and Transfer-Encoding'
SIZE, EXTENSION = 'malformed chunk size', 'malformed or too long chunk extension'
CHUNK_END, TRAILER = 'chunk that does not end at its size', 'malformed trailer field'
TRAILERS = 'trailer fields too many or too large'


def get(*lines, target=b'/c', host=b'Host: a.example', method=b'GET', version=b'HTTP/1.1'):
    head = [method + b' ' + target + b' ' + version] + ([host] if host is not None else []) + list(lines)
    return b'\r\n'.join(head) + END


def post(*lines, body=b''):
    return get(*lines, method=b'POST') + body


def chunked(body, *lines):
    return post(b'Transfer-Encoding: chunked', *lines, body=body)


def rejected(group, name, data, reason, **kw):
    return Case(group, name, data, 'reject', reason=reason, **kw)


def free(group, name, data, ours, reason=None, **kw):
    return Case(group, name, data, 'either', ours=ours, reason=reason, **kw)


def named(byte):
    return '%02x' % byte


# ---- the request line ----

def line_cases():
    g = 'request line'
    yield Case(g, 'one empty line before it', b'\r\n' + get())
    yield Case(g, 'an empty line after a body', post(b'Content-Length: 3', body=b'abc\r\n') + get(),
               requests=[POST, GET])
    yield free(g, 'two empty lines', b'\r\n\r\n' + get(), 'reject', 'blank line before the request')
    yield free(g, 'a bare LF before it', b'\n' + get(), 'reject', 'blank line before the request')
    for name, line, reason in [
            ('two blanks before the target', b'GET  /c HTTP/1.1', TARGET),
            ('two blanks before the version', b'GET /c  HTTP/1.1', LINE),
            ('a tab for a blank', b'GET\t/c HTTP/1.1', METHOD), ('a blank before it', b' GET /c HTTP/1.1', METHOD),
            ('a blank after it', b'GET /c HTTP/1.1 ', LINE), ('a blank in the target', b'GET /c d HTTP/1.1', LINE),
            ('a form feed', b'GET\x0c/c HTTP/1.1', LINE), ('a CR inside', b'GET /c\rHTTP/1.1', LINE)]:
        want = free if name.startswith(('two blanks', 'a blank after')) else None
        data = line + b'\r\nHost: a' + END
        yield free(g, name, data, 'reject', reason) if want else rejected(g, name, data, reason)
    yield rejected(g, 'no version (HTTP/0.9)', b'GET /c\r\n\r\n', LINE)
    yield rejected(g, 'no target', b'GET HTTP/1.1\r\nHost: a' + END, LINE)
    yield rejected(g, 'only a method', b'GET\r\nHost: a' + END, TARGET)
    for version, reason in [(b'HTTP/0.9', LINE), (b'HTTP/2.0', 'HTTP version not offered here'),
                            (b'HTTP/3.0', 'HTTP version not offered here'), (b'HTTP/1.10', LINE), (b'HTTP/1', LINE),
                            (b'HTTP/1.', LINE), (b'HTTP/1.x', LINE), (b'HTTP/11.1', LINE), (b'http/1.1', LINE),
                            (b'HTTP/ 1.1', LINE), (b'HTTP/1,1', LINE), (b'HTTPS/1.1', LINE), (b'XTTP/1.1', LINE),
                            (b'HTTP/+1.1', LINE), (b'HTTP/01.1', LINE), (b'HTTP/-1.1', LINE), (b'ICAP/1.0', LINE)]:
        yield rejected(g, 'version ' + version.decode(), get(version=version), reason, status=(400, 505))
    yield free(g, 'version HTTP/1.2', get(version=b'HTTP/1.2'), 'pass', after=None)
    yield Case(g, 'HTTP/1.0 without Host', get(host=None, version=b'HTTP/1.0'), after='closed')
    yield free(g, 'bare LF at its end', b'GET /c HTTP/1.1\nHost: a' + END, 'reject', LINE_END)
    yield free(g, 'bare LF everywhere', b'GET /c HTTP/1.1\nHost: a\n\n', 'reject', LINE_END)
    yield free(g, 'CR CR LF', b'GET /c HTTP/1.1\r\r\nHost: a' + END, 'reject', LINE)


def method_cases():
    g = 'method'
    for b in range(256):
        data = get(method=b'GE' + bytes([b]) + b'T')
        if b in TOKEN:
            yield free(g, 'byte %s: unknown method' % named(b), data, 'reject', after=None,
                       requests=[('GE%cT' % b, '/c', b'')])
        elif b == 0x0a:
            yield rejected(g, 'byte 0a', data, LINE_END)
        else:
            yield rejected(g, 'byte ' + named(b), data, METHOD if b == 9 else LINE if b == 0x20 else None)
    for m in (b'HEAD', b'PUT', b'DELETE', b'OPTIONS', b'PATCH'):
        yield Case(g, m.decode(), get(method=m), requests=[(m.decode(), '/c', b'')])
    yield free(g, 'lower case is another method', get(method=b'get'), 'reject', after=None,
               requests=[('get', '/c', b'')])
    yield rejected(g, 'empty', b' /c HTTP/1.1\r\nHost: a' + END, METHOD)
    yield free(g, 'very long', get(method=b'A' * 3000), 'reject', after=None, requests=[('A' * 3000, '/c', b'')])
    yield rejected(g, 'CONNECT', get(method=b'CONNECT', target=b'a.example:443', host=b'Host: a.example:443'),
                  None, after=None)
    yield rejected(g, 'CONNECT of a path', get(method=b'CONNECT'), None, after=None)
    yield rejected(g, 'TRACE', get(b'Cookie: secret', method=b'TRACE'), None, after=None, only='resumelb')
    yield Case(g, 'OPTIONS *', get(method=b'OPTIONS', target=b'*'), requests=[('OPTIONS', '*', b'')], only='resumelb')
    yield rejected(g, 'GET *', get(target=b'*'), TARGET)


# ---- the target ----

# Browsers send the first five unencoded; they are invalid in a URI (RFC 3986), but rejecting them would reject browsers.
SLOPPY = set(b'[]{}|\\^`')
NEVER = set(b'"<>#')


def target_cases():
    g = 'target'
    for b in range(256):
        target = b'/c/' + bytes([b]) + b'x'
        asked = ('GET', target.decode('latin-1'), b'')
        data = get(target=target)
        if b == 0x23:
            yield rejected(g, 'byte 23', data, TARGET)
        elif b < 0x20 or b == 0x7f:
            yield rejected(g, 'byte ' + named(b), data, LINE_END if b == 0x0a else TARGET if b == 9 else None)
        elif b == 0x20:
            yield free(g, 'byte 20', data, 'reject', LINE, requests=[asked])
        elif b >= 0x80 or b in NEVER:
            yield free(g, 'byte ' + named(b), data, 'reject', TARGET, requests=[asked])
        elif b in SLOPPY:
            yield free(g, 'byte ' + named(b), data, 'pass', requests=[asked])
        else:
            yield Case(g, 'byte ' + named(b), data, requests=[asked])
    for t in ('/c/%2F%2f', '/c//d', '/c/../d', '/c/./d', '/c/..', '/c/%2e%2e/d', '/c;p=1;q', '/c?', '/c??a=b?c',
              '/c?a=%20+&b==;&&', '/c?q=/../x', '/c/%E2%82%AC', '/c?x=http://b.example/', '/c/' + 'x' * 2000,
              "/c/!$&'()*+,;=:@-._~", '//c/d', '/c/%41%7e'):
        yield Case(g, 'unchanged ' + t[:40], get(target=t.encode()), requests=[('GET', t, b'')])
    for t in ('/c/%00', '/c/%', '/c/%zz', '/c/%0d%0aX:1', '/../c', '/%2e%2e/c'):
        yield free(g, 'opaque ' + t, get(target=t.encode()), 'pass', requests=[('GET', t, b'')])
    for t in (b'c', b'?c', b'a.example', b'a.example:80', b'/c#fragment', b'/c?q#f', b'#', b'ftp://a.example/c',
              b'http:///c', b'http://', b'http:/c', b'//', b'http://u:p@a.example/c', b'http://a b/c',
              b'http://a.example/c#f', b'mailto:a@b', b'**', b'*x'):
        if t == b'//':
            yield Case(g, 'two slashes', get(target=t), requests=[('GET', '//', b'')])
        else:
            yield free(g, 'none of the four forms: ' + t.decode(), get(target=t), 'reject', after=None) if \
                not b'#' in t else rejected(g, 'fragment: ' + t.decode(), get(target=t), TARGET)
    yield Case(g, 'absolute form', get(target=b'http://a.example/c'))
    yield free(g, 'absolute form, upper case', get(target=b'HTTP://A.EXAMPLE/c'), 'pass')
    yield Case(g, 'absolute form with a query and no path', get(target=b'http://a.example?c=d'),
               requests=[('GET', '/?c=d', b'')], only='resumelb')
    yield Case(g, 'absolute form with port', get(target=b'http://a.example:8080/c', host=b'Host: a.example:8080'))
    yield free(g, 'of 100,000 bytes', get(target=b'/c' + b'x' * 100000), 'reject', 'request target too large',
               status=(400, 414, 431), requests=[('GET', '/c' + 'x' * 100000, b'')])


# ---- Host ----

def host_cases():
    g = 'host'
    yield rejected(g, 'missing', get(host=None), 'no Host')
    yield rejected(g, 'two', get(b'Host: b.example'), 'more than one Host')
    yield rejected(g, 'two that are equal', get(b'Host: a.example'), 'more than one Host')
    yield rejected(g, 'two in HTTP/1.0', get(b'Host: b.example', version=b'HTTP/1.0'), 'more than one Host')
    yield rejected(g, 'two apart', get(b'X: y', b'hOsT: b.example'), 'more than one Host')
    for h in (b'a', b'A.Example', b'a.example.', b'a_b.example', b'a.example:8080', b'a.example:80', b'127.0.0.1',
              b'127.0.0.1:80', b'[::1]', b'[::1]:8080', b'[2001:db8::192.0.2.1]', b'xn--e1afmkfd.example'):
        yield Case(g, 'legal ' + h.decode(), get(host=b'Host: ' + h), has={'host': [h]} if h.islower() else {})
    for h in (b'a.example:', b'a.example:0', b'a.example:65535', b'a.example:00080', b'a%41.example',
              b'1.2.3', b'a..example', b"!$&'()*+;=~-"):
        yield free(g, 'odd ' + h.decode(), get(host=b'Host: ' + h), 'pass')
    yield Case(g, 'blanks around it', get(host=b'Host: \t a.example \t '), has={'host': [b'a.example']})
    yield Case(g, 'no blank before it', get(host=b'Host:a.example'), has={'host': [b'a.example']})
    for h in (b'a b', b'a\tb', b'a/b', b'a/', b'a?b', b'a#b', b'[::1', b'::1]', b'a@b', b'u:p@a', b'a, b', b'a<b',
              b'a"b', b'a\\b', b'a.example:x', b'a.example:8x', b'a:80:80', b'http://a', b'a|b', b'a^b', b'a`b', b'{a}'):
        yield rejected(g, 'illegal ' + h.decode(), get(host=b'Host: ' + h), AUTHORITY) if h not in ODD_HOSTS else \
            free(g, 'illegal ' + h.decode(), get(host=b'Host: ' + h), 'reject', AUTHORITY)
    for h in (b'', b'a,b', b'a.example:65536', b'a.example:99999999999999999999', b'a.example:-1', b'a.example:+80',
              b':80', b'[]', b'[:', b'[::1]x', b'[zz]', b'[1.2.3.4]', b'[::1%25eth0]', b'a%zz', b'a%4', b'a%00', b'::1',
              b'[::g]', b'[1:2:3:4:5:6:7:8:9]', b'[v1.a:b]', b'[vz.a]', b'a\x80b', b'a\xffb'):
        yield free(g, 'rejected by us ' + repr(h)[2:-1], get(host=b'Host: ' + h), 'reject', AUTHORITY)
    for b in (0, 1, 8, 0x0b, 0x0c, 0x0d, 0x1f, 0x7f):
        yield rejected(g, 'byte ' + named(b), get(host=b'Host: a' + bytes([b]) + b'b'), None)


# Not all parsers validate the part after the name.
ODD_HOSTS = {b'a<b', b'a"b', b'a\\b', b'a|b', b'a^b', b'a`b', b'{a}', b'http://a', b'a.example:x', b'a.example:8x',
             b'a:80:80', b'a@b', b'u:p@a', b'a, b', b'a?b', b'a#b', b'a/b', b'a/', b'::1]', b'[::1', b'a b', b'a\tb'}


# ---- header fields ----

def header_cases():
    g = 'header names'
    for b in range(256):
        data = get(b'X' + bytes([b]) + b'Y: v')
        if b == ord(':'):
            continue
        if b in TOKEN:
            yield free(g, 'byte ' + named(b), data, 'pass') if b not in b'-_' and not chr(b).isalnum() else \
                Case(g, 'byte ' + named(b), data)
        else:
            yield rejected(g, 'byte ' + named(b), data, LINE_END if b == 0x0a else HEADER)
    for name, line in [('blank before the colon', b'X : y'), ('tab before the colon', b'X\t: y'),
                       ('no name', b': y'), ('no colon', b'X'), ('blank before the name', b' X: y'),
                       ('folded with a blank', b'X: y\r\n z'), ('folded with a tab', b'X: y\r\n\tz'),
                       ('folded and empty', b'X: y\r\n '), ('only a colon', b':')]:
        yield rejected(g, name, get(line), HEADER)
    yield rejected(g, 'a blank line of a blank', get() [:-2] + b' \r\n\r\n', HEADER)
    yield rejected(g, 'the first one folded', b'GET /c HTTP/1.1\r\n X: y\r\nHost: a' + END, HEADER)
    for n in (b'Content-Length', b'Transfer-Encoding', b'Host'):
        for what, blank in (('blank', b' '), ('tab', b'\t'), ('vertical tab', b'\x0b'), ('NUL', b'\0')):
            yield rejected(g, '%s and a %s' % (n.decode(), what), get(n + blank + b': 3'), HEADER)
    g = 'header values'
    for b in range(256):
        data = get(b'X: a' + bytes([b]) + b'b')
        if b in (9, 0x20) or 0x21 <= b < 0x7f:
            yield Case(g, 'byte ' + named(b), data, has={'x': [b'a' + bytes([b]) + b'b']})
        elif b >= 0x80:
            yield free(g, 'byte ' + named(b), data, 'pass', has={'x': [b'a' + bytes([b]) + b'b']})
        elif b in (0, 0x0d):
            yield rejected(g, 'byte ' + named(b), data, HEADER)
        else:
            yield free(g, 'byte ' + named(b), data, 'reject', LINE_END if b == 0x0a else HEADER)
    yield Case(g, 'empty', get(b'X:'), has={'x': [b'']})
    yield Case(g, 'of blanks', get(b'X:  \t '), has={'x': [b'']})
    yield Case(g, 'trimmed', get(b'X: \t a b \t'), has={'x': [b'a b']})
    yield Case(g, 'with colons', get(b'X: a: b:c'), has={'x': [b'a: b:c']})
    yield Case(g, 'several keep their order', get(b'X: 1', b'Y: 2', b'X: 3', b'x: 2'), has={'x': [b'1', b'3', b'2']})
    yield Case(g, 'of 4,000 bytes', get(b'X: ' + b'v' * 4000), has={'x': [b'v' * 4000]})
    yield Case(g, 'two cookies', get(b'Cookie: a=1', b'Cookie: b=2'), has={'cookie': [b'a=1; b=2']}, only='resumelb')
    yield Case(g, 'authorization', get(b'Authorization: Basic YTpi'), has={'authorization': [b'Basic YTpi']})
    g = 'limits'
    many = [b'X-%d: y' % i for i in range(99)]
    yield Case(g, '100 fields', get(*many))
    yield free(g, '101 fields', get(b'One: more', *many), 'reject', 'too many header fields')
    yield free(g, '5,000 fields', get(*many * 50), 'reject', 'too many header fields')
    yield free(g, 'a field of 100,000 bytes', get(b'X: ' + b'v' * 100000), 'reject', 'header fields too large')
    yield free(g, 'a name of 100,000 bytes', get(b'X' * 100000 + b': v'), 'reject', 'header fields too large')
    yield rejected(g, 'a head of 2 MB', get(b'X: ' + b'v' * 2000000), 'header fields too large')
    yield rejected(g, 'a head without an end', get(*many * 500)[:-2], 'too many header fields')
    yield rejected(g, 'a line without an end', b'GET /' + b'x' * 1000000, 'request target too large', status=(414,))


# ---- framing ----

def length_cases():
    g = 'Content-Length'
    for v in (b'3', b'03', b'0003', b' \t3 \t'):
        yield Case(g, 'legal %r' % v.decode(), post(b'Content-Length: ' + v, body=b'abc'), requests=[POST])
    yield Case(g, '0', post(b'Content-Length: 0'), requests=[('POST', '/c', b'')])
    yield Case(g, 'none', post(), requests=[('POST', '/c', b'')])
    yield Case(g, 'of GET', get(b'Content-Length: 3') + b'abc', requests=[('GET', '/c', b'abc')])
    yield Case(g, 'of DELETE', get(b'Content-Length: 3', method=b'DELETE') + b'abc', requests=[('DELETE', '/c', b'abc')])
    yield Case(g, 'of OPTIONS', get(b'Content-Length: 3', method=b'OPTIONS') + b'abc',
               requests=[('OPTIONS', '/c', b'abc')])
    yield Case(g, 'of HEAD', get(b'Content-Length: 3', method=b'HEAD') + b'abc', requests=[('HEAD', '/c', b'abc')])
    for v in (b'+3', b'-3', b'3,', b',3', b'3 3', b'0x3', b'3;', b'3.0', b'3a', b'a', b'"3"', b'', b' ', b'3e0',
              b'\xb3', b"'3'", b'3_0', b'1 ', b'9223372036854775808', b'18446744073709551615',
              b'18446744073709551616', b'18446744073709551619', b'99999999999999999999999', b'9' * 300,
              b'-1', b'3\x0b', b'\x0c3', b'3\0', b'0 3', b'NaN', b'3\xa0', b'3 a'):
        if v == b'1 ':
            continue
        reason = HEADER if any(c in v for c in b'\x0b\x0c\0') else LENGTH
        yield rejected(g, 'illegal %s' % repr(v)[2:-1][:30], post(b'Content-Length: ' + v, body=b'abc') + NEXT, reason)
    yield free(g, '3, 3', post(b'Content-Length: 3, 3', body=b'abc'), 'reject', LENGTH, requests=[POST])
    yield rejected(g, '3, 4', post(b'Content-Length: 3, 4', body=b'abcd') + NEXT, LENGTH)
    yield rejected(g, '2^63 - 1', post(b'Content-Length: 9223372036854775807', body=b'abc'), None, only='resumelb',
                  status=(413,))
    yield free(g, 'two that are equal', post(b'Content-Length: 3', b'Content-Length: 3', body=b'abc'), 'reject',
               LENGTHS, requests=[POST])
    yield rejected(g, 'two that differ', post(b'Content-Length: 3', b'Content-Length: 0', body=b'abc') + NEXT, LENGTHS)
    yield rejected(g, 'two that differ, apart', post(b'Content-Length: 0', b'X: y', b'content-length: 3',
                                                    body=b'abc') + NEXT, LENGTHS)
    yield Case(g, 'Content_Length is not a length', get(b'Content_Length: 33') + NEXT, requests=[GET, ('GET', '/next', b'')])
    yield Case(g, 'Content_Length does not pass', get(b'Content_Length: 33'), lacks=['content_length'], only='resumelb')
    yield Case(g, 'in upper case', post(b'CONTENT-LENGTH: 3', body=b'abc'), requests=[POST])
    yield rejected(g, 'shorter body and an end', post(b'Content-Length: 30', body=b'abc'), None, fin=True, after=None)
    yield Case(g, 'a longer body is the next request', post(b'Content-Length: 3', body=b'abc') + NEXT,
               requests=[POST, ('GET', '/next', b'')])
    yield rejected(g, 'a longer body that is none', post(b'Content-Length: 3', body=b'abcdef\r\n\r\n'), None,
                  requests=[POST])


def coding_cases():
    g = 'Transfer-Encoding'
    whole = b'3\r\nabc\r\n0\r\n\r\n'
    for v in (b'chunked', b'Chunked', b'CHUNKED', b'cHuNkEd', b' \tchunked \t'):
        yield Case(g, 'legal %r' % v.decode(), post(b'Transfer-Encoding: ' + v, body=whole), requests=[POST],
                   lacks=['te', 'trailer'])
    yield Case(g, 'of GET', get(b'Transfer-Encoding: chunked') + whole, requests=[('GET', '/c', b'abc')])
    yield Case(g, 'name in upper case', post(b'TRANSFER-ENCODING: chunked', body=whole), requests=[POST])
    for v in (b'identity', b'gzip', b'xchunked', b'chunkedx', b'chunked;q=1', b'"chunked"', b"'chunked'",
              b'chunked, identity', b'identity, chunked', b'gzip, chunked', b'chunked, gzip', b'chunked, chunked',
              b'chunked chunked', b'chunked\x0b', b'\x0bchunked', b'\x0cchunked', b'chunked\0', b'\0chunked', b'',
              b'chunked\xa0', b'\xa0chunked', b'chun\xc5\xbfed', b'chunke\xe2\x84\xaad', b'deflate', b'trailers',
              b'chunked;', b'chunked; foo=bar', b'chunk', b'cow', b'chunked\x1f', b'ch\xc2\xadunked', b'x, y, chunked',
              b'[chunked]', b'chunked\r\n , identity', b'\r\n chunked'):
        reason = CODING if v[:1] == b'\r' else HEADER if any(c in v for c in b'\x0b\x0c\0\x1f\r') else CODING
        name = 'illegal ' + repr(v)[2:-1]
        data = post(b'Transfer-Encoding: ' + v, body=whole) + NEXT
        if v in (b'gzip, chunked', b'identity, chunked', b'x, y, chunked', b'chunked; foo=bar', b'chunked;q=1',
                 b'identity', b'chunked;'):
            yield free(g, name, data, 'reject', reason, requests=[POST, ('GET', '/next', b'')])
        else:
            yield rejected(g, name, data, reason)
    for v in (b'chunked,', b',chunked', b', chunked ,'):
        yield free(g, 'a list of one %s' % v.decode(), post(b'Transfer-Encoding: ' + v, body=whole), 'reject', CODING,
                   requests=[POST])
    for a, b in [(b'chunked', b'chunked'), (b'chunked', b'identity'), (b'identity', b'chunked'), (b'gzip', b'chunked'),
                 (b'chunked', b'cow'), (b'', b'chunked')]:
        data = post(b'Transfer-Encoding: ' + a, b'Transfer-Encoding: ' + b, body=whole)
        yield free(g, 'two: %s and %s' % (a.decode(), b.decode()), data, 'reject',
                   CODING if a in (b'identity', b'gzip', b'') else CODINGS, requests=[POST])
    yield rejected(g, 'in HTTP/1.0', get(b'Transfer-Encoding: chunked', method=b'POST', version=b'HTTP/1.0') + whole,
                  'Transfer-Encoding in HTTP/1.0')
    yield Case(g, 'Transfer_Encoding is none', get(b'Transfer_Encoding: chunked') + NEXT,
               requests=[GET, ('GET', '/next', b'')])
    yield Case(g, 'Transfer_Encoding does not pass', get(b'Transfer_Encoding: chunked'), lacks=['transfer_encoding'],
               only='resumelb')
    g = 'both framings'
    for coding in (b'chunked', b'identity', b'xchunked', b'chunked, chunked', b'cHunked'):
        for length in (b'0', b'3', b'13', b'30', b'x'):
            for first in (True, False):
                lines = [b'Content-Length: ' + length, b'Transfer-Encoding: ' + coding]
                name = '%s and %s, %s first' % (coding.decode(), length.decode(), 'length' if first else 'coding')
                reason = LENGTH if length == b'x' else CODING if coding.lower() != b'chunked' else BOTH
                if length == b'x' and coding.lower() != b'chunked' and not first:
                    reason = CODING
                # A server that accepts the transfer coding must close the connection after the response (RFC 9112 6.1).
                yield free(g, name, post(*(lines if first else lines[::-1]), body=whole), 'reject', reason,
                           requests=[POST], passed_after=None) \
                    if coding.lower() == b'chunked' and length != b'x' else \
                    rejected(g, name, post(*(lines if first else lines[::-1]), body=whole) + NEXT, reason)


# ---- chunks ----

def chunk_cases():
    g = 'chunks'
    tail = b'\r\nabc\r\n0\r\n\r\n'
    for size in (b'3', b'03', b'0000000003'):
        yield Case(g, 'size ' + size.decode(), chunked(size + tail), requests=[POST])
    for text in (b'a', b'A', b'1f', b'1F'):
        n = int(text, 16)
        yield Case(g, 'size ' + text.decode(), chunked(text + b'\r\n' + b'x' * n + b'\r\n0\r\n\r\n'),
                   requests=[('POST', '/c', b'x' * n)])
    for ext in (b';a', b';a=b', b';a="b"', b';a="b;c\\"d"', b';a=b;c=d', b';a=""', b';' + b'x' * 200):
        yield Case(g, 'extension ' + ext.decode()[:30], chunked(b'3' + ext + tail), requests=[POST])
    for size in (b'', b'x', b'-3', b'+3', b'0x3', b'3x', b'3,', b'3"', b'3=', b'3\0', b'3\x0b', b'\x0b3', b'g',
                 b'80000000000000003', b'10000000000000003', b'ffffffffffffffff3', b'ffffffffffffffffffff',
                 b'3.0', b'3h', b'3#', b'3&', b"'3'", b'\xb3', b'3 3', b'0 x3', b'3\xa0', b'_3', b'3_'):
        yield rejected(g, 'illegal size ' + repr(size)[2:-1], chunked(size + tail) + NEXT, SIZE)
    for size in (b'ffffffffffffffff', b'8000000000000000'):
        yield rejected(g, 'huge size ' + size.decode(), chunked(size + tail) + NEXT, None, only='resumelb')
    for size in (b' 3', b'\t3', b'3 ', b'3\t', b'3 ;a', b'3  '):
        yield free(g, 'blank at size %r' % size.decode(), chunked(size + tail), 'reject', SIZE, requests=[POST])
    yield free(g, 'size of 30 zeros', chunked(b'0' * 30 + b'3' + tail), 'reject', SIZE, requests=[POST])
    for ext in (b';', b';=', b';a=', b'; a', b';a =b', b';a= b', b';a="b', b';a=b"', b';;a', b';a="\\', b';a,b',
                b';a=b c', b';a\xff', b';a="b"c', b';(', b';\x0b'):
        yield free(g, 'illegal extension ' + repr(ext)[2:-1], chunked(b'3' + ext + tail), 'reject',
                   EXTENSION, requests=[POST])
    for ext in (b';a\0', b';a\x01', b';a="\0"', b';a\x7f'):
        yield free(g, 'control in extension ' + repr(ext)[2:-1], chunked(b'3' + ext + tail), 'reject', EXTENSION,
                   requests=[POST])
    yield free(g, 'an endless extension', chunked(b'3;' + b'x' * 100000 + tail), 'reject', EXTENSION, requests=[POST])
    for name, line in [('LF after the size', b'3\nabc\r\n0\r\n\r\n'), ('LF after the data', b'3\r\nabc\n0\r\n\r\n'),
                       ('LF after an extension', b'3;a\nabc\r\n0\r\n\r\n'), ('LF after the last', b'3\r\nabc\r\n0\n\r\n'),
                       ('LF at the end', b'3\r\nabc\r\n0\r\n\n'), ('LF everywhere', b'3\nabc\n0\n\n'),
                       ('CR after the size', b'3\rabc\r\n0\r\n\r\n'), ('LF in an extension, as data',
                                                                       b'3;\nabc\r\n0\r\n\r\n')]:
        reason = LINE_END
        yield free(g, name, chunked(line), 'reject', reason, requests=[POST])
    yield free(g, 'CR in an extension', chunked(b'3;a\rb' + tail), 'reject', LINE_END, requests=[POST])
    for name, body in [('more data than its size', b'3\r\nabcd\r\n0\r\n\r\n'), ('no CRLF after data', b'3\r\nabc0\r\n\r\n'),
                       ('two bytes for CRLF', b'3\r\nabcXX0\r\n\r\n'), ('an empty line before a size', None)]:
        if body is not None:
            yield rejected(g, name, chunked(body) + NEXT, CHUNK_END)
    yield rejected(g, 'CR and a byte after data', chunked(b'3\r\nabc\rX0\r\n\r\n') + NEXT, LINE_END)
    yield rejected(g, 'an empty line before a size', chunked(b'\r\n3\r\nabc\r\n0\r\n\r\n') + NEXT, SIZE)
    yield Case(g, 'last chunk of zeros', chunked(b'3\r\nabc\r\n000\r\n\r\n'), requests=[POST])
    yield Case(g, 'last chunk with an extension', chunked(b'3\r\nabc\r\n0;a=b\r\n\r\n'), requests=[POST])
    yield Case(g, 'only the last one', chunked(b'0\r\n\r\n'), requests=[('POST', '/c', b'')])
    yield rejected(g, 'cut in a size', chunked(b'3'), None, fin=True, after=None)
    yield rejected(g, 'cut in the data', chunked(b'3\r\nab'), None, fin=True, after=None)
    yield rejected(g, 'cut after the data', chunked(b'3\r\nabc\r\n'), None, fin=True, after=None)
    yield rejected(g, 'cut before the empty line', chunked(b'3\r\nabc\r\n0\r\n'), None, fin=True, after=None)
    many = b''.join(b'1\r\n%c\r\n' % b for b in b'abcdefghij' * 100)
    yield Case(g, '1,000 chunks', chunked(many + b'0\r\n\r\n'), requests=[('POST', '/c', b'abcdefghij' * 100)])
    g = 'trailers'
    start = b'3\r\nabc\r\n0\r\n'
    for t in (b'A: b\r\n', b'A: b\r\nC: d\r\n', b'A:\r\n', b'Content-Length: 30\r\n', b'Transfer-Encoding: gzip\r\n',
              b'Host: b.example\r\n', b'X-Forwarded-For: 9.9.9.9\r\n', b'Resumelb-Class: x\r\n', b'Trailer: A\r\n',
              b'Cookie: a=b\r\n', b'Connection: close\r\n'):
        yield free(g, 'dropped ' + t.decode().strip().replace('\r\n', ' '), chunked(start + t + b'\r\n'), 'pass',
                   requests=[POST], lacks=['a', 'resumelb-feed', 'trailer'])
    for t in (b'A : b\r\n', b': b\r\n', b' A: b\r\n', b'A\r\n', b'A: b\r\n c\r\n', b'A: \0\r\n', b'A\0: b\r\n',
              b'A: b\x7f\r\n', b'A b: c\r\n', NEXT):
        yield free(g, 'illegal ' + repr(t)[2:20], chunked(start + t + b'\r\n'), 'reject', TRAILER, requests=[POST])
    yield free(g, 'bare LF', chunked(start + b'A: b\n\r\n'), 'reject', LINE_END, requests=[POST])
    yield free(g, 'too many', chunked(start + b'A: b\r\n' * 33 + b'\r\n'), 'reject', TRAILERS, requests=[POST])
    yield free(g, 'too large', chunked(start + b'A: ' + b'x' * 20000 + END), 'reject', TRAILERS, requests=[POST])
    yield Case(g, 'and the next request', chunked(start + b'A: b' + END) + NEXT,
               requests=[POST, ('GET', '/next', b'')])


def cases():
    for part in (line_cases, method_cases, target_cases, host_cases, header_cases, length_cases, coding_cases,
                 chunk_cases):
        yield from part()
