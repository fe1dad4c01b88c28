# SPDX-License-Identifier: Apache-2.0
"""The examples for Kubernetes and Docker Compose: valid, consistent, and run as they describe as far as this needs no container runtime."""
import copy
import json
import pathlib
import re
import signal
import subprocess
import threading
import time

import dns.rcode
import dns.rrset
import jsonschema
import pytest
import yaml

from deploy_support import (EXAMPLES, SERVICE, ClusterDns, Pod, Replica, entry_point, manifest, manifests, pod_spec, seconds,
                            start_container)
from dns_support import NameServer
from load_support import Load
from rights_support import ROOT as AS_ROOT, threads_of
from support.base import BIN, LIMIT, free_port, wait_until
from support.http import Client, get
from support.servers import Gunicorn

DATA = pathlib.Path(__file__).resolve().parent / 'data'
FILES = sorted(p.name for p in (EXAMPLES / 'kubernetes').glob('*.yaml'))
COMPOSE = yaml.safe_load((EXAMPLES / 'compose' / 'compose.yaml').read_text())
CONFIG = yaml.safe_load(manifest('resumelb.yaml', 'ConfigMap')['data']['resumelb.yaml'])
# How long a name server may repeat an answer [s]: with `cache 30` in CoreDNS, or a cache on the node.
LONGEST_TTL = 30


