# SPDX-License-Identifier: Apache-2.0
"""The manifests of examples/, and containers as they describe them: a small image as root directory, without a container runtime."""
import json
import os
import re
import time

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import yaml

from dns_support import NameServer
from support.base import BIN, ROOT, free_port, wait_until
from support.http import get

EXAMPLES = ROOT / 'examples'
SERVICE = 'shop.default.svc.cluster.local.'
# Programs of the images that the examples use: Debian's, and for the application Python.
PROGRAMS = ('sh', 'env', 'cat', 'sed', 'sleep', 'setpriv', 'python3')

# Makes the image of the container in the directory $1, with the programs $2, mounts the volumes of VOLUMES and starts $3...
IMAGE = r'''
set -eu
image=$1 programs=$2 && shift 2
mount -t tmpfs -o mode=755 tmpfs "$image"
mkdir -p "$image/usr/bin" "$image/usr/lib" "$image/usr/lib64" "$image/etc" "$image/dev" "$image/proc"
for link in bin lib lib64; do ln -s "usr/$link" "$image/$link"; done
for lib in lib lib64; do [ ! -d "/usr/$lib" ] || mount --bind "/usr/$lib" "$image/usr/$lib"; done
for program in $programs; do cp -L "$program" "$image/usr/bin/"; done
printf 'nameserver 127.0.0.1\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n' >"$image/etc/resolv.conf"
printf '127.0.0.1 localhost\n' >"$image/etc/hosts"
touch "$image/dev/null" && mount --bind /dev/null "$image/dev/null"
mount --rbind /proc "$image/proc"
%s
mount -o remount,ro "$image"
exec /usr/sbin/chroot "$image" /usr/bin/setpriv %s --bounding-set=-all --inh-caps=-all --no-new-privs /usr/bin/env -i PATH=/usr/bin "$@"
'''


def manifests(name):
    return [m for m in yaml.safe_load_all((EXAMPLES / 'kubernetes' / name).read_text()) if m]


def manifest(name, kind):
    return next(m for m in manifests(name) if m['kind'] == kind)


def pod_spec(name, kind='Deployment'):
    return manifest(name, kind)['spec']['template']['spec']


def seconds(text):
    """The value of a time as configurations have it, in seconds."""
    number, unit = re.fullmatch(r'(\d+)(ms|s|m)', text).groups()
    return int(number) * {'ms': 0.001, 's': 1, 'm': 60}[unit]


def entry_point():
    """The command of the load balancer's image."""
    text = (ROOT / 'Dockerfile').read_text().rpartition('\nFROM ')[2]
    return [word for key in ('ENTRYPOINT', 'CMD') for word in json.loads(re.search(r'^%s (\[.*\])$' % key, text, re.M)[1])]


def volume_sources(world, spec, name):
    """{volume: directory of this machine}, empty ones for emptyDir, writable for the user of the pod."""
    user = spec['securityContext']['runAsUser']
    found = {}
    for v in spec.get('volumes', []):
        path = found[v['name']] = world.directory / ('%s-%s' % (name, v['name']))
        path.mkdir()
        if os.geteuid() == 0 and 'emptyDir' in v:
            os.chown(path, user, user)
    return found


def start_container(world, spec, container, name, sources, command=None, environment=()):
    """
    Starts CONTAINER of the pod SPEC in an image that is read-only but for its volumes, as its user and without capabilities;
    COMMAND instead of its own.
    """
    image = world.directory / ('%s.image' % name)
    image.mkdir(exist_ok=True)
    assert container['securityContext']['readOnlyRootFilesystem']
    mounts = ''
    for m in container.get('volumeMounts', []):
        at = '"$image%s"' % m['mountPath']
        mounts += 'mkdir -p %s && mount --bind "%s" %s\n' % (at, sources[m['name']], at)
        if m.get('readOnly'):
            mounts += 'mount -o remount,bind,ro %s\n' % at
    context, rights, user = spec['securityContext'], ['--user', '--map-root-user'], ''
    if os.geteuid() == 0:
        rights, user = [], '--reuid=%d --regid=%d --clear-groups' % (context['runAsUser'], context['runAsGroup'])
    programs = [str(BIN / 'resumelb'), str(BIN / 'resumelbctl'), *('/usr/bin/' + p for p in PROGRAMS)]
    return world.process(['unshare', *rights, '--mount', 'sh', '-c', IMAGE % (mounts, user), 'image', image, ' '.join(programs),
                          *environment, *(command or container['command'])], name)


