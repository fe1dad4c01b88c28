# SPDX-License-Identifier: Apache-2.0
"""
A ZooKeeper server that violates the protocol. The client library trusts its servers: invalid data may end the connection or the
process. A process that has ended is restarted, as by the service manager, and serves with the last known state.
"""
import signal
import struct

import pytest
from support.base import wait_until
from support.zookeeper import Proxy
from zookeeper_support import Load, Place, in_force, knows, remembered, setting, tree_of, workers


def respond(xid, body=b''):
    """A frame: length, xid, zxid, error, body."""
    return struct.pack('>iiqi', 16 + len(body), xid, 1, 0) + body


class FalseProxy(Proxy):
    """Sends its clients bytes that no server would send."""

    def say(self, data):
        with self.lock:
            pairs = list(self.pairs)
        for client, _ in pairs:
            try:
                client.sendall(data)
            except OSError:     # closed in the meantime
                pass


def cut_off(lb):
    try:
        return not tree_of(lb)['connected']
    except OSError:     # the process is ending
        return False


@pytest.mark.parametrize('said', [respond(0x7ffffff0), respond(-3) * 20, struct.pack('>i', 3) + b'abc'],
                         ids=['a response without a request', 'responses of no kind', 'a frame without a whole head'])
def test_after_a_violation_of_the_protocol_it_serves_from_the_last_known_state(world, zookeeper_server, said):
    place = Place(world, server=zookeeper_server)
    proxy = FalseProxy(place.server.port)
    world.closers.append(proxy.close)
    addresses = workers(world, 2)
    for w in addresses:
        place.tree.register('/workers', w)
    place.tree.set('', variance=2.5)
    lb = place.balancer(url=place.url(hosts=proxy.address), top={'state_dir': str(world.directory / 'state'), 'start_wait': '1s'})
    wait_until(knows(lb, addresses), 'the workers')
    wait_until(in_force(lb, 'variance', '2.5'), 'the setting')
    wait_until(lambda: remembered(world.directory / 'state', [*addresses, '2.5']), 'it to be remembered')
    before = proxy.accepted

    def noticed():
        proxy.say(said)
        return not lb.process.alive() or proxy.accepted > before
    wait_until(noticed, 'the end of the connection, or of the process')
    proxy.refuse()
    wait_until(lambda: not lb.process.alive() or cut_off(lb), 'the loss of the connection to be seen')
    if not lb.process.alive():
        assert lb.process.popen.returncode == -signal.SIGABRT
        lb.start(wait=False)
        wait_until(lb.listening, 'the load balancer')
    assert wait_until(lambda: lb.get(), 'a response').status == 200
    assert knows(lb, addresses)()
    assert setting(lb, 'variance')['value'] == '2.5'
    load = Load([lb])
    load.go_on(20)
    # When a server responds again, the state of the tree is applied.
    proxy.pass_on()
    place.tree.set('', variance=4)
    wait_until(in_force(lb, 'variance', '4'), 'the setting')
    load.stop()