def validator(name):
    schema = json.loads((DATA / name).read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize('name', FILES)
def test_manifests_are_valid_by_the_schemas_of_kubernetes(name):
    check = validator('kubernetes.json')
    for m in manifests(name):
        check.validate(m)
        # A misspelled property is found, at the top and in a container.
        wrong = copy.deepcopy(m)
        wrong['metadata']['lables'] = {}
        assert not check.is_valid(wrong)
        if 'template' in m.get('spec', {}):
            wrong = copy.deepcopy(m)
            wrong['spec']['template']['spec']['containers'][0]['readynessProbe'] = {}
            assert not check.is_valid(wrong)


def test_the_compose_file_is_valid_by_the_schema_of_compose():
    check = validator('compose.json')
    check.validate(COMPOSE)
    wrong = copy.deepcopy(COMPOSE)
    wrong['services']['resumelb']['stop_grace'] = '1s'
    assert not check.is_valid(wrong)


@pytest.mark.parametrize('name', FILES)
def test_names_ports_and_volumes_of_the_manifests_exist(name):
    everything = manifests(name)
    workload = next(m for m in everything if m['kind'] in ('Deployment', 'StatefulSet'))
    labels = workload['spec']['template']['metadata']['labels']
    spec = workload['spec']['template']['spec']
    ports = {p['name']: p['containerPort'] for c in spec['containers'] for p in c['ports']}
    assert all(p > 1023 for p in ports.values())
    assert workload['spec']['selector']['matchLabels'] == labels
    for m in everything:
        if m['kind'] == 'Service':
            assert m['spec']['selector'] == labels and m['spec']['ports'][0]['targetPort'] in ports
        if m['kind'] == 'PodDisruptionBudget':
            assert m['spec']['selector']['matchLabels'] == labels
    volumes = {v['name'] for v in spec['volumes']}
    for c in spec['containers'] + spec.get('initContainers', []):
        assert {m['name'] for m in c['volumeMounts']} <= volumes
        assert c['securityContext'] == {'allowPrivilegeEscalation': False, 'readOnlyRootFilesystem': True,
                                        'capabilities': {'drop': ['ALL']}}
        assert c['resources']['requests'].keys() == {'cpu', 'memory'} and 'memory' in c['resources']['limits']
        for probe in ('readinessProbe', 'livenessProbe'):
            assert probe not in c or c[probe]['httpGet']['port'] in ports
    context = spec['securityContext']
    assert context['runAsNonRoot'] and context['runAsUser'] > 0 and context['seccompProfile'] == {'type': 'RuntimeDefault'}


def test_pods_have_time_to_drain_before_they_are_killed():
    balancer = pod_spec('resumelb.yaml')
    pause = int(balancer['containers'][0]['lifecycle']['preStop']['exec']['command'][1])
    assert balancer['terminationGracePeriodSeconds'] >= pause + seconds(CONFIG['drain_timeout']) + 5
    for spec in pod_spec('app.yaml'), pod_spec('app-statefulset.yaml', 'StatefulSet'):
        pause = int(spec['containers'][0]['lifecycle']['preStop']['exec']['command'][1])
        assert pause >= LONGEST_TTL + 5
        assert spec['terminationGracePeriodSeconds'] >= pause + seconds(CONFIG['drain_timeout'])
    assert manifest('app.yaml', 'Deployment')['spec']['minReadySeconds'] >= LONGEST_TTL + 5
    config = yaml.safe_load((EXAMPLES / 'compose' / 'resumelb.yaml').read_text())
    assert seconds(COMPOSE['services']['resumelb']['stop_grace_period']) >= seconds(config['drain_timeout']) + 5


def test_both_kinds_of_workload_have_the_same_pods_and_the_service_that_the_configuration_names():
    assert pod_spec('app.yaml') == pod_spec('app-statefulset.yaml', 'StatefulSet')
    for name in 'app.yaml', 'app-statefulset.yaml':
        service = manifest(name, 'Service')
        assert service['spec']['clusterIP'] == 'None' and service['spec']['publishNotReadyAddresses'] is False
        assert CONFIG['workers'] == ['%s:%d' % (service['metadata']['name'], service['spec']['ports'][0]['port'])]
    stateful = manifest('app-statefulset.yaml', 'StatefulSet')['spec']
    assert stateful['serviceName'] == service['metadata']['name']
    pod = manifest('resumelb.yaml', 'Deployment')['spec']['template']
    admin = next(p['containerPort'] for p in pod['spec']['containers'][0]['ports'] if p['name'] == 'admin')
    annotations = pod['metadata']['annotations']
    assert annotations == {'prometheus.io/scrape': 'true', 'prometheus.io/port': str(admin), 'prometheus.io/path': '/metrics'}


def test_the_configuration_of_compose_is_valid():
    r = subprocess.run([BIN / 'resumelb', '-t', '-c', EXAMPLES / 'compose' / 'resumelb.yaml'], capture_output=True, text=True,
                       timeout=LIMIT)
    assert r.returncode == 0, r.stderr


def cluster(world, ttl=1, cache=False):
    server = ClusterDns(ttl, cache)
    world.closers.append(server.close)
    return server


def test_a_replica_runs_without_rights_in_a_read_only_image_and_answers_its_probes(world):
    server, port = cluster(world), free_port()
    pod = Pod(world, port)
    replica = Replica(world, server.address, port)
    assert replica.probe('readinessProbe') == 503      # no pod is ready yet
    server.ready.append(pod.ip)
    wait_until(lambda: replica.probe('readinessProbe') == 200, 'the readiness')
    assert get(replica.address, '/x', host='a.example').text.endswith(' GET /x\n')
    asked = len(server.queries)
    wait_until(lambda: len(server.queries) >= asked + 4, 'more queries')
    assert {q[0] for q in server.queries[asked:]} == {SERVICE}      # not one for each search domain
    metrics = get(replica.admin, '/metrics', host=replica.admin)
    assert metrics.status == 401
    metrics = get(replica.admin, '/metrics', host=replica.admin, headers=[('Authorization', 'Bearer ' + replica.token)])
    assert 'resumelb_' in metrics.text
    readme = (EXAMPLES / 'kubernetes' / 'README.md').read_text()
    command = re.search(r'kubectl exec deployment/resumelb -- (resumelbctl .*)', readme)[1].split()
    assert pod.address in replica.run('status', [*command, '-a', replica.admin])
    for thread in threads_of(replica.process.pid):
        assert (thread['CapEff'], thread['CapPrm'], thread['NoNewPrivs']) == (['0000000000000000'], ['0000000000000000'], ['1'])
        assert not AS_ROOT or thread['Uid'] == [str(replica.spec['securityContext']['runAsUser'])] * 4
    image = world.directory / 'replica.image'
    for path, status in ('/usr/bin/x', 2), ('/etc/resumelb/x', 2), ('/tmp/x', 0), ('/var/lib/resumelb/x', 0):
        container = replica.container
        w = start_container(world, replica.spec, container, 'writer' + path.replace('/', '-'), replica.sources,
                            ['sh', '-c', 'echo >"$0"', path])
        assert w.wait() == status, (path, w.output())
    assert not any(image.iterdir()), 'mounts of the container reached this machine'
    log = replica.process.output()
    assert 'secret-file-exposed' not in log and ' level=error' not in log, log
    # A body above body_spill goes to the volume /tmp.
    with_body = get(replica.address, '/', host='a.example', method='POST', body=b'x' * 2000000)
    assert with_body.status == 200
    assert replica.process.stop() == 0


class ServiceLoad:
    """Clients with a connection for each request, to any of ADDRESSES, as the Service of the load balancers spreads them."""

    def __init__(self, addresses, clients=4):
        self.addresses, self.failures, self.counts, self.stopping = list(addresses), [], {}, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(clients)]
        for t in self.threads:
            t.start()

    def run(self, n):
        while not self.stopping.wait(0.01):
            n += 1
            addresses = list(self.addresses)
            address = addresses[n % len(addresses)]
            try:
                status = get(address, '/', host='site%d.example' % (n % 7), method='POST' if n % 3 == 0 else 'GET',
                             body=b'x' * 100 if n % 3 == 0 else None).status
            except OSError as e:
                status = repr(e)
            if status != 200:
                self.failures.append((address, status))
            self.counts[address] = self.counts.get(address, 0) + 1

    def more(self, address, n=20):
        target = self.counts.get(address, 0) + n
        wait_until(lambda: self.failures or self.counts.get(address, 0) >= target, '%d more requests of %s' % (n, address))
        assert not self.failures, self.failures[:5]

    def end(self):
        self.stopping.set()
        for t in self.threads:
            t.join(LIMIT)
        assert not self.failures, self.failures[:5]