class Replica:
    """A pod of the load balancer: the init container, then the container, with the ports and the name server of the test."""

    def __init__(self, world, resolver, worker_port, name='replica', token='0123456789abcdef'):
        self.spec = pod_spec('resumelb.yaml')
        self.container, self.token = self.spec['containers'][0], token
        self.address, self.admin = ('127.0.0.1:%d' % free_port() for _ in range(2))
        self.sources = volume_sources(world, self.spec, name)
        text = manifest('resumelb.yaml', 'ConfigMap')['data']['resumelb.yaml']
        for old, new in (('0.0.0.0:8080', self.address), ('0.0.0.0:8081', self.admin), ('shop:8000', 'shop:%d' % worker_port)):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (self.sources['config'] / 'resumelb.yaml').write_text('%sresolvers: ["%s"]\n' % (text, resolver))
        (self.sources['secret'] / 'token').write_text(token)
        first = start_container(world, self.spec, self.spec['initContainers'][0], name + '-init', self.sources)
        assert first.wait() == 0, first.output()
        self.world, self.name = world, name
        self.run('check', [*entry_point(), '-t'])
        self.process = start_container(world, self.spec, self.container, name, self.sources, entry_point())
        wait_until(lambda: self.probe('livenessProbe') == 200, '%s to live' % name)

    def probe(self, which):
        """What the kubelet gets for the probe WHICH: a status, None without a connection."""
        assert self.process.alive(), self.process.output()[-4000:]
        action = self.container[which]['httpGet']
        assert action['port'] == 'admin' and 'httpHeaders' not in action
        try:
            return get(self.admin, action['path'], host=self.admin).status
        except OSError:
            return None

    def workers(self):
        r = get(self.admin, '/status.json', host=self.admin, headers=[('Authorization', 'Bearer ' + self.token)])
        assert r.status == 200, r.text
        return {w['name'] for w in json.loads(r.body)['applications']['default']['workers']}

    def run(self, name, command):
        """What COMMAND prints in the container; it must succeed."""
        p = start_container(self.world, self.spec, self.container, '%s-%s' % (self.name, name), self.sources, command)
        assert p.wait() == 0, p.output()
        return p.output()

    def prestop(self):
        self.run('prestop', self.container['lifecycle']['preStop']['exec']['command'])


class ClusterDns(NameServer):
    """
    The headless Service as CoreDNS answers for it: `ready` are the addresses of its pods, `fault` a response code for all
    queries. `cache`: an answer is repeated, with what is left of its TTL, until that has passed. Truncated by UDP.
    """

    def __init__(self, ttl, cache=False):
        self.ready, self.fault, self.cache, self.kept = [], None, cache, None
        super().__init__(ttl=ttl)
        self.answer = self.by_service

    def by_service(self, query, tcp):
        q = query.question[0]
        r = dns.message.make_response(query)
        r.flags |= dns.flags.AA | dns.flags.RA
        if self.fault is not None:
            r.set_rcode(self.fault)
        elif q.name.to_text().lower() != SERVICE or (not self.ready and not self.kept):
            r.set_rcode(dns.rcode.NXDOMAIN)
        elif not tcp:
            r.flags |= dns.flags.TC
        elif q.rdtype == dns.rdatatype.A:
            now = time.monotonic()
            if not self.kept or not self.cache or now >= self.kept[0]:
                self.kept = now + self.ttl, list(self.ready)
            left = max(int(self.kept[0] - now), 0) if self.cache else self.ttl
            r.answer.append(dns.rrset.from_text_list(q.name, left, 'IN', 'A', self.kept[1]))
        return r


class Pod:
    """A pod of the application at a loopback address of its own."""
    count = 0

    def __init__(self, world, port, file='app.yaml', kind='Deployment'):
        Pod.count += 1
        self.ip, name = '127.3.0.%d' % Pod.count, 'pod%d' % Pod.count
        self.address = '%s:%d' % (self.ip, port)
        spec = pod_spec(file, kind)
        sources = volume_sources(world, spec, name)
        (sources['app'] / 'app.py').write_bytes((EXAMPLES / 'compose' / 'app.py').read_bytes())
        container = spec['containers'][0]
        self.process = start_container(world, spec, container, name, sources,
                                       environment=['POD_IP=' + self.ip, 'PORT=%d' % port, 'PYTHONDONTWRITEBYTECODE=1'])
        self.path = container['readinessProbe']['httpGet']['path']
        wait_until(self.ready, '%s to be ready' % name)

    def ready(self):
        assert self.process.alive(), self.process.output()
        try:
            return get(self.address, self.path).status == 200
        except OSError:
            return False

    def terminate(self):
        self.process.kill(15)
        assert self.process.wait() in (0, -15), self.process.output()
