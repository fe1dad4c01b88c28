# SPDX-License-Identifier: Apache-2.0
"""Name servers for tests: one that answers as the test wants, knot with dynamic updates, dnsmasq."""
import socket
import struct
import threading

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.update

from support.base import free_port, wait_until

ZONE = 'app.internal.'


class NameServer:
    """
    Answers by `answer(query, tcp)`, which returns a dns.message, bytes, or None for no response; by UDP and TCP at one port.
    Without it, by `records`: {name: [(type, value), ...]} with `ttl`; a name that is not there does not exist. `queries` has the
    (name, type, tcp) of all that came.
    """

    def __init__(self, records=None, ttl=1, host='127.0.0.1'):
        self.records, self.ttl, self.answer = dict(records or {}), ttl, self.by_records
        self.queries, self.closed = [], False
        port = free_port(host)
        self.udp, self.tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.udp.bind((host, port))
        self.tcp.bind((host, port))
        self.tcp.listen(64)
        self.address = '%s:%d' % (host, port)
        for run in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=run, daemon=True).start()

    def close(self):
        self.closed = True
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def by_records(self, query, tcp):
        q = query.question[0]
        name, kind = q.name.to_text().lower(), dns.rdatatype.to_text(q.rdtype)
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if name not in self.records:
            response.set_rcode(dns.rcode.NXDOMAIN)
            return response
        values = [value for k, value in self.records[name] if k == kind]
        if values:
            response.answer.append(dns.rrset.from_text_list(q.name, self.ttl, 'IN', kind, values))
        return response

    def _respond(self, wire, tcp):
        query = dns.message.from_wire(wire)
        q = query.question[0]
        self.queries.append((q.name.to_text().lower(), dns.rdatatype.to_text(q.rdtype), tcp))
        response = self.answer(query, tcp)
        if response is None or isinstance(response, bytes):
            return response
        if tcp:
            return response.to_wire(max_size=65535)
        try:
            return response.to_wire(max_size=1232)
        except dns.exception.TooBig:
            short = dns.message.make_response(query)
            short.flags |= dns.flags.TC
            return short.to_wire()

    def _serve_udp(self):
        while not self.closed:
            try:
                wire, peer = self.udp.recvfrom(65536)
                if not wire:
                    return
                response = self._respond(wire, False)
                if response is not None:
                    self.udp.sendto(response, peer)
            except OSError:
                return

    def _serve_tcp(self):
        while not self.closed:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(sock,), daemon=True).start()

    def _serve_connection(self, sock):
        with sock, sock.makefile('rb') as stream:
            while True:
                head = stream.read(2)
                if len(head) < 2:
                    return
                response = self._respond(stream.read(struct.unpack('!H', head)[0]), True)
                if response is not None:
                    sock.sendall(struct.pack('!H', len(response)) + response)


class Knot:
    """An authoritative server of ZONE, which is changed by dynamic updates (RFC 2136)."""

    def __init__(self, world, ttl=1):
        self.world, self.ttl, self.port = world, ttl, free_port()
        self.address = '127.0.0.1:%d' % self.port
        directory = world.directory / 'knot'
        directory.mkdir()
        (directory / 'zone').write_text('@ 60 SOA ns admin 1 60 60 60 1\n@ 60 NS ns\nns 60 A 127.0.0.1\n')
        (directory / 'knot.conf').write_text('''
server:
    listen: 127.0.0.1@%d
    rundir: %s
database:
    storage: %s
log:
  - target: stderr
    any: info
acl:
  - id: update
    address: 127.0.0.1
    action: update
zone:
  - domain: %s
    file: %s/zone
    acl: update
    zonefile-sync: -1
    zonefile-load: whole
''' % (self.port, directory, directory, ZONE, directory))
        self.start()

    def start(self):
        self.process = self.world.process(['/usr/sbin/knotd', '-c', self.world.directory / 'knot' / 'knot.conf'], 'knot')
        wait_until(self.responds, 'knot')

    def responds(self):
        assert self.process.alive(), self.process.output()
        try:
            r = dns.query.udp(dns.message.make_query(ZONE, 'SOA'), '127.0.0.1', timeout=1, port=self.port)
        except (OSError, dns.exception.Timeout):
            return False
        return bool(r.answer)

    def set(self, name, *records):
        """Replaces the records of NAME, each TYPE VALUE, in one update."""
        update = dns.update.UpdateMessage(ZONE)
        update.delete(name)
        for kind, value in records:
            update.add(name, self.ttl, kind, value)
        r = dns.query.tcp(update, '127.0.0.1', timeout=10, port=self.port)
        assert r.rcode() == dns.rcode.NOERROR, r


def dnsmasq(world, *options):
    """Starts dnsmasq at its own port. Returns its address."""
    port = free_port()
    world.process(['/usr/sbin/dnsmasq', '--keep-in-foreground', '--port=%d' % port, '--listen-address=127.0.0.1', '--bind-interfaces',
                   '--no-resolv', '--no-hosts', '--conf-file=/dev/null', '--pid-file=', '--user=', *options], 'dnsmasq')

    def responds():
        try:
            dns.query.udp(dns.message.make_query('x.app.internal', 'A'), '127.0.0.1', timeout=1, port=port)
        except (OSError, dns.exception.Timeout):
            return False
        return True
    wait_until(responds, 'dnsmasq')
    return '127.0.0.1:%d' % port
