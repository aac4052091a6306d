"""Hostile programs for the sandbox: each tries one way out, and says ESCAPED where it got there, or held where it did not.

What they say is not trusted: beside it, a file, a process, sockets and a secret outside are looked at (`benchmarks.sandbox`). Words between @
stand for those: @CANARY@ a file, @FOLDER@ its folder, @PID@ a process, @PORT@ a port on this machine, @UNIX@ a socket's path, @SECRET@ the
variable that holds the secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradus.sandbox import End

BOMB = frozenset({End.TIMEOUT, End.MEMORY, End.OUTPUT, End.DISK, End.SIGNAL, End.ERROR})
HELD = frozenset({End.OK, *BOMB})
TOO_MANY = 64  # processes at one time that no limit of the benchmark allows
TOO_MUCH = 1 << 30  # bytes of memory that no limit of the benchmark allows


@dataclass(frozen=True)
class Hostile:
    """`speaks`: it lives to say held; else it ends in one of `ends`. `before`: a program that runs first, as another run."""

    kind: str
    name: str
    source: str
    speaks: bool = True
    ends: frozenset[End] = HELD
    before: str = ""


def attempt(lines: str, escaped: str = "True") -> str:
    """A program that tries `lines`; it got out where they raise nothing and `escaped` holds."""
    body = "\n".join("    " + line for line in lines.strip("\n").split("\n"))
    tail = f'    print("ESCAPED" if ({escaped}) else "held", flush=True)'
    return f'import os, sys, ctypes\ntry:\n{body}\n{tail}\nexcept BaseException as error:\n    print("held", type(error).__name__, error, flush=True)\n'


CALL = """
import platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(numbers, *arguments):
    number = numbers[0 if platform.machine() == "x86_64" else 1]
    if number is None:
        raise OSError("no such call on this machine")
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""


def kernel(numbers: str, arguments: str = "", escaped: str = "True") -> str:
    return attempt(f"{CALL.strip()}\ngot = call({numbers}{', ' + arguments if arguments else ''})", escaped)


def forks() -> Iterator[Hostile]:
    count = f"""
import time
children = 0
while children < {TOO_MANY}:
    %s
    children += 1
"""
    one = "if os.fork() == 0:\n        time.sleep(30); os._exit(0)"
    starts = {
        "children": one,
        "children of children": "if os.fork() == 0:\n        os.fork(); time.sleep(30); os._exit(0)",
        "new sessions": "if os.fork() == 0:\n        os.setsid(); time.sleep(30); os._exit(0)",
        "orphans": "pid = os.fork()\n    if pid == 0:\n        try: os.fork() or time.sleep(30)\n        except OSError: os._exit(1)\n        os._exit(0)\n"
        "    if os.waitpid(pid, 0)[1]: raise OSError('no more')",
        "deaf children": "if os.fork() == 0:\n        import signal; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(30)",
        "spawned": "os.posix_spawn('/bin/sleep', ['sleep', '30'], {})",
        "shells": "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 30'])",
        "threads": "import threading; threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
        "groups of their own": "if os.fork() == 0:\n        os.setpgid(0, 0); time.sleep(30); os._exit(0)",
        "as another user": "import contextlib\n    with contextlib.suppress(OSError): os.setuid(children + 1)\n    " + one,
        "with a higher limit": "import resource, contextlib\n    with contextlib.suppress(ValueError, OSError):\n"
        "        resource.setrlimit(resource.RLIMIT_NPROC, (999, 999))\n    " + one,
        "workers": "import multiprocessing; multiprocessing.get_context('fork').Process(target=time.sleep, args=(30,)).start()",
    }
    for name, start in starts.items():
        yield Hostile("fork", name, attempt(count % start, f"children >= {TOO_MANY}"))
    bombs = {
        "bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "bomb of a shell": "import os\nos.execv('/bin/sh', ['sh', '-c', 'f() { f | f & }; while :; do f; done'])",
        "bomb of threads": "import threading\ndef f():\n    while True:\n        try: threading.Thread(target=f).start()\n        except RuntimeError: pass\nf()",
        "bomb deaf to signals": "import os, signal\n[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 13, 14, 15, 24)]\nwhile True:\n"
        "    try: os.fork()\n    except OSError: pass",
        "bomb that dies and is born": "import os\nwhile True:\n    try:\n        if os.fork() == 0:\n            os.fork(); os._exit(0)\n    except OSError: pass",
        "bomb at its exit": "import atexit, os\ndef f():\n    while True:\n        try: os.fork()\n        except OSError: pass\natexit.register(f)",
        "bomb in new sessions": "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass",
        "children that outlive it": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\nprint('held')",
    }
    for name, source in bombs.items():
        yield Hostile("fork", name, source, speaks=name.startswith("children"), ends=HELD if name.startswith("children") else BOMB)


