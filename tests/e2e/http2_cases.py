# SPDX-License-Identifier: Apache-2.0
"""
The requirements of RFC 9113 for input from clients, one row each: group, name, the data that is sent after SETTINGS were
exchanged, the stream to check, and the allowed results. test_http2.py runs the rows against resumelb, and
bench/conformance_http2.py against other servers.

    P, F, S, C, W, E  the connection ends: PROTOCOL_, FRAME_SIZE_, STREAM_CLOSED, COMPRESSION_, FLOW_CONTROL_ERROR, or
                      ENHANCE_YOUR_CALM (section 5.4.1: a stream error may be treated as a connection error)
    p, f, s, w        the stream is reset with that error
    4                 a 4xx response (section 8.1.1)     2  it is served      5  501 or 505
    -                 nothing: the frame is ignored, and the connection stays open
"""
import struct

from support.http2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE,
                           PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WEIGHED, WINDOW_UPDATE, Http2, block, frame,
                           integer, literal, request)

NAMES = {'P': 'connection PROTOCOL_ERROR', 'F': 'connection FRAME_SIZE_ERROR', 'S': 'connection STREAM_CLOSED',
         'C': 'connection COMPRESSION_ERROR', 'W': 'connection FLOW_CONTROL_ERROR',
         'E': 'connection ENHANCE_YOUR_CALM', 'p': 'stream PROTOCOL_ERROR', 'f': 'stream FRAME_SIZE_ERROR',
         's': 'stream STREAM_CLOSED', 'w': 'stream FLOW_CONTROL_ERROR', 'r': 'stream REFUSED_STREAM', '-': 'nothing',
         '2': '200'}


def right(verdict, allowed):
    if verdict == 'closed':         # the GOAWAY was lost to the reset of the connection
        return any(a in 'PFSCWE' for a in allowed)
    if verdict.startswith('connection') and any(a in 'PFSCWE' for a in allowed):
        wanted = [NAMES[a] for a in allowed if a in 'PFSCWE']
        return verdict in wanted or verdict in ('connection PROTOCOL_ERROR', 'connection ENHANCE_YOUR_CALM')
    if verdict[:1] == '4' and verdict[:3].isdigit():
        return '4' in allowed
    if verdict in ('501', '505'):
        return '5' in allowed
    return any(NAMES.get(a) == verdict for a in allowed)


def run(port, case, source='127.0.0.1'):
    """Runs a case from the client address SOURCE on a new connection. Returns the result."""
    group, _, data, stream, _ = case
    with Http2(port, preface=PREFACE if data is not None else PREFACE + window(1), source=source) as c:
        c.send(data or b'')
        if group == 'valid':
            c.until_over(stream)
        c.ping()
        if c.verdict(stream) == 'nothing' and not c.closed and data is not None and b':method' in data and \
                'depends' not in case[1]:
            c.until_over(stream)
        s = c.streams.get(stream)
        if c.goaway not in (None, 'NO_ERROR') and not (s and s.reset):
            return 'connection ' + c.goaway
        return 'closed' if c.closed and not (s and s.over) else c.verdict(stream)


def headers(fields, flags=END_STREAM | END_HEADERS, stream=1):
    return frame(HEADERS, fields, flags, stream)


def get(**pseudo):
    return headers(request(**pseudo))


def with_field(name, value):
    return headers(request((name, value)))


def window(n, stream=0):
    return frame(WINDOW_UPDATE, struct.pack('>I', n), 0, stream)


def setting(key, value):
    return frame(SETTINGS, struct.pack('>HI', key, value))


def post(*frames, fields=()):
    return headers(request(*fields, method='POST'), END_HEADERS) + b''.join(frames)


def data(payload=b'abc', flags=END_STREAM, stream=1):
    return frame(DATA, payload, flags, stream)


GET = headers(request())
SELF = struct.pack('>IB', 1, 15)
OPEN = headers(request(method='POST'), END_HEADERS)     # and no body yet
# 62 is the newest entry of the dynamic table
LARGE = literal('x', 'y' * 3900, 0x40)

