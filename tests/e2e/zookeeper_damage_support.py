# SPDX-License-Identifier: Apache-2.0
"""Something between us and a ZooKeeper that says what no server would: in its place, or within a session."""
import struct

from support.zookeeper import Proxy

HEAD = struct.Struct('>iqi')    # xid, zxid, error
EVENT, PING, AUTH, SET_WATCHES = -1, -2, -4, -8


def framed(body):
    return struct.pack('>i', len(body)) + body


def text(s):
    return struct.pack('>i', len(s)) + s


def reply(xid, body=b'', zxid=1, error=0):
    return framed(HEAD.pack(xid, zxid, error) + body)


def event(kind, path, state=3):
    """PATH: its bytes, with their length."""
    return reply(EVENT, struct.pack('>ii', kind, state) + path, zxid=-1)


def with_head(body, **changed):
    """The frame BODY with other numbers in its head."""
    xid, zxid, error = HEAD.unpack_from(body)
    head = {'xid': xid, 'zxid': zxid, 'error': error, **changed}
    return framed(HEAD.pack(head['xid'], head['zxid'], head['error']) + body[HEAD.size:])


def xid_of(body):
    return HEAD.unpack_from(body)[0]


def anything(body):
    return True


def is_answer(body):
    """To a question, in its turn."""
    return xid_of(body) >= 0


def number_at(body, at, value):
    """BODY with another number at that place of what stands behind its head."""
    at += HEAD.size
    return framed(body[:at] + struct.pack('>i', value) + body[at + 4:]) if len(body) >= at + 4 else framed(body + b'?')


# What may become of a frame that has no right place, each by a name: a function from its bytes, without their length, to those
# that are sent. None of them can be taken for what a server says.
DAMAGES = {
    'before it, an answer that nobody asked for': lambda b: reply(0x7ffffff0) + framed(b),
    'before it, an answer of another age': lambda b: reply(0) + framed(b),
    'before it, an answer out of turn of no kind': lambda b: reply(-3) + framed(b),
    'before it, a ping that nobody asked for': lambda b: reply(PING) * 50 + framed(b),
    'before it, an identity that nobody asked about': lambda b: reply(AUTH, error=-115) * 50 + framed(b),
    'before it, watches that nobody set': lambda b: reply(SET_WATCHES) * 50 + framed(b),
    'before it, news of nothing': lambda b: reply(EVENT) + framed(b),
    'before it, news of no node': lambda b: event(3, struct.pack('>i', -1)) + framed(b),
    'before it, news of a node without a name': lambda b: event(3, text(b'')) + framed(b),
    'before it, news of a node that is no path': lambda b: event(3, text(b'app')) + framed(b),
    'before it, news of a path with a hole': lambda b: event(3, text(b'/app\0/x')) + framed(b),
    'before it, news of a path without end': lambda b: event(3, struct.pack('>i', 0x7fffffff) + b'/app') + framed(b),
    'before it, news of no kind': lambda b: event(77, text(b'/app')) + framed(b),
    'before it, news of the session': lambda b: event(-1, text(b''), state=-112) + framed(b),
    'before it, news of a session that has expired': lambda b: event(3, text(b'/app'), state=-112) + framed(b),
    'before it, news that is an error': lambda b: reply(EVENT, struct.pack('>ii', 3, 3) + text(b'/app'), error=-4) + framed(b),
    'another xid': lambda b: with_head(b, xid=xid_of(b) + 1 if xid_of(b) >= 0 else -77),
    'an xid out of turn': lambda b: with_head(b, xid=SET_WATCHES if xid_of(b) != SET_WATCHES else 1 << 30),
    'a zxid of no transaction': lambda b: with_head(b, zxid=-2),
    'an error that is none': lambda b: with_head(b, error=5),
    'an error of the client': lambda b: with_head(b, error=-4),
    'an error far away': lambda b: with_head(b, error=-0x80000000),
    'an error with an answer': lambda b: framed(HEAD.pack(xid_of(b), 1, -101) + b[HEAD.size:] + b'?'),
    'cut in its head': lambda b: framed(b[:HEAD.size - 1]),
    'cut in its answer': lambda b: framed(b[:-1]),
    'without its answer': lambda b: framed(b[:HEAD.size] if len(b) > HEAD.size else b''),
    'more behind its end': lambda b: framed(b + b'\0\0\0\0'),
    'an answer that begins with less than nothing': lambda b: number_at(b, 0, -2),
    'an answer that begins without end': lambda b: number_at(b, 0, 0x7fffffff),
    'an answer that begins with more than it has': lambda b: number_at(b, 0, len(b)),
    'of no length': lambda b: framed(b''),
    'of less than no length': lambda b: b'\xff\xff\xff\xff' + b,
    'of a length without end': lambda b: b'\x7f\xff\xff\xff' + b,
    'noise': lambda b: framed(bytes((i * 73 + 41) & 0xff for i in range(len(b) + 20))),
}


class GarblingProxy(Proxy):
    """
    Who connects while there is garbage is told that, in place of the server's first words. Within a session the next frames
    of the server are damaged as they were told to be, one each.
    """

    garbage = None

    def __init__(self, target_port):
        self.damages, self.only = [], anything
        self.damaged = 0    # frames
        self.begun = {}     # by socket: what has come of a frame; not before the greeting
        super().__init__(target_port)

    def _pump(self, source, sink):
        garbage = self.garbage
        try:
            if garbage is not None and self.from_server(source) and source.recv(1 << 16):
                sink.sendall(garbage)
        except OSError:
            pass
        super()._pump(source, sink)
        # Who hears garbage comes again and again.
        with self.lock:
            self.pairs = [pair for pair in self.pairs if source not in pair]
            self.begun.pop(source, None)

    def passed(self, source, data):
        if not self.from_server(source):
            return data
        greeted = source in self.begun
        data = self.begun.get(source, b'') + data
        out = []
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], 'big'):
            end = 4 + int.from_bytes(data[:4], 'big')
            out.append(self._frame(data[4:end]) if greeted else data[:end])
            greeted, data = True, data[end:]
        if greeted:
            self.begun[source] = data
            return b''.join(out)
        return data

    def _frame(self, body):
        with self.lock:
            damage = self.damages.pop(0) if self.damages and self.only(body) else framed
            self.damaged += damage is not framed
        return damage(body)

    def damage(self, *damages, only=anything):
        """The next frames within a session, or of those the ones that ONLY says, each by one of these."""
        with self.lock:
            self.damages, self.only = list(damages), only

    def garble(self, data):
        self.garbage = data
        self.cut()

    def pass_on(self):
        self.garbage = None
        super().pass_on()