def memories() -> Iterator[Hostile]:
    step = 1 << 24
    grow = f"""
import time, mmap
held = []
size = 0
while size < {TOO_MUCH}:
    %s
    size += {step}
time.sleep(0.5)
"""
    ways = {
        "bytes": f"held.append(b'x' * {step})",
        "zeroed arrays, written to": f"held.append(bytearray({step})); held[-1][::4096] = b'x' * {step // 4096}",
        "mapped": f"m = mmap.mmap(-1, {step}); m[::4096] = b'x' * {step // 4096}; held.append(m)",
        "mapped and shared": f"m = mmap.mmap(-1, {step}, mmap.MAP_SHARED); m[::4096] = b'x' * {step // 4096}; held.append(m)",
        "in the C library": f"p = ctypes.create_string_buffer({step}); ctypes.memset(p, 1, {step}); held.append(p)",
        "numbers": f"held.append(1 << ({step} * 8))",
        "text": f"held.append('\\U0001F600' * ({step} // 4))",
        "lists": f"held.append([None] * ({step} // 8))",
        "with a higher limit": "import resource, contextlib\n    with contextlib.suppress(ValueError, OSError):\n"
        f"        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n    held.append(b'x' * {step})",
        "files in /tmp": f"open(f'/tmp/{{size}}', 'wb').write(b'x' * {step // 4}); held.append(size)",
        "files in /dev/shm": f"open(f'/dev/shm/{{size}}', 'wb').write(b'x' * {step // 4}); held.append(size)",
        "one file that grows": f"f = open('/tmp/a', 'ab'); f.write(b'x' * {step}); f.close()",
        "unlinked files": f"f = open('/tmp/a', 'wb'); f.write(b'x' * {step // 4}); os.unlink('/tmp/a'); held.append(f)",
        "files full of holes, mapped": f"f = open(f'/tmp/{{size}}', 'w+b'); f.truncate({step // 4}); m = mmap.mmap(f.fileno(), 0);"
        f" m[::4096] = b'x' * {step // 4 // 4096}; held.append(m)",
    }
    for name, way in ways.items():
        yield Hostile("memory", name, attempt(grow % way, f"size >= {TOO_MUCH}"), speaks=False)
    shared = f"""
import time, mmap
ready = mmap.mmap(-1, 4096)
for i in range(12):
    if os.fork() == 0:
        held = mmap.mmap(-1, {TOO_MUCH // 12})
        held[::4096] = b'x' * len(held[::4096])
        ready[i] = 1
        time.sleep(30)
time.sleep(1)
"""
    yield Hostile("memory", "a twelfth in each of twelve", attempt(shared, "sum(ready[:12]) == 12"), speaks=False)
    short = f"""
import time
for i in range(4000):
    if os.fork() == 0:
        held = bytearray({TOO_MUCH // 16}); held[::4096] = b'x' * len(held[::4096]); time.sleep(0.05); os._exit(0)
"""
    yield Hostile("memory", "processes too short-lived to be seen", attempt(short), speaks=False)
    more = {
        "a million files": "for i in range(10**7): open(f'/tmp/{i}', 'w').close()",
        "a million folders": "for i in range(10**7): os.mkdir(f'/tmp/{i}')",
        "folders in folders": "for i in range(10**7): os.mkdir('a'); os.chdir('a')",
        "links": "open('/tmp/a', 'w').close()\nfor i in range(10**7): os.symlink('x' * 200, f'/tmp/{i}')",
        "full pipes": "held = []\nfor i in range(10**6):\n    r, w = os.pipe(); os.set_blocking(w, False)\n    os.write(w, b'x' * 65536); held.append(r)",
        "full sockets": "import socket\nheld = []\nfor i in range(10**6):\n    a, b = socket.socketpair(); a.setblocking(False)\n"
        "    a.send(b'x' * 10**7); held.append(b)",
        "recursion": "sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)",
        "recursion in C": "sys.setrecursionlimit(10**9)\nx = []\nfor i in range(10**7): x = [x]\nrepr(x)",
        "a syntax tree too deep": "compile('(' * 10**6 + ')' * 10**6, 'a', 'eval')",
        "a power too high": "9 ** 9 ** 9",
    }
    for name, lines in more.items():
        yield Hostile("memory", name, attempt(lines), speaks=False)