CASES = [
    # group, name, bytes, stream, allowed
    ('valid', 'a request', GET, 1, '2'),
    ('valid', 'a body in pieces, padded', post(data(b'ab', 0), data(b'\2c\0\0', PADDED | END_STREAM)), 1, '2'),
    ('valid', 'content-length as the body', post(data(), fields=[('content-length', '3')]), 1, '2'),
    ('valid', 'an empty body, its end apart', post(data(b'')), 1, '2'),
    ('valid', 'a head in three frames', headers(request()[:5], END_STREAM) + frame(CONTINUATION, request()[5:9], 0, 1)
     + frame(CONTINUATION, request()[9:], END_HEADERS, 1), 1, '2'),
    ('valid', 'padding and priority', headers(b'\3' + struct.pack('>IB', 0, 7) + request() + bytes(3),
                                              END_STREAM | END_HEADERS | PADDED | WEIGHED), 1, '2'),
    ('valid', 'trailers', post(data(flags=0), headers(block([('x-sum', '1')]))), 1, '2'),
    ('valid', 'a stream that skips numbers', headers(request(), stream=77), 77, '2'),
    ('valid', 'an unknown frame', frame(0x42, b'abc', 0xff, 1) + GET, 1, '2'),
    ('valid', 'unknown flags', headers(request(), END_STREAM | END_HEADERS | 0x52), 1, '2'),
    ('valid', 'the reserved bit', headers(request(), stream=0x80000001), 1, '2'),
    ('valid', 'an unknown setting', setting(0x99, 7) + GET, 1, '2'),
    ('valid', 'an acknowledgement of PING', frame(PING, bytes(8), ACK) + GET, 1, '2'),
    ('valid', 'RST_STREAM of a stream that has ended', GET + frame(RST_STREAM, bytes(4), 0, 1) +
     headers(request(), stream=3), 3, '2'),
    ('valid', 'te: trailers', with_field('te', 'trailers'), 1, '2'),
    ('valid', 'host as :authority', with_field('host', 'test.example'), 1, '2'),
    ('valid', 'host alone', headers(request(('host', 'test.example'), authority=None)), 1, '2'),
    ('valid', ':authority in another place', headers(block([(':authority', 'a'), (':path', '/'), (':scheme', 'https'),
                                                            (':method', 'GET')])), 1, '2'),
    ('valid', ':scheme http', get(scheme='http'), 1, '2'),
    ('valid', 'OPTIONS *', get(method='OPTIONS', path='*'), 1, '24'),
    ('valid', 'GOAWAY of the client', frame(GOAWAY, bytes(8)) + GET, 1, '2'),

    ('frames', 'larger than allowed', frame(DATA, bytes((1 << 20) + 1), 0, 1), 1, 'F'),
    ('frames', 'HEADERS larger than allowed', headers(request() + bytes((1 << 20) + 1)), 1, 'F'),
    ('frames', 'DATA of stream 0', data(stream=0), 0, 'P'),
    ('frames', 'HEADERS of stream 0', headers(request(), stream=0), 0, 'P'),
    ('frames', 'PRIORITY of stream 0', frame(PRIORITY, bytes(5)), 0, 'P'),
    ('frames', 'RST_STREAM of stream 0', frame(RST_STREAM, bytes(4)), 0, 'P'),
    ('frames', 'SETTINGS of a stream', frame(SETTINGS, stream=1), 0, 'P'),
    ('frames', 'PING of a stream', frame(PING, bytes(8), stream=1), 0, 'P'),
    ('frames', 'GOAWAY of a stream', frame(GOAWAY, bytes(8), stream=1), 0, 'P'),
    ('frames', 'PRIORITY too short', frame(PRIORITY, bytes(4), 0, 1), 1, 'fF'),
    ('frames', 'PRIORITY too long', frame(PRIORITY, bytes(6), 0, 1), 1, 'fF'),
    ('frames', 'RST_STREAM too short', OPEN + frame(RST_STREAM, bytes(3), 0, 1), 1, 'F'),
    ('frames', 'RST_STREAM too long', OPEN + frame(RST_STREAM, bytes(5), 0, 1), 1, 'F'),
    ('frames', 'SETTINGS not of six', frame(SETTINGS, bytes(5)), 0, 'F'),
    ('frames', 'SETTINGS acknowledged with payload', frame(SETTINGS, bytes(6), ACK), 0, 'F'),
    ('frames', 'PING too short', frame(PING, bytes(7)), 0, 'F'),
    ('frames', 'PING too long', frame(PING, bytes(9)), 0, 'F'),
    ('frames', 'GOAWAY too short', frame(GOAWAY, bytes(7)), 0, 'F'),
    ('frames', 'WINDOW_UPDATE too short', frame(WINDOW_UPDATE, bytes(3)), 0, 'F'),
    ('frames', 'WINDOW_UPDATE too long', frame(WINDOW_UPDATE, b'\0\0\0\0\1'), 0, 'F'),
    ('frames', 'PUSH_PROMISE', frame(PUSH_PROMISE, struct.pack('>I', 2) + request(), END_HEADERS, 1), 0, 'P'),
    ('frames', 'DATA padded by all of it', post(data(b'\3abc'[:3], PADDED)), 1, 'P'),
    ('frames', 'DATA padded, without a length', post(data(b'', PADDED)), 1, 'PF'),
    ('frames', 'HEADERS padded by more than all', headers(b'\xff' + request(), END_STREAM | END_HEADERS | PADDED), 1,
     'P'),
    ('frames', 'HEADERS padded, without a length', headers(b'', END_STREAM | END_HEADERS | PADDED), 1, 'PF'),
    ('frames', 'HEADERS too short for their priority', headers(b'\0\0', END_STREAM | END_HEADERS | WEIGHED), 1, 'PFC'),
    ('frames', 'the first frame is not SETTINGS', None, 0, 'P'),

    ('streams', 'DATA of an idle stream', data(), 1, 'P'),
    ('streams', 'RST_STREAM of an idle stream', frame(RST_STREAM, bytes(4), 0, 1), 1, 'P'),
    ('streams', 'WINDOW_UPDATE of an idle stream', window(1, 1), 1, 'P'),
    ('streams', 'HEADERS of an even stream', headers(request(), stream=2), 2, 'P'),
    ('streams', 'DATA of an even stream', data(stream=2), 2, 'P'),
    ('streams', 'HEADERS of a lower stream', headers(request(), stream=5) + headers(request(), stream=3), 3, 'PS'),
    ('streams', 'DATA after END_STREAM', GET + data(), 1, 'sS'),
    ('streams', 'HEADERS after END_STREAM', GET + GET, 1, 'sS'),
    ('streams', 'DATA after RST_STREAM', OPEN + frame(RST_STREAM, bytes(4), 0, 1) + data(), 1, 'sS'),
    ('streams', 'HEADERS after RST_STREAM', OPEN + frame(RST_STREAM, bytes(4), 0, 1) + GET, 1, 'sS'),
    ('streams', 'HEADERS in a body, without END_STREAM', post(data(flags=0), headers(block([('a', 'b')]), END_HEADERS)),
     1, 'pP4'),
    ('streams', 'a stream that depends on itself', headers(SELF + request(), END_STREAM | END_HEADERS | WEIGHED), 1,
     'pP2'),
    ('streams', 'PRIORITY that depends on itself', frame(PRIORITY, SELF, 0, 1), 1, 'pP-'),

    ('blocks', 'CONTINUATION without HEADERS', frame(CONTINUATION, request(), END_HEADERS, 1), 1, 'P'),
    ('blocks', 'CONTINUATION after the end', GET + frame(CONTINUATION, request(), END_HEADERS, 1), 1, 'P'),
    ('blocks', 'CONTINUATION of another stream', headers(request(), END_STREAM) +
     frame(CONTINUATION, b'', END_HEADERS, 3), 1, 'P'),
    ('blocks', 'PING within a block', headers(request(), END_STREAM) + frame(PING, bytes(8)), 1, 'P'),
    ('blocks', 'DATA within a block', headers(request(), 0) + data(), 1, 'P'),
    ('blocks', 'HEADERS within a block', headers(request(), END_STREAM) + headers(request(), stream=3), 1, 'P'),
    ('blocks', 'an unknown frame within a block', headers(request(), END_STREAM) + frame(0x42, b'', 0, 1), 1, 'P'),

    ('settings', 'ENABLE_PUSH 2', setting(2, 2), 0, 'P'),
    ('settings', 'INITIAL_WINDOW_SIZE too large', setting(4, 1 << 31), 0, 'W'),
    ('settings', 'MAX_FRAME_SIZE too small', setting(5, 16383), 0, 'P'),
    ('settings', 'MAX_FRAME_SIZE too large', setting(5, 1 << 24), 0, 'P'),

    ('windows', 'of the connection by 0', window(0), 0, 'P'),
    ('windows', 'of a stream by 0', OPEN + window(0, 1), 1, 'pP'),
    ('windows', 'of the connection over the maximum', window(0x7fffffff), 0, 'W'),
    ('windows', 'of a stream over the maximum', OPEN + window(0x7fffffff, 1), 1, 'wW'),
    ('windows', 'of a stream over the maximum, by SETTINGS', OPEN + window(0x7fffffff - 65535, 1) +
     setting(4, 65536), 1, 'W'),

    ('hpack', 'index 0', headers(b'\x80'), 1, 'C'),
    ('hpack', 'an index that is not there', headers(b'\xbe'), 1, 'C'),
    ('hpack', 'a name index that is not there', headers(b'\x7f\x10\1a'), 1, 'C'),
    ('hpack', 'an endless integer', headers(b'\xff' + b'\x80' * 12 + b'\1'), 1, 'C'),
    ('hpack', 'an integer that overflows', headers(b'\xff\xff\xff\xff\xff\x0f'), 1, 'C'),
    ('hpack', 'an integer cut short', headers(request() + b'\xff\x80'), 1, 'C'),
    ('hpack', 'a string cut short', headers(request() + b'\0\1a\5bc'), 1, 'C'),
    ('hpack', 'a table larger than allowed', headers(integer(4097, 5, 0x20) + request()), 1, 'C'),
    ('hpack', 'a change of the table after a field', headers(request() + b'\x20'), 1, 'C'),
    ('hpack', 'padding of more than 7 bits', headers(request() + b'\0\1a\x82\x1f\xff'), 1, 'C'),
    ('hpack', 'padding of zeros', headers(request() + b'\0\1a\x81\x18'), 1, 'C'),
    ('hpack', 'EOS in a string', headers(request() + b'\0\1a\x84\xff\xff\xff\xff'), 1, 'C'),
    ('hpack', 'a change of the table, first', headers(b'\x20\x3f\xe1\x1f' + request()), 1, '2'),
    ('hpack', 'a table of nothing', headers(b'\x20' + request(('x', 'y', 0x40)) + b'\xbe'), 1, 'C'),
    ('hpack', 'an entry larger than the table empties it', headers(request(('x', 'y', 0x40), ('z', 'y' * 4100, 0x40))
                                                                   + b'\xbe'), 1, 'C'),

    ('malformed', 'no :method', get(method=None), 1, 'pP4'),
    ('malformed', 'no :scheme', get(scheme=None), 1, 'pP4'),
    ('malformed', 'no :path', get(path=None), 1, 'pP4'),
    ('malformed', 'an empty :path', get(path=''), 1, 'pP4'),
    ('malformed', ':method twice', with_field(':method', 'GET'), 1, 'pP4'),
    ('malformed', ':path twice', headers(block([(':path', '/')]) + request()), 1, 'pP4'),
    ('malformed', 'an unknown pseudo-header field', headers(block([(':what', 'x')]) + request()), 1, 'pP4'),
    ('malformed', ':status', headers(block([(':status', '200')]) + request()), 1, 'pP4'),
    ('malformed', ':protocol, which is not offered', headers(block([(':protocol', 'websocket')]) +
                                                             request(method='CONNECT')), 1, 'pP45'),
    ('malformed', 'a pseudo-header field after others', headers(block([('a', 'b')]) + request()), 1, 'pP4'),
    ('malformed', 'a pseudo-header field in trailers', post(data(flags=0), headers(block([(':path', '/')]))), 1, 'pP4'),
    ('malformed', 'an upper-case name', with_field('X-A', 'b'), 1, 'pP4'),
    ('malformed', 'an upper-case name in trailers', post(data(flags=0), headers(block([('X-A', '/')]))), 1, 'pP4'),
    ('malformed', 'an empty name', with_field('', 'b'), 1, 'pP4C'),
    ('malformed', 'a name with a blank', with_field('a b', 'c'), 1, 'pP4'),
    ('malformed', 'a name with a colon', with_field('a:b', 'c'), 1, 'pP4'),
    ('malformed', 'a name with CR', with_field('a\rb', 'c'), 1, 'pP4'),
    ('malformed', 'a name that is not ASCII', with_field(b'a\xff', 'c'), 1, 'pP4'),
    ('malformed', 'a value with LF', with_field('a', 'b\nc: d'), 1, 'pP4'),
    ('malformed', 'a value with CR', with_field('a', 'b\rc'), 1, 'pP4'),
    ('malformed', 'a value with NUL', with_field('a', 'b\0c'), 1, 'pP4'),
    ('malformed', 'a value with a blank before it', with_field('a', ' b'), 1, 'pP4'),
    ('malformed', 'a value with a tab after it', with_field('a', 'b\t'), 1, 'pP4'),
    ('malformed', 'connection', with_field('connection', 'close'), 1, 'pP4'),
    ('malformed', 'keep-alive', with_field('keep-alive', '1'), 1, 'pP4'),
    ('malformed', 'proxy-connection', with_field('proxy-connection', 'close'), 1, 'pP4'),
    ('malformed', 'transfer-encoding', headers(request(('transfer-encoding', 'chunked'), method='POST'), END_HEADERS) +
     data(b'0\r\n\r\n'), 1, 'pP4'),
    ('malformed', 'upgrade', with_field('upgrade', 'h2c'), 1, 'pP4'),
    ('malformed', 'te: gzip', with_field('te', 'gzip'), 1, 'pP4'),
    ('malformed', 'host other than :authority', with_field('host', 'b.example'), 1, 'pP4'),
    ('malformed', 'two hosts', headers(request(('host', 'a'), ('host', 'b'), authority=None)), 1, 'pP4'),
    ('malformed', 'neither host nor :authority', get(authority=None), 1, 'pP4'),
    ('malformed', 'an empty :authority', get(authority=''), 1, 'pP4'),
    ('malformed', ':authority with a user', get(authority='a@b.example'), 1, 'pP4'),
    ('malformed', ':authority with a blank', get(authority='a b'), 1, 'pP4'),
    ('malformed', ':authority with a path', get(authority='a/b'), 1, 'pP4'),
    ('malformed', ':authority with LF', get(authority='a\nb'), 1, 'pP4'),
    ('malformed', ':path with a blank', get(path='/x HTTP/1.1\r\na: b'), 1, 'pP4'),
    ('malformed', ':path with a blank alone', get(path='/a b'), 1, 'pP4'),
    ('malformed', ':path without a slash', get(path='a'), 1, 'pP4'),
    ('malformed', ':path *, not of OPTIONS', get(path='*'), 1, 'pP4'),
    ('malformed', ':path with a scheme', get(path='http://test.example/'), 1, 'pP4'),
    ('malformed', ':method with a blank', get(method='GET /x'), 1, 'pP4'),
    ('malformed', ':method with LF', get(method='GET\n'), 1, 'pP4'),
    ('malformed', 'an empty :method', get(method=''), 1, 'pP45'),
    ('malformed', ':scheme with a slash', get(scheme='https://x/'), 1, 'pP4'),
    ('malformed', 'an empty :scheme', get(scheme=''), 1, 'pP4'),
    ('malformed', 'CONNECT with a path', get(method='CONNECT'), 1, 'pP45'),
    ('malformed', 'CONNECT', get(method='CONNECT', path=None, scheme=None, authority='a:1'), 1, 'pP45'),

    ('lengths', 'more body than content-length', post(data(b'abcd'), fields=[('content-length', '3')]), 1, 'pP4'),
    ('lengths', 'more body, in pieces', post(data(b'ab', 0), data(b'cd', 0), data(b''),
                                             fields=[('content-length', '3')]), 1, 'pP4'),
    ('lengths', 'less body than content-length', post(data(b'ab'), fields=[('content-length', '3')]), 1, 'pP4'),
    ('lengths', 'less body, and trailers', post(data(b'ab', 0), headers(block([('a', 'b')])),
                                                fields=[('content-length', '3')]), 1, 'pP4'),
    ('lengths', 'content-length and no body', headers(request(('content-length', '3'), method='POST')), 1, 'pP4'),
    ('lengths', 'padding is not body', post(data(b'\2a\0\0', PADDED | END_STREAM), fields=[('content-length', '3')]), 1,
     'pP4'),
    ('lengths', 'content-length twice', post(data(), fields=[('content-length', '3'), ('content-length', '4')]), 1,
     'pP4'),
    ('lengths', 'content-length +3', post(data(), fields=[('content-length', '+3')]), 1, 'pP4'),
    ('lengths', 'content-length 3, 3', post(data(), fields=[('content-length', '3, 3')]), 1, 'pP4'),
    ('lengths', 'an empty content-length', post(data(), fields=[('content-length', '')]), 1, 'pP4'),
    ('lengths', 'content-length over 64 bits', post(data(), fields=[('content-length', '1' * 30)]), 1, 'pP4'),

    ('sizes', '200 fields', headers(request(*[('a%d' % i, 'b') for i in range(200)])), 1, '4E'),
    ('sizes', 'a list larger than 64 KiB', headers((request() + LARGE + b'\xbe' * 20)), 1, '4pE'),
    ('sizes', 'a list as large as 250 MB', b''.join(frame(HEADERS if i == 0 else CONTINUATION,
     (request() + LARGE if i == 0 else b'') + b'\xbe' * 12000, (END_STREAM if i == 0 else 0) |
     (END_HEADERS if i == 4 else 0), 1) for i in range(5)), 1, '4pE'),
]
