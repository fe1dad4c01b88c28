# SPDX-License-Identifier: Apache-2.0
"""An agent with TLS listeners, which serve only authorized peers."""
import json
import signal
import ssl
import subprocess

import pytest

from agent_support import TinyAgent
from agent_upgrade_support import upgrade
from load_support import Load
from support.base import BIN, LIMIT, free_port, wait_until
from support.certificates import Authority, dial
from support.http import Client, CutShort, connect
from worker_tls_support import NAME, Pki, reasons


@pytest.fixture
def pki(tmp_path):
    p = Pki(tmp_path)
    p.balancer = p.authority.sign('balancer', usage='clientAuth')
    return p


def rewrite(agent):
    agent.path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in agent.config.items()))
    agent.process.kill(signal.SIGHUP)


def mutual(pki, verify='required'):
    return {**pki.worker.entry, 'client_ca': pki.ca, 'client_verify': verify}


def application(agent, worker_tls, **more):
    return {'applications': {'app': {'tree': 'directory:%s/app' % agent.tree, 'worker_tls': worker_tls, **more}}}


def balancer(world, agent, worker_tls, wait=True, **more):
    lb = world.resumelb(application(agent, worker_tls, **more), wait=wait)
    if not wait:
        wait_until(lb.process.alive, 'the program')
        wait_until(lb.listening, 'the load balancer to listen')
    return lb


def client(pki, certificate=None):
    context = ssl.create_default_context(cafile=pki.ca)
    if certificate is not None:
        context.load_cert_chain(certificate.cert, certificate.key)
    return context


def ask(agent, context, address=None):
    with Client(address or agent.address, sock=dial(address or agent.address, NAME, context)) as c:
        return c.request()


def is_rejected(agent, context, address=None):
    """Returns whether AGENT rejects the client. With TLS 1.3 a client detects this only when it reads."""
    try:
        ask(agent, context, address)
    except (OSError, CutShort):
        return True
    return False


def test_requests_streams_and_tunnels_go_to_an_agent_with_mutual_tls(world, pki):
    agent = TinyAgent(world, slots=2, top={'tls': mutual(pki)}, history=5, min_processes=2).wait_ready()
    lb = balancer(world, agent, {'ca': pki.ca, **pki.balancer.entry}, classifier='host')
    wait_until(lambda: [w['state'] for w in lb.workers('app').values()] == ['ready'] * 2, 'both slots')
    for i in range(30):
        assert lb.get(host='site%d.example' % (i % 3)).status == 200
    with Client(lb.address) as c:
        assert c.request('POST', '/', body=b'x' * 300000).status == 200
    wait_until(lambda: sum(w['skills'] for w in lb.workers('app').values()) >= 3, 'resumes by the streams')
    assert lb.app('app')['stats']['feeds_open'] == 2
    assert lb.app('app')['stats']['worker_tls_failures'] == 0
    assert lb.app('app')['stats']['connections_reused'] > 20
    with Client(agent.admin) as c:
        metrics = c.request(target='/metrics', host=agent.admin).text
    assert 'resumelb_agent_tls_handshakes_total' in metrics


def test_without_a_good_certificate_none_gets_further_than_the_handshake(world, pki, tmp_path):
    agent = TinyAgent(world, top={'tls': mutual(pki)}).wait_ready()
    stranger = Authority(tmp_path, 'strangers').sign('stranger', usage='clientAuth')
    server = pki.authority.sign('no-client', usage='serverAuth')
    assert ask(agent, client(pki, pki.balancer)).status == 200
    for context in (client(pki), client(pki, stranger), client(pki, server)):
        assert is_rejected(agent, context)
    with pytest.raises((OSError, CutShort)):
        agent.get()                                    # in the clear
    assert [line for line in agent.served() if line.startswith('GET')] == ['GET /']
    lb = balancer(world, agent, {'ca': pki.ca}, wait=False, worker_wait_timeout='100ms')
    wait_until(lambda: reasons(lb), 'the reason')
    assert 'alert' in reasons(lb)[0] or 'requesting a client certificate' in reasons(lb)[0], reasons(lb)
    assert lb.get().status in (502, 503)
    lb.reload(application(agent, {'ca': pki.ca, **pki.balancer.entry}, worker_wait_timeout='100ms'))
    wait_until(lambda: lb.get().status == 200, 'our certificate')


def test_a_new_agent_takes_over_with_tls_on_and_no_request_is_lost(world, pki, tmp_path):
    agent = TinyAgent(world, slots=2, top={'tls': mutual(pki)}, min_processes=2, max_queue=100).wait_ready()
    lb = balancer(world, agent, {'ca': pki.ca, **pki.balancer.entry})
    wait_until(lambda: [w['state'] for w in lb.workers('app').values()] == ['ready'] * 2, 'both slots')
    pids = [agent.pid(n) for n in range(2)]
    with Load([lb.address], clients=2, posts=2) as load:
        for _ in range(3):
            load.go_on(20)
            upgrade(agent)
    assert [agent.pid(n) for n in range(2)] == pids
    # The new process requests client certificates, like the old one.
    assert ask(agent, client(pki, pki.balancer)).status == 200
    assert is_rejected(agent, client(pki))
    stranger = Authority(tmp_path, 'another').sign('balancer', usage='clientAuth')
    assert is_rejected(agent, client(pki, stranger))