def outputs() -> Iterator[Hostile]:
    sources = {
        "print": "while True: print('x' * 1000)",
        "standard error": "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
        "both": "import os\nwhile True: os.write(1, b'x' * 4096); os.write(2, b'y' * 4096)",
        "one huge line": "import os\nwhile True: os.write(1, b'x' * 65536)",
        "one byte at a time": "import os\nwhile True: os.write(1, b'x')",
        "bytes that are no text": "import os\nwhile True: os.write(1, bytes(range(256)) * 100)",
        "from children": "import os\nfor i in range(5):\n    if os.fork() == 0:\n        while True: os.write(1, b'x' * 999)\nos.wait()",
        "from an orphan": "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: os.write(1, b'x' * 999)\nimport time; time.sleep(30)",
        "from a copy of the descriptor": "import os\nfd = os.dup(1); os.close(1)\nwhile True: os.write(fd, b'x' * 999)",
        "in one go": "import os\nos.writev(1, [b'x' * 65536] * 500)",
        "at exit": "import atexit\natexit.register(lambda: [print('x' * 10**6) for i in range(10**6)])",
        "warnings": "import warnings\nwarnings.simplefilter('always')\nwhile True: warnings.warn('x' * 1000)",
    }
    for name, source in sources.items():
        yield Hostile("output", name, source, speaks=False, ends=frozenset({End.OUTPUT, End.TIMEOUT}))


