# SPDX-License-Identifier: Apache-2.0
"""Time limits of HTTP/2: the same as of HTTP/1, for any received part of a request."""
import pytest
from support.base import free_port, wait_until
from support.certificates import Pair
from support.http import get
from support.http2 import (DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, SETTINGS, WINDOW_UPDATE, Http2, frame,
                           negotiated, request, to_the_end)
from support.scripted import hello, serve

START = PREFACE + frame(SETTINGS)
LONG = '30m'        # much longer than the limit under test


class Front:
    def __init__(self, world, **settings):
        self.worker, self.port = world.scripted(serve(hello)), free_port()
        self.lb = world.resumelb({'workers': [self.worker.address], **settings}, threads=1, listen=[
            {'address': '127.0.0.1:%d' % self.port, 'tls': Pair(world.directory, 'front', ['test.example']).entry, 'http2': True}])

    def timeouts(self, which):
        text = get(self.lb.admin, '/metrics', host=self.lb.admin).text
        line, = [line for line in text.splitlines() if line.startswith('resumelb_client_%s_timeouts_total ' % which)]
        return int(line.split()[-1])


@pytest.mark.parametrize('sent', [b'', PREFACE[:12], PREFACE, START + frame(HEADERS, request(), END_STREAM | END_HEADERS, 1)[:15],
                                  START + frame(HEADERS, request()[:3], END_STREAM, 1)],
                         ids=['silence after ALPN', 'half a preface', 'a preface without SETTINGS', 'half a frame', 'half a header block'])
def test_a_head_that_is_not_complete_in_time_ends_its_connection(world, sent):
    front = Front(world, header_timeout='1s', keep_alive_timeout=LONG)
    with Http2(front.port) as other, negotiated(front.port) as s:
        assert other.get(1).status == '200'
        s.sendall(sent)
        to_the_end(s)
        assert front.timeouts('header') == 1
        assert other.get(3).status == '200', 'another idle connection continues to work'


@pytest.mark.parametrize('one', [frame(PING, b'12345678'), frame(SETTINGS), frame(PRIORITY, b'\0\0\0\0\x10', 0, 7),
                                 frame(WINDOW_UPDATE, b'\0\0\0\1')], ids=['PING', 'SETTINGS', 'PRIORITY', 'WINDOW_UPDATE'])
def test_a_connection_without_requests_is_idle_whatever_else_it_states(world, one):
    front = Front(world, header_timeout=LONG, keep_alive_timeout='1s')
    with negotiated(front.port) as s:
        s.sendall(START)
        s.settimeout(0.05)
        got = b''
        sent = 0

        def ended():
            nonlocal got, sent
            try:
                s.sendall(one)
                sent += 1
                while data := s.recv(65536):
                    got += data
                return True
            except TimeoutError:
                return False
            except ConnectionError:
                return True
        wait_until(ended, 'the end')
        assert sent > 1
        goaways = got.count(b'\0\0\x08\x07\0\0\0\0\0')
        assert goaways == 1 and front.worker.requests == []


def test_a_body_that_is_not_complete_in_time_ends_its_stream_alone(world):
    front = Front(world, body_timeout='1s', keep_alive_timeout=LONG)
    with Http2(front.port) as c:
        c.send(frame(HEADERS, request(method='POST'), END_HEADERS, 1) + frame(DATA, b'abc', 0, 1))
        c.until_over(1)
        assert c.stream(1).reset == 'CANCEL' and c.goaway is None
        assert c.get(3).status == '200'
        assert front.timeouts('body') == 1
