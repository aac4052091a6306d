"""Hostile programs that use kernel calls: forbidden calls, the memory of other processes, and signals to them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.sandbox_forms import BOMB, Hostile, attempt, kernel


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
        "another numbering (x32)": ("(0x40000000 + 41, None)", "2, 1, 0"),
        "another numbering's own ptrace (x32)": ("(0x40000000 + 521, None)", "16, 1, 0, 0"),
        "a number whose low half is socket": ("((1 << 32) + 41, (1 << 32) + 198)", "2, 1, 0"),
        "the number below all": ("(-1, -1)", ""),
        "clone with a namespace under a high half": ("(56, 220)", "(1 << 32) | 0x10000011, 0, 0, 0, 0"),
        "prctl with an option under a high half": ("(157, 167)", "(1 << 32) | 36, 1, 0, 0, 0"),
        "prctl, to take in orphans": ("(157, 167)", "36, 1, 0, 0, 0"),
        "prctl, rights that are passed on": ("(157, 167)", "47, 2, 7, 0, 0"),
        "prctl, its own memory's map": ("(157, 167)", "35, 1, 0, 0, 0"),
        "a time namespace": ("(272, 97)", "0x80"),
        "a key typed into the terminal": ("(16, 29)", "0, 0x5412, b'x'"),
        "a key typed, under a high half": ("(16, 29)", "0, (1 << 32) | 0x5412, b'x'"),
        "a paste into the console": ("(16, 29)", "0, 0x541C, b'x'"),
        "a controlling terminal": ("(16, 29)", "0, 0x540E, 0"),
        "a file that cannot be changed": ("(16, 29)", "0, 0x40086602, 0"),
        "a parent namespace": ("(16, 29)", "0, 0xB702, 0"),
        "io_uring_enter": ("(426, 426)", "0, 1, 0, 0, 0"),
        "landlock": ("(444, 444)", f"{text}, 8, 0"),
        "memfd_secret": ("(447, 447)", "0"),
        "semget": ("(64, 190)", "1, 1, 0o1600"),
        "shmat": ("(30, 196)", "0, 0, 0"),
        "mlockall": ("(151, 230)", "1"),
        "setsockopt, a send buffer": ("(54, 208)", f"0, 1, 7, {text}, 4"),
        "sendmsg": ("(46, 211)", f"0, {text}, 0"),
        "setxattr": ("(188, 5)", "b'/tmp', b'user.a', b'x', 1, 0"),
        "inotify": ("(294, 26)", "0"),
        "vmsplice": ("(278, 75)", f"1, {text}, 1, 0"),
        "a higher priority": ("(141, 140)", "0, 0, -20"),
        "real time": ("(144, 119)", f"0, 1, {text}"),
        "modify_ldt": ("(154, None)", f"1, {text}, 16"),
        "statmount": ("(457, 457)", f"{text}, {text}, 256, 0"),
        "an unknown number": ("(4000, 4000)", ""),
        "set a program's clock": ("(227, 112)", f"0, {text}"),
        "vhangup": ("(153, 58)", ""),
        "a lease on a file of all": ("(72, 25)", "os.open(os.__file__, 0), 1024, 0"),
        "the notice that others read": ("(72, 25)", "os.open(os.path.dirname(os.__file__), 0), 1026, 1"),
        "the owner of a file's signals": ("(72, 25)", "os.open(os.__file__, 0), 8, 1"),
        "the pages that others have read": ("(27, 232)", f"0, 0, {text}"),
        "the pages that others have read, newer": ("(451, 451)", f"0, {text}, {text}, 0"),
        "a read that does not wait": ("(327, 286)", f"os.open(os.__file__, 0), {text}, 0, 0, 0, 8"),
        "others' pages driven out": ("(28, 233)", "0, 0, 21"),
    }
    for name, (numbers, arguments) in calls.items():
        yield Hostile("kernel calls", name, kernel(numbers, arguments))
    for name, code in MACHINE_CODE.items():
        yield Hostile("kernel calls", name, attempt(f"{MAPPED}\ngot = run({code!r})", "got >= 0"), speaks=False)


MACHINE_CODE = {
    "32-bit calls": b"\xb8\x14\x00\x00\x00\xcd\x80\xc3",  # mov eax, 20 (getpid there); int 0x80; ret
    "32-bit calls, socketcall": b"\xb8\x66\x00\x00\x00\xbb\x01\x00\x00\x00\xcd\x80\xc3",
    "32-bit calls, the newer way": b"\xb8\x14\x00\x00\x00\x0f\x34\xc3",  # sysenter
}
MAPPED = """
import mmap, platform
def run(code):
    if platform.machine() != 'x86_64': raise OSError('not on this machine')
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
""".strip()


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