def test_a_certificate_may_be_optional_but_not_bad(world, pki, tmp_path):
    agent = TinyAgent(world, top={'tls': mutual(pki, 'optional')}).wait_ready()
    stranger = Authority(tmp_path, 'strangers').sign('stranger', usage='clientAuth')
    assert ask(agent, client(pki)).status == 200
    assert ask(agent, client(pki, pki.balancer)).status == 200
    assert is_rejected(agent, client(pki, stranger))


def test_an_application_s_own_address_speaks_tls_as_well(world, pki):
    own = '127.0.0.1:%d' % free_port()
    agent = TinyAgent(world, top={'tls': mutual(pki)}, listen=[own]).wait_ready()
    r = ask(agent, client(pki, pki.balancer), own)
    assert r.status == 200 and ['x-forwarded-proto', 'https'] in json.loads(r.body)['headers']
    assert is_rejected(agent, client(pki), own)


def test_networks_are_checked_before_the_handshake(world, pki):
    agent = TinyAgent(world, top={'tls': mutual(pki), 'allow': ['10.0.0.0/8']}).wait_ready()
    with pytest.raises((OSError, ssl.SSLError)):
        dial(agent.address, NAME, client(pki, pki.balancer))
    wait_until(lambda: agent.figures()['not_allowed'] == 1, 'the count')


def test_an_agent_in_the_clear_is_no_worker_where_tls_is_asked_for(world, pki):
    agent = TinyAgent(world).wait_ready()
    before = len(agent.served())
    lb = balancer(world, agent, {'ca': pki.ca}, wait=False, worker_wait_timeout='100ms')
    wait_until(lambda: reasons(lb), 'the reason')
    # A registration cannot turn off TLS.
    provider = agent.tree / 'app' / 'workers' / 'providers' / agent.address
    assert provider.exists()
    agent.write_node({'tls': 'off', 'worker_tls': {'verify': False}})
    assert lb.get().status in (502, 503)
    assert len(agent.served()) == before
    assert list(lb.workers('app').values())[0]['state'] == 'absent'


def test_certificates_and_authorities_change_at_sighup_and_when_their_files_do(world, pki, tmp_path):
    agent = TinyAgent(world, top={'tls': mutual(pki)}).wait_ready()
    other = Authority(tmp_path, 'other')
    theirs = other.sign('theirs', usage='clientAuth')
    assert is_rejected(agent, client(pki, theirs))
    bundle = tmp_path / 'bundle.pem'
    bundle.write_text(other.cert.read_text())
    agent.config['tls']['client_ca'] = str(bundle)
    rewrite(agent)
    wait_until(lambda: not is_rejected(agent, client(pki, theirs)), 'the other authority')
    assert is_rejected(agent, client(pki, pki.balancer))
    bundle.write_text(pki.authority.cert.read_text())
    wait_until(lambda: not is_rejected(agent, client(pki, pki.balancer)), 'the first authority')
    assert is_rejected(agent, client(pki, theirs))
    bundle.write_text('nothing')
    wait_until(lambda: 'certificates-reload-failed' in agent.process.output(), 'the file to be rejected')
    assert ask(agent, client(pki, pki.balancer)).status == 200


def test_a_session_is_not_resumed_across_a_change_of_authorities(world, pki, tmp_path):
    bundle = tmp_path / 'bundle.pem'
    bundle.write_text(pki.authority.cert.read_text())
    tls = {**mutual(pki), 'client_ca': str(bundle)}
    agent = TinyAgent(world, top={'tls': tls}).wait_ready()
    context = client(pki, pki.balancer)
    with dial(agent.address, NAME, context) as s:
        s.sendall(b'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
        assert s.recv(10)
        session = s.session

    def resumed():
        with context.wrap_socket(connect(agent.address), server_hostname=NAME, session=session) as s:
            s.sendall(b'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
            return s.recv(10) != b'' and s.session_reused
    assert resumed()
    bundle.write_text(Authority(tmp_path, 'other').cert.read_text())
    wait_until(lambda: is_rejected(agent, client(pki, pki.balancer)), 'the other authority')
    try:
        assert not resumed()
    except OSError:
        pass                       # the alert: no certificate of an authority that counts now


def test_tls_is_checked_with_the_configuration(world, pki):
    agent = TinyAgent(world).wait_ready()

    def complaint(tls):
        path = world.directory / 'bad.yaml'
        path.write_text(''.join('%s: %s\n' % (k, json.dumps(v)) for k, v in {**agent.config, 'tls': tls}.items()))
        r = subprocess.run([BIN / 'resumelb-agent', '-t', '-c', path], capture_output=True, text=True, timeout=LIMIT)
        assert r.returncode == 1, r.stderr
        return r.stderr
    assert 'certificate is required' in complaint({'key': str(pki.worker.key)})
    assert 'key is required' in complaint({'certificate': str(pki.worker.cert)})
    assert 'go together' in complaint({**pki.worker.entry, 'client_verify': 'required'})
    assert 'cannot use this certificate' in complaint({'certificate': '/nowhere', 'key': str(pki.worker.key)})
    assert 'cannot use these authorities' in complaint({**mutual(pki), 'client_ca': '/nowhere'})
    agent.config['tls'] = pki.worker.entry
    rewrite(agent)
    wait_until(lambda: 'config-restart-required setting=tls' in agent.process.output(), 'the word in the log')
    assert agent.get().status == 200
