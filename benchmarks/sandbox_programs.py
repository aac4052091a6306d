"""Hostile programs for the sandbox: each tries one way out, and prints ESCAPED if it got out, else held.

Their output is not trusted: `benchmarks.sandbox` also checks a file, a process, sockets and a secret outside. Words between @ stand for
these: @CANARY@ a file, @FOLDER@ its folder, @PID@ a process, @PORT@ a port on this machine, @UNIX@ a socket's path, @SECRET@ the variable
that holds the secret.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.sandbox_forms import BOMB, HELD, TOO_MANY, TOO_MUCH, Hostile, attempt
from benchmarks.sandbox_kernel import kernel_calls, others_memory, signals
from benchmarks.sandbox_outside import links, networks, writes
from gradus.sandbox import End


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
    held_by_the_kernel = """
import socket, time
for i in range(14):
    if os.fork() == 0: break
held = []
while len(held) < 50:
    for one in socket.socketpair():
        one.setblocking(False)
        try: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        except OSError: pass
        try:
            while True: one.send(bytes(200_000))
        except OSError: held.append(one)
time.sleep(30)
"""
    yield Hostile(
        "memory", "full sockets in every process", held_by_the_kernel.replace("import", "import os,", 1), False, frozenset({End.MEMORY})
    )
    at_once = """
import time, mmap
go = mmap.mmap(-1, 4096)
for i in range(14):
    if os.fork() == 0:
        while not go[0]: time.sleep(0.0005)
        for j in range(20): open(f'/tmp/{i}_{j}', 'wb').write(bytes(31 << 20))
        time.sleep(30)
time.sleep(0.3)
go[0] = 1
time.sleep(30)
"""
    yield Hostile("memory", "files in /tmp, all at once", "import os" + at_once, False, frozenset({End.DISK, End.MEMORY}))
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
    yield from mappings()


def mappings() -> Iterator[Hostile]:
    """Programs that fill the kernel's lists of mappings, in fourteen processes."""
    forked = "import ctypes, mmap, os, time\nfor i in range(13):\n    if os.fork() == 0: break\n"
    ways = {
        "mappings split page by page": "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\n"
        "p = libc.mmap(None, ctypes.c_size_t(1 << 27), 0, 0x22, -1, 0)\n"
        "for i in range(0, 1 << 27, 8192):\n    if libc.mprotect(ctypes.c_void_p(p + i), 4096, 1): break",
        "shared mappings of a page": "held = []\ntry:\n    while True: held.append(mmap.mmap(-1, 4096, mmap.MAP_SHARED))\nexcept OSError: pass",
    }
    for name, way in ways.items():
        yield Hostile("memory", name, f"{forked}{way}\ntime.sleep(30)", False, frozenset({End.MEMORY, End.TIMEOUT}))


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
    shared = ("/usr/share/doc", "/usr/share/dict", "/usr/local/share", "/usr/local/lib", "/usr/lib/python3/dist-packages", "/usr/include", "/usr/src")
    for path in ("/proc", "/sys", "/home", "/var", "/run", "/boot", "/etc/ssh", "@FOLDER@", *shared):
        yield Hostile("proc and sys", f"list {path}", attempt(f"found = os.listdir({path!r})", "found"))
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/power/state", "/proc/self/oom_score_adj"):
        yield Hostile("proc and sys", f"write {path}", attempt(f"open({path!r}, 'w').write('x')"))
    for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf", "/root/.ssh/id_rsa", "/root/.bash_history"):
        yield Hostile("proc and sys", f"read {path}", attempt(f"open({path!r}).read()"))


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
        "packages": ("found = os.listdir(os.path.dirname(os.__file__) + '/site-packages')", "found"),
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
    """All hostile programs, kind by kind."""
    return [program for make in KINDS.values() for program in make()]


def benign(count: int) -> list[tuple[str, str, str]]:
    """`count` honest programs as (program, input, expected output)."""
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
