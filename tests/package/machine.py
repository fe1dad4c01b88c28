# SPDX-License-Identifier: Apache-2.0
"""A machine of one's own: namespaces over an overlay of this one, with a systemd that runs what is enabled, and nothing else.

Nothing of it reaches this machine: files go to a tmpfs, the network is a loopback alone, all processes end with the first.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 180 * float(os.environ.get('RLB_PATIENCE', '1'))

NAMESPACES = ['--mount', '--pid', '--fork', '--kill-child', '--cgroup', '--uts', '--ipc', '--net']

# What a container may have been rejected: $1 an empty directory.
ASK = r'''
set -eu
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount -t sysfs -o ro sysfs "$1/root/sys"
mount -t cgroup2 cgroup2 "$1/root/sys/fs/cgroup"
mknod "$1/null" c 1 3
'''

# Runs in the new namespaces: $1 the directory for the overlay, $2 the project.
BOOT = r'''
set -eu
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/upper2" "$1/work2" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mkdir -p "$1/root$2"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper2,workdir=$1/work2" "$1/root$2"
cd "$1/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# Disable the services of this machine: the test does not manage its network and clock. Remove its policies too, such as those
# of container images, which install packages without manual pages and make apt re-read everything each time.
rm -f etc/systemd/system/*.wants/* lib/systemd/system/*.target.wants/* usr/sbin/policy-rc.d etc/dpkg/dpkg.cfg.d/docker* \
    etc/apt/apt.conf.d/docker* etc/apt/apt.conf.d/*packagekit
# Skip what takes seconds: further package lists, which are out of reach, and the index of manual pages, which is not used.
rm -rf var/lib/apt/lists/* var/cache/apt/*.bin var/lib/man-db/auto-update
for unit in sysinit.target.wants/systemd-journald.service sockets.target.wants/systemd-journald.socket \
    sockets.target.wants/systemd-journald-dev-log.socket; do
    ln -s "../${unit#*/}" "lib/systemd/system/$unit"
done
ip link set lo up
pivot_root . mnt
cd /
umount -l /mnt
exec env -i container=rlb-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target --show-status=no
'''


class Failed(AssertionError):
    pass


def why_not():
    """Why no machine can be made here; None: one can."""
    if os.geteuid() != 0:
        return 'only root can make a machine'
    with tempfile.TemporaryDirectory(prefix='rlb-machine-') as directory:
        done = subprocess.run(['unshare', *NAMESPACES, 'sh', '-c', ASK, 'ask', directory], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
    return None if done.returncode == 0 else done.stdout.strip() or 'unshare: exit status %d' % done.returncode


class Machine:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='rlb-machine-')
        self.log = open(pathlib.Path(self.directory) / 'boot.log', 'w+')
        overlay = pathlib.Path(self.directory) / 'overlay'
        overlay.mkdir()
        self.outside = subprocess.Popen(['setpriv', '--pdeathsig', 'KILL', 'unshare', *NAMESPACES, 'sh', '-c', BOOT, 'boot', overlay, ROOT],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.first = self._first_process()
            self.wait('systemctl is-active multi-user.target')
        except BaseException:
            self.close()
            raise

    def _first_process(self):
        """The process number, outside, of the systemd inside."""
        children = '/proc/%d/task/%d/children' % (self.outside.pid, self.outside.pid)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.outside.poll() is not None:
                self.log.seek(0)
                raise Failed('no machine came up:\n' + self.log.read())
            pids = pathlib.Path(children).read_text().split()
            if pids and pathlib.Path('/proc/%s/comm' % pids[0]).read_text().strip() == 'systemd':
                return pids[0]
            time.sleep(0.05)
        raise Failed('no machine came up in time')

    def popen(self, command, **more):
        """COMMAND for sh, as root, in the project's directory."""
        argv = ['nsenter', '--target', self.first, '--all', '--wdns=/', 'env', '-i', 'HOME=/root', 'LC_ALL=C.UTF-8',
                'DEBIAN_FRONTEND=noninteractive', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                'sh', '-ec', 'cd "$1"; eval "$0"', command, ROOT]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True, **more)

    def run(self, command, status=0):
        """What it printed; its exit status has to be STATUS (None: any)."""
        p = self.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out, _ = p.communicate(timeout=900)
        if status is not None and p.returncode != status:
            raise Failed('exit status %d, not %d: %s\n%s' % (p.returncode, status, command, out))
        return out

    def good(self, command):
        p = self.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return p.wait(timeout=900) == 0

    def wait(self, command, what=None):
        """Until COMMAND succeeds."""
        end = time.monotonic() + PATIENCE
        while not self.good(command):
            if time.monotonic() > end:
                raise Failed('not in time: %s\n%s' % (what or command, self.journal()))
            time.sleep(0.1)

    def write(self, path, text):
        p = subprocess.run(['nsenter', '--target', self.first, '--all', '--wdns=/', 'tee', path], input=text, text=True,
                           stdout=subprocess.DEVNULL, check=True)
        assert p.returncode == 0

    def read(self, path):
        return self.run('cat %s' % path)

    def journal(self):
        p = self.popen('journalctl --no-pager -n 60 -o cat; systemctl --no-pager --failed', stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
        return p.communicate(timeout=PATIENCE)[0]

    def close(self):
        self.outside.kill()
        self.outside.wait()
        self.log.close()
        shutil.rmtree(self.directory)


if __name__ == '__main__':
    WHY = why_not()
    if WHY is not None:
        print(WHY)
        raise SystemExit(1)
