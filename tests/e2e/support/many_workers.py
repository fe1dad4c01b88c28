# SPDX-License-Identifier: Apache-2.0
"""
Many workers in one process: many_workers.py PORT COUNT listens on COUNT loopback addresses with the same port and responds to every
request with the address that received it. It supports only the subset of HTTP that a load balancer sends.
"""
import asyncio
import resource
import socket
import subprocess
import sys


def address(i, port):
    """The address of the i-th worker. 127.0.0.1 is not used."""
    return '127.1.%d.%d:%d' % (i // 250, i % 250 + 1, port)


class Worker(asyncio.BufferedProtocol):
    """A worker's connection. It has its own buffer: the one that asyncio allocates for each read is so large that each needs an mmap."""

    def connection_made(self, transport):
        self.transport = transport
        self.rest, self.room = b'', bytearray(1 << 14)
        body = ('%s:%d' % transport.get_extra_info('sockname')).encode()
        self.response = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Worker: %s\r\n\r\n%s' % (len(body), body, body)

    def get_buffer(self, sizehint):
        return self.room

    def buffer_updated(self, count):
        *heads, self.rest = (self.rest + self.room[:count]).split(b'\r\n\r\n')
        if heads:
            self.transport.write(self.response * len(heads))


async def serve(port, count):
    loop = asyncio.get_running_loop()
    servers = []
    for i in range(count):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address(i, port).split(':')[0], port))
        servers.append(await loop.create_server(Worker, sock=s))
    print('ready', flush=True)
    await asyncio.Event().wait()


def start(port, count):
    """Starts the workers as a child process and waits until they serve. Returns the Popen."""
    child = subprocess.Popen(['/usr/bin/python3', '-B', __file__, str(port), str(count)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE)
    if child.stdout.readline() != b'ready\n':
        child.kill()
        raise AssertionError('the workers did not start: %d' % child.wait())
    return child


if __name__ == '__main__':
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