def test_a_replica_that_is_deleted_under_load_drains_within_its_time_without_a_failed_request(world):
    server, port = cluster(world), free_port()
    for i in range(3):
        server.ready.append('127.4.0.%d' % (i + 1))
        Gunicorn(world, 'worker%d' % i, '%s:%d' % (server.ready[i], port), extra=['--threads=16'])
    one, other = (Replica(world, server.address, port, name) for name in ('one', 'other'))
    for r in one, other:
        wait_until(lambda: r.probe('readinessProbe') == 200, 'the readiness')
    load = ServiceLoad([one.address, other.address])
    try:
        load.more(one.address)
        gate, done = world.directory / 'gate', []

        def request(i):
            done.append(get(one.address, '/', host='slow%d.example' % i, method='POST', body=b'x',
                            headers=[('X-Until', str(gate))]).status)
        slow = [threading.Thread(target=request, args=(i,), daemon=True) for i in range(6)]
        idle = Client(one.address)
        assert idle.request('GET', '/', 'idle.example').status == 200
        for t in slow:
            t.start()
        load.more(one.address)
        began = time.monotonic()
        load.addresses.remove(one.address)      # what the Service does at once
        one.prestop()
        assert one.probe('readinessProbe') == 200
        one.process.kill(signal.SIGTERM)
        one.process.wait_logged('stopping')
        load.more(other.address)
        assert one.process.alive() and not done
        gate.touch()
        for t in slow:
            t.join(LIMIT)
        assert done == [200] * 6
        assert one.process.wait() == 0
        assert time.monotonic() - began < one.spec['terminationGracePeriodSeconds']
        load.more(other.address)
        assert other.probe('readinessProbe') == 200
        idle.close()
    finally:
        load.end()


class Rollout:
    """Replaces the pods of a Service as Kubernetes does; each old one leaves the DNS PAUSE seconds before its SIGTERM (preStop)."""

    def __init__(self, world, server, port, pause, file, kind):
        self.world, self.server, self.port, self.pause = world, server, port, pause
        self.file, self.kind, self.leaving = file, kind, []
        self.pods = []

    def add(self):
        self.pods.append(Pod(self.world, self.port, self.file, self.kind))
        self.server.ready.append(self.pods[-1].ip)

    def remove(self):
        pod = self.pods.pop(0)
        self.server.ready.remove(pod.ip)
        self.leaving.append((time.monotonic() + self.pause, pod))

    def finish(self):
        for end, pod in self.leaving:
            time.sleep(max(0, end - time.monotonic()))
            pod.terminate()
        self.leaving.clear()

    def addresses(self):
        return {p.address for p in self.pods}