def proc_and_sys() -> Iterator[Hostile]:
    files = [
        *(
            "/proc/1/environ",
            "/proc/self/environ",
            "/proc/1/mem",
            "/proc/self/mem",
            "/proc/kcore",
            "/proc/kmsg",
            "/proc/kallsyms",
            "/proc/cmdline",
        ),
        *("/proc/mounts", "/proc/net/tcp", "/proc/1/root/etc/shadow", "/proc/@PID@/environ", "/proc/@PID@/cmdline", "/proc/config.gz"),
        *("/sys/kernel/notes", "/sys/fs/cgroup/cgroup.procs", "/sys/class/net/lo/address", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"),
        *("/dev/tty", "/dev/console", "/dev/ptmx", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/loop0", "/run/docker.sock"),
    ]
    for path in files:
        yield Hostile("proc and sys", f"read {path}", attempt(f"content = open({path!r}, 'rb').read(10)", "True"))
    for path in ("/proc", "/sys", "/home", "/var", "/run", "/boot", "/etc/ssh", "@FOLDER@"):
        yield Hostile("proc and sys", f"list {path}", attempt(f"found = os.listdir({path!r})", "found"))
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/power/state", "/proc/self/oom_score_adj"):
        yield Hostile("proc and sys", f"write {path}", attempt(f"open({path!r}, 'w').write('x')"))
    for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf", "/root/.ssh/id_rsa", "/root/.bash_history"):
        yield Hostile("proc and sys", f"read {path}", attempt(f"open({path!r}).read()"))


def networks() -> Iterator[Hostile]:
    head = "import socket\n"
    tries = {
        "tcp to this machine": "s = socket.create_connection(('127.0.0.1', @PORT@), 2); s.send(b'x')",
        "tcp by name": "s = socket.create_connection(('localhost', @PORT@), 2); s.send(b'x')",
        "tcp over IPv6": "s = socket.socket(socket.AF_INET6); s.settimeout(2); s.connect(('::1', @PORT@))",
        "udp": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', @PORT@))",
        "to the world": "s = socket.create_connection(('1.1.1.1', 53), 2)",
        "a name": "socket.gethostbyname('example.org')",
        "raw": "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "packets": "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "netlink": "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "virtual machine": "s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); s.settimeout(2); s.connect((2, @PORT@))",
        "a socket in the file system": "s = socket.socket(socket.AF_UNIX); s.connect('@UNIX@')",
        "an abstract socket": "s = socket.socket(socket.AF_UNIX); s.connect('\\0gradus-canary-@PORT@')",
        "listening": "s = socket.socket(); s.bind(('', 0)); s.listen()",
        "a pair that is no local one": "s = socket.socketpair(socket.AF_INET)",
        "the web": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:@PORT@', timeout=2)",
        "a shell's device": "import subprocess; subprocess.run(['bash', '-c', 'echo x > /dev/tcp/127.0.0.1/@PORT@'], check=True, capture_output=True)",
        "to an address, through a pair": "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '@UNIX@')",
        "to an abstract address, through a pair": "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '\\0gradus-canary-@PORT@')",
    }
    for name, lines in tries.items():
        yield Hostile("network", name, attempt(head + lines))
    for name, numbers, arguments in (
        ("the call socket", "(41, 198)", "2, 1, 0"),
        ("the call connect on standard input", "(42, 203)", "0, ctypes.create_string_buffer(16), 16"),
        ("the call io_uring_setup", "(425, 425)", "8, ctypes.create_string_buffer(200)"),
    ):
        yield Hostile("network", name, kernel(numbers, arguments))


def writes() -> Iterator[Hostile]:
    here = "@CANARY@"
    tries = {
        "over the canary": f"open('{here}', 'w').write('gone')",
        "after the canary": f"open('{here}', 'a').write('gone')",
        "cut the canary": f"os.truncate('{here}', 0)",
        "remove the canary": f"os.unlink('{here}')",
        "rename the canary": f"os.rename('{here}', '{here}.old')",
        "something over the canary": f"open('a', 'w').close(); os.replace('a', '{here}')",
        "the canary's rights": f"os.chmod('{here}', 0o777)",
        "the canary's owner": f"os.chown('{here}', os.getuid(), os.getgid())",
        "the canary's times": f"os.utime('{here}', (0, 0))",
        "beside the canary": "open('@FOLDER@/new', 'w').write('x')",
        "up and over": "open('../' * 20 + '@FOLDER@'[1:] + '/new', 'w').write('x')",
        "/etc/passwd": "open('/etc/passwd', 'a').write('x:x:0:0::/:/bin/sh')",
        "/usr/bin": "open('/usr/bin/python3-new', 'w').write('x')",
        "the standard library": "import json; open(json.__file__, 'a').write('import os')",
        "sitecustomize": "import json; open(os.path.dirname(os.path.dirname(json.__file__)) + '/sitecustomize.py', 'w').write('x')",
        "the interpreter": "open(os.path.realpath(sys.executable), 'r+b').write(b'x')",
        "/bin/sh": "os.rename('/bin/sh', '/bin/sh.old')",
        "/": "open('/new', 'w').write('x')",
        "a folder in /": "os.mkdir('/new')",
        "/root": "open('/root/new', 'w').write('x')",
        "/dev": "open('/dev/new', 'w').write('x')",
        "/dev/null away": "os.unlink('/dev/null')",
        "a device": "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0)); open('/tmp/disk', 'rb').read(1)",
        "/etc": "open('/etc/new', 'w').write('x')",
        "the library cache": "open('/etc/ld.so.cache', 'r+b').write(b'x')",
        "the rights of /usr": "os.chmod('/usr', 0o777)",
        "a program for all, with root's rights": "open('/tmp/a', 'w').close(); os.chown('/tmp/a', 0, 0); os.chmod('/tmp/a', 0o4755)",
    }
    for name, lines in tries.items():
        yield Hostile("writing outside", name, attempt(lines))


def links() -> Iterator[Hostile]:
    tries = {
        "symlink to the canary, read": "os.symlink('@CANARY@', 'a'); open('a').read()",
        "symlink to the canary, written": "os.symlink('@CANARY@', 'a'); open('a', 'w').write('gone')",
        "symlink to its folder": "os.symlink('@FOLDER@', 'a'); open('a/new', 'w').write('x')",
        "symlink to /etc/shadow": "os.symlink('/etc/shadow', 'a'); open('a').read()",
        "symlink through /proc": "os.symlink('/proc/1/root', 'a'); os.listdir('a')",
        "symlink through a descriptor": "os.symlink('/proc/self/fd/0', 'a'); open('a', 'wb').write(b'x')",
        "symlink to the interpreter": "os.symlink(os.path.realpath(sys.executable), 'a'); open('a', 'r+b').write(b'x')",
        "hard link to the canary": "os.link('@CANARY@', 'a'); open('a', 'w').write('gone')",
        "hard link to /usr/bin": "os.link('/usr/bin/env', '/tmp/a')",
        "hard link within /usr": "os.link('/usr/bin/env', '/usr/bin/env2')",
        "hard link to a descriptor": "fd = os.open('/usr/bin/env', os.O_RDONLY); os.link(f'/proc/self/fd/{fd}', '/tmp/a')",
        "rename out of /tmp": "open('a', 'w').close(); os.rename('a', '/usr/a')",
        "chain of links": "os.symlink('b', 'a'); os.symlink('@FOLDER@', 'b'); os.unlink('a/canary')",
        "a link for /tmp itself": "os.rename('/tmp', '/tmp2')",
        "the folder's descriptor and dots": "d = os.open('/', os.O_RDONLY); os.chdir(d); [os.chdir('..') for i in range(50)]; open('.' + '@CANARY@').read()",
        "a root of its own": "os.mkdir('r'); d = os.open('.', os.O_RDONLY); os.chroot('r'); os.fchdir(d); [os.chdir('..') for i in range(50)]; os.chroot('.')",
    }
    for name, lines in tries.items():
        yield Hostile("links", name, attempt(lines))


def others_memory() -> Iterator[Hostile]:
    calls = {
        "ptrace attach 1": ("(101, 117)", "16, 1, 0, 0"),
        "ptrace seize the parent": ("(101, 117)", "0x4206, os.getppid(), 0, 0"),
        "ptrace attach the canary": ("(101, 117)", "16, @PID@, 0, 0"),
        "ptrace traceme": ("(101, 117)", "0, 0, 0, 0"),
        "process_vm_readv of 1": ("(310, 270)", "1, ctypes.create_string_buffer(64), 1, ctypes.create_string_buffer(64), 1, 0"),
        "process_vm_writev of the parent": (
            "(311, 271)",
            "os.getppid(), ctypes.create_string_buffer(64), 1, ctypes.create_string_buffer(64), 1, 0",
        ),
        "pidfd_getfd of 1": ("(438, 438)", "os.pidfd_open(1), 0, 0"),
        "kcmp": ("(312, 272)", "1, os.getpid(), 0, 0, 0"),
        "process_madvise": ("(440, 440)", "os.pidfd_open(1), ctypes.create_string_buffer(64), 1, 4, 0"),
        "move_pages of 1": ("(279, 239)", "1, 1, ctypes.create_string_buffer(64), 0, ctypes.create_string_buffer(64), 0"),
        "prlimit of 1": ("(302, 261)", "1, 7, ctypes.create_string_buffer(16), 0"),
        "a debugger's rights": ("(157, 167)", "0x59616D61, -1, 0, 0, 0"),
    }
    for name, (numbers, arguments) in calls.items():
        yield Hostile("ptrace", name, kernel(numbers, arguments))


def kernel_calls() -> Iterator[Hostile]:
    text = "ctypes.create_string_buffer(256)"
    calls = {
        "mount": ("(165, 40)", "b'none', b'/tmp', b'tmpfs', 0, 0"),
        "mount again, writable": ("(165, 40)", "b'none', b'/', 0, 32, 0"),
        "umount": ("(166, 39)", "b'/tmp', 2"),
        "pivot_root": ("(155, 41)", "b'/tmp', b'/tmp'"),
        "chroot": ("(161, 51)", "b'/tmp'"),
        "a user namespace": ("(272, 97)", "0x10000000"),
        "a mount namespace": ("(272, 97)", "0x00020000"),
        "a network namespace": ("(272, 97)", "0x40000000"),
        "all namespaces at birth": ("(56, 220)", "0x7E020011, 0, 0, 0, 0"),
        "clone3 with a user namespace": ("(435, 435)", "(ctypes.c_ulonglong * 11)(0x10000000, 0, 0, 0, 17), 88"),
        "setns": ("(308, 268)", "0, 0"),
        "open_tree": ("(428, 428)", "-100, b'/', 1"),
        "fsopen": ("(430, 430)", "b'tmpfs', 0"),
        "move_mount": ("(429, 429)", "-100, b'/tmp', -100, b'/usr', 0"),
        "mount_setattr": ("(442, 442)", f"-100, b'/', 0, {text}, 32"),
        "bpf": ("(321, 280)", f"5, {text}, 120"),
        "perf_event_open": ("(298, 241)", f"{text}, 0, -1, -1, 0"),
        "userfaultfd": ("(323, 282)", "0"),
        "keyctl": ("(250, 219)", "0, -3, 0, 0, 0"),
        "add_key": ("(248, 217)", "b'user', b'a', b'b', 1, -3"),
        "init_module": ("(175, 105)", f"{text}, 256, b''"),
        "kexec_load": ("(246, 104)", "0, 0, 0, 0"),
        "reboot": ("(169, 142)", "-18751827, 672274793, 0, 0"),
        "sethostname": ("(170, 161)", "b'x', 1"),
        "settimeofday": ("(164, 170)", f"{text}, 0"),
        "open_by_handle_at": ("(304, 265)", f"0, {text}, 0"),
        "swapon": ("(167, 224)", "b'/tmp/a', 0"),
        "acct": ("(163, 89)", "b'/tmp/a'"),
        "quotactl": ("(179, 60)", "0, 0, 0, 0"),
        "syslog": ("(103, 116)", f"3, {text}, 256"),
        "personality without randomness": ("(135, 92)", "0x0040000"),
        "iopl": ("(172, None)", "3"),
        "memfd_create": ("(319, 279)", "b'a', 0"),
        "shmget": ("(29, 194)", "0, 1 << 28, 0o1600"),
        "msgget": ("(68, 186)", "0, 0o1600"),
        "mq_open": ("(240, 180)", "b'a', 66, 0o600, 0"),
        "setuid root": ("(105, 146)", "0"),
        "setgid root": ("(106, 144)", "0"),
        "setgroups": ("(116, 159)", f"1, {text}"),
        "capset": ("(126, 91)", f"{text}, {text}"),
        "seccomp, a filter of its own": ("(317, 277)", f"1, 0, {text}"),
        "fanotify": ("(300, 262)", "0, 0"),
        "lookup of another numbering (x32)": ("(0x40000000 + 41, None)", "2, 1, 0"),
        "a number that nobody knows": ("(4000, 4000)", ""),
        "set a program's clock": ("(227, 112)", f"0, {text}"),
        "vhangup": ("(153, 58)", ""),
    }
    for name, (numbers, arguments) in calls.items():
        yield Hostile("kernel calls", name, kernel(numbers, arguments))
    old = "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
    old += "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
    old += "import platform\nif platform.machine() != 'x86_64': raise OSError('not on this machine')\ngot = f()"
    yield Hostile("kernel calls", "32-bit calls", attempt(old), speaks=False)


def signals() -> Iterator[Hostile]:
    tries = {
        "kill 1": "os.kill(1, 9); import time; time.sleep(0.2); os.kill(1, 0); print('held: it lives'); raise SystemExit",
        "kill the parent": "os.kill(os.getppid(), 9); import time; time.sleep(0.2); os.kill(os.getppid(), 0); print('held: it lives'); raise SystemExit",
        "kill the canary": "os.kill(@PID@, 9)",
        "kill the canary's group": "os.killpg(@PID@, 9)",
        "stop the canary": "os.kill(@PID@, 19)",
        "queue a signal for the canary": "import signal; signal.pidfd_send_signal(os.pidfd_open(@PID@), 9)",
        "find processes": "found = [p for p in range(3, 70000) if p != os.getpid() and not os.kill(p, 0)]",
    }
    for name, lines in tries.items():
        yield Hostile("signals", name, attempt(lines))
    bombs = {
        "stop itself": "import os; os.kill(os.getpid(), 19)",
        "stop everybody": "import os\nos.kill(-1, 19)\nos.kill(os.getpid(), 19)",
        "deaf": "import signal, time\n[signal.signal(s, signal.SIG_IGN) for s in range(1, 32) if s not in (9, 19)]\nwhile True: pass",
        "blocked": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\nwhile True: pass",
        "caught": "import signal\n[signal.signal(s, lambda *a: None) for s in range(1, 32) if s not in (9, 19)]\nwhile True: pass",
        "everybody, over and over": "import os\nwhile True:\n    if os.fork() == 0: os.kill(-1, 9)",
        "a crash": "import ctypes; ctypes.string_at(0)",
        "an abort": "import os; os.abort()",
    }
    for name, source in bombs.items():
        yield Hostile("signals", name, source, speaks=False, ends=BOMB)


def variables() -> Iterator[Hostile]:
    tries = {
        "the environment": ("pass", "'@SECRET@' in os.environ"),
        "in bytes": ("pass", "any(b'SECRET' in k for k in os.environb)"),
        "in the C library": ("libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p; got = libc.getenv(b'@SECRET@')", "got"),
        "of a shell": (
            "import subprocess; got = subprocess.run(['env'], capture_output=True, text=True).stdout; print(got)",
            "'SECRET' in got",
        ),
        "in the words of the command": ("pass", "any('SECRET' in w for w in sys.orig_argv)"),
        "open descriptors": (
            "import resource; found = []\nfor fd in range(3, 4096):\n    try: os.fstat(fd); found.append(fd)\n    except OSError: pass",
            "found",
        ),
        "reading standard output": ("os.set_blocking(1, False); got = os.read(1, 10)", "got"),
        "the folder above": (
            "found = set(os.listdir('..')) & {'proc', 'sys', 'var', 'run', 'boot', 'srv', 'mnt', 'media', 'lost+found', 'work'}",
            "found",
        ),
        "where it was started": ("os.chdir('@FOLDER@')", "True"),
        "objects of the library": ("import gc; found = [o for o in gc.get_objects() if isinstance(o, dict) and '@SECRET@' in o]", "found"),
        "its rights": ("got = os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()", "0 in got"),
        "its limits raised": ("import resource; resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))", "True"),
    }
    for name, (lines, escaped) in tries.items():
        yield Hostile("environment", name, attempt(lines, escaped))


def other_runs() -> Iterator[Hostile]:
    pairs = {
        "a file": ("open('/tmp/left', 'w').write('x')", "open('/tmp/left').read()"),
        "a file in shared memory": ("open('/dev/shm/left', 'w').write('x')", "open('/dev/shm/left').read()"),
        "a file in its home": ("open(os.path.expanduser('~/.pythonrc'), 'w').write('x')", "open(os.path.expanduser('~/.pythonrc')).read()"),
        "a spoilt module": ("import json; json.left = 1", "import json; json.left"),
        "a spoilt built-in": ("import builtins; builtins.left = 1", "left"),
        "a process": (
            "import time\nif os.fork() == 0: os.setsid(); time.sleep(60)",
            "pids = [p for p in range(3, 999) if p != os.getpid() and not os.kill(p, 0)]; pids[0]",
        ),
        "an abstract socket": (
            "import socket\nif os.fork() == 0:\n    s = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen()",
            "import socket; socket.socket(socket.AF_UNIX).connect('\\0left')",
        ),
        "shared memory": (
            "from multiprocessing.shared_memory import SharedMemory; SharedMemory('left', True, 10)",
            "from multiprocessing.shared_memory import SharedMemory; SharedMemory('left')",
        ),
        "a semaphore": (
            "import _multiprocessing; _multiprocessing.SemLock(1, 1, 1, '/left', False)",
            "import _multiprocessing; _multiprocessing.SemLock._rebuild(0, 1, 1, '/left')",
        ),
        "compiled code": (
            "os.mkdir('/tmp/__pycache__'); open('/tmp/__pycache__/program.pyc', 'w').close()",
            "os.stat('/tmp/__pycache__/program.pyc')",
        ),
        "a start-up file": (
            "os.makedirs('/tmp/.local/lib', exist_ok=True); open('/tmp/sitecustomize.py', 'w').write('left = 1')",
            "import sitecustomize; sitecustomize.left",
        ),
        "its descriptors": ("os.dup2(1, 40); os.dup2(0, 41)", "os.fstat(40)"),
    }
    for name, (before, after) in pairs.items():
        yield Hostile("other runs", name, attempt(after), before=f"import os\n{before}")


def races() -> Iterator[Hostile]:
    outlive = "import os, time\n%s\n    time.sleep(600)\nprint('held')"
    for name, birth in {
        "a daemon": "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    [os.close(fd) for fd in (0, 1, 2)]",
        "a daemon that keeps the output": "if os.fork() == 0:\n    os.setsid()",
        "a thread": "import threading\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nif False:",
        "a child that waits for its death": "r, w = os.pipe()\nif os.fork() == 0:\n    os.close(w); os.read(r, 1)",
    }.items():
        yield Hostile("races", f"outlive by {name}", outlive % birth)
    loops = {
        "born while it is killed": "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n        else: os._exit(0)\n    except OSError: pass",
        "output closed": "import os, time\nos.close(0); os.close(1); os.close(2)\ntime.sleep(600)",
        "a thread that never ends": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
        "an exit that never comes": "import atexit, time\natexit.register(time.sleep, 600)",
        "a destructor that never ends": "import time\nclass C:\n    def __del__(self): time.sleep(600)\nc = C()",
        "sleep": "import time\nwhile True: time.sleep(600)",
        "another program in its place": "import os\nos.execv('/bin/sleep', ['sleep', '600'])",
        "processor time of many": "import os\nfor i in range(3): os.fork()\nwhile True: pass",
        "no more than it may, for ever": "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(0.001); os._exit(0)\n    os.wait()",
    }
    for name, source in loops.items():
        yield Hostile("races", name, source, speaks=False, ends=HELD if name.startswith("born") else BOMB)
    swap = """
import threading, time
open('mine', 'w').close()
over = time.monotonic() + 0.5
def swap():
    while time.monotonic() < over:
        for target in ('mine', '@CANARY@'):
            os.symlink(target, 'new'); os.replace('new', 'link')
threading.Thread(target=swap, daemon=True).start()
got = 0
while time.monotonic() < over:
    try: got += 'canary' in open('link').read()
    except OSError: pass
"""
    yield Hostile("races", "a link swapped while it is opened", attempt(swap, "got"))
    forged = "for fd in range(3, 64):\n    try: os.write(fd, b'{\"exit-code\": 0}\\n'); wrote = fd\n    except OSError: pass"
    yield Hostile("races", "a report forged", attempt(f"wrote = 0\n{forged}", "wrote"))


KINDS = {
    "fork": forks,
    "memory": memories,
    "output": outputs,
    "proc and sys": proc_and_sys,
    "network": networks,
    "writing outside": writes,
    "links": links,
    "ptrace": others_memory,
    "kernel calls": kernel_calls,
    "signals": signals,
    "environment": variables,
    "other runs": other_runs,
    "races": races,
}


def hostile() -> list[Hostile]:
    """All of them, kind by kind."""
    return [program for make in KINDS.values() for program in make()]


def benign(count: int) -> list[tuple[str, str, str]]:
    """(program, what it reads, what it must print)."""
    made = []
    for i in range(count):
        made.append(
            (
                (f"print(sum(range({i})))", "", f"{i * (i - 1) // 2}\n"),
                (f"n = int(input())\nprint(n * {i})", "7\n", f"{7 * i}\n"),
                (f"import json\nprint(json.dumps({{'a': [{i}]}}))", "", f'{{"a": [{i}]}}\n'),
                (f"x = sorted(str({i}))\nopen('a', 'w').write(''.join(x))\nprint(open('a').read())", "", f"{''.join(sorted(str(i)))}\n"),
                (f"from collections import Counter\nprint(Counter('abca' * {i + 1}).most_common(1))", "", f"[('a', {2 * i + 2})]\n"),
                (f"import re, math\nprint(re.sub('o', '0', 'foo'), math.gcd({i}, 12))", "", f"f00 {_gcd(i, 12)}\n"),
                (
                    f"class P:\n    def __init__(s, n): s.n = n\n    def __repr__(s): return f'P({{s.n}})'\nprint([P({i})])",
                    "",
                    f"[P({i})]\n",
                ),
                (f"def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f({i % 15}))", "", f"{_fibonacci(i % 15)}\n"),
                (
                    f"import threading\nx = []\nt = threading.Thread(target=lambda: x.append({i})); t.start(); t.join()\nprint(x)",
                    "",
                    f"[{i}]\n",
                ),
                (f"import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], {i})", "abc\ndef\n", f"cba {i}\nfed {i}\n"),
            )[i % 10]
        )
    return made


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _fibonacci(n: int) -> int:
    one, two = 0, 1
    for _ in range(n):
        one, two = two, one + two
    return one
