"""Hostile programs that try to reach the network and files outside, directly and through links."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.sandbox_forms import Hostile, attempt, kernel


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
        "a pair that is not local": "s = socket.socketpair(socket.AF_INET)",
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