def roll(world, ttl, cache, pause, kind='Deployment', faults=()):
    server, port = cluster(world, ttl, cache), free_port()
    file = 'app.yaml' if kind == 'Deployment' else 'app-statefulset.yaml'
    rollout = Rollout(world, server, port, pause, file, kind)
    for _ in range(3):
        rollout.add()
    replicas = [Replica(world, server.address, port, name) for name in ('one', 'other')]
    for r in replicas:
        wait_until(lambda: r.workers() == rollout.addresses(), 'all pods')
    with Load([r.address for r in replicas], clients=2, posts=3) as load:
        load.go_on()
        for step in range(3):
            if kind == 'Deployment':            # maxSurge 1, maxUnavailable 0
                rollout.add()
                for r in replicas:              # within minReadySeconds
                    wait_until(lambda: rollout.pods[-1].address in r.workers(), 'the new pod', min(ttl, 30) + 5)
                rollout.remove()
            else:                               # a pod ends before its successor begins
                rollout.remove()
                rollout.finish()
                rollout.add()
            load.go_on()
            for fault in faults if step == 1 else ():
                server.fault = fault
                asked = len(server.queries)
                wait_until(lambda: len(server.queries) > asked + 1, 'queries that fail')
                load.go_on()
                server.fault = None
        rollout.finish()
        for r in replicas:
            wait_until(lambda: r.workers() == rollout.addresses(), 'the new pods alone')
        load.go_on()
    assert any(tcp for _, _, tcp in server.queries)
    return load


FAULTS = dns.rcode.SERVFAIL, dns.rcode.NXDOMAIN


def test_a_deployment_is_rolled_under_load_with_negative_answers_without_a_failed_request(world):
    roll(world, ttl=5, cache=False, pause=20, faults=FAULTS)


def test_a_stateful_set_is_rolled_under_load_without_a_failed_request(world):
    roll(world, ttl=5, cache=False, pause=8, kind='StatefulSet')


@pytest.mark.soak
@pytest.mark.parametrize('ttl', [5, 30])
@pytest.mark.parametrize('kind', ['Deployment', 'StatefulSet'])
def test_a_rollout_with_answers_from_a_cache_and_the_declared_pause_has_no_failed_request(world, ttl, kind):
    pause = int(pod_spec('app.yaml')['containers'][0]['lifecycle']['preStop']['exec']['command'][1])
    roll(world, ttl=ttl, cache=True, pause=pause, kind=kind, faults=FAULTS)


def test_a_new_pod_gets_requests_after_the_interval_although_the_ttl_is_longer(world):
    server, port = cluster(world, ttl=LONGEST_TTL), free_port()
    pods = [Pod(world, port) for _ in range(2)]
    server.ready.append(pods[0].ip)
    replica = Replica(world, server.address, port)
    wait_until(lambda: replica.workers() == {pods[0].address}, 'the first pod')
    asked = len(server.queries)
    server.ready.append(pods[1].ip)
    wait_until(lambda: replica.workers() == {p.address for p in pods}, 'the second pod', LONGEST_TTL * 0.8)
    assert len(server.queries) > asked


def test_a_service_of_compose_is_scaled_under_load_without_a_failed_request(world):
    # Docker's name server: a TTL of 600 seconds.
    server, port = NameServer(ttl=600), free_port()
    world.closers.append(server.close)
    config = yaml.safe_load((EXAMPLES / 'compose' / 'resumelb.yaml').read_text())
    assert config.pop('workers') == ['app:8000'] and config.pop('access_log') == '-'
    for key in 'listen', 'admin', 'state_dir':
        config.pop(key)
    containers = []

    def scale(count):
        while len(containers) < count:
            containers.append(Pod(world, port))
        names = [('A', p.ip) for p in containers[:count]]
        server.records.update({'app.': names})
        for p in containers[count:]:
            p.terminate()
        del containers[count:]
        wait_until(lambda: set(lb.workers()) == {p.address for p in containers}, '%d containers' % count)

    lb = world.resumelb({**config, 'workers': ['app:%d' % port], 'resolvers': [server.address]}, wait=False)
    wait_until(lb.listening, 'the listeners')
    scale(2)
    with Load([lb.address], clients=4) as load:
        load.go_on()
        for count in 4, 3, 6, 1:
            scale(count)
            load.go_on()


def test_the_command_of_the_image_reads_the_file_that_the_manifests_provide():
    spec = pod_spec('resumelb.yaml')
    assert entry_point() == ['/usr/bin/resumelb', '-c', '/etc/resumelb/resumelb.yaml']
    mounts = {m['mountPath'] for m in spec['containers'][0]['volumeMounts']}
    assert {'/etc/resumelb', CONFIG['state_dir'], '/tmp'} <= mounts
    assert './resumelb.yaml:/etc/resumelb/resumelb.yaml:ro' in COMPOSE['services']['resumelb']['volumes']
