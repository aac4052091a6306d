"""The filter of kernel calls for a sandboxed program. The kernel runs this filter on every call (seccomp, classic BPF).

The lists below name the calls. A call in ALLOWED passes, and a call in REFUSED fails with EPERM. A call in PRETENDED succeeds without an effect, for example
a lock on a file. All programs read the same files of the machine, so other programs would notice a real lock, and the machine's own programs would wait for
it. A call in GUARDED passes only for some arguments. Any other call fails with ENOSYS, as on a kernel that does not know the call. A C library then uses an
older call. If a call uses the numbers of another kind of machine, the program is killed.

References: seccomp(2); Documentation/userspace-api/seccomp_filter.rst and include/uapi/linux/{filter,seccomp,audit}.h of the Linux sources;
numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (which aarch64 uses).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine -> its audit number and its column in the tables."""

# Name, number on x86_64, number on aarch64 ("-": that machine lacks the call).
ALLOWED = """
    # open files
    read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68; preadv 295 69; pwritev 296 70;
    pwritev2 328 287; close 3 57; close_range 436 436; lseek 8 62; fstat 5 80; fsync 74 82; fdatasync 75 83; ftruncate 77 46;
    truncate 76 45; fallocate 285 47; sync_file_range 277 84; dup 32 23; dup2 33 -; dup3 292 24;
    sendfile 40 71; splice 275 76; tee 276 77; copy_file_range 326 285;
    # names of files
    open 2 -; openat 257 56; openat2 437 437; creat 85 -; access 21 -; faccessat 269 48; faccessat2 439 439; stat 4 -; lstat 6 -;
    newfstatat 262 79; statx 332 291; statfs 137 43; fstatfs 138 44; getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49;
    fchdir 81 50; mkdir 83 -; mkdirat 258 34; rmdir 84 -; unlink 87 -; unlinkat 263 35; rename 82 -; renameat 264 38; renameat2 316 276;
    link 86 -; linkat 265 37; symlink 88 -; symlinkat 266 36; readlink 89 -; readlinkat 267 78; chmod 90 -; fchmod 91 52;
    fchmodat 268 53; chown 92 -; fchown 93 55; lchown 94 -; fchownat 260 54; utime 132 -; utimes 235 -; utimensat 280 88;
    futimesat 261 -; umask 95 166; getxattr 191 8; lgetxattr 192 9; fgetxattr 193 10; listxattr 194 11; llistxattr 195 12;
    flistxattr 196 13;
    # waiting
    poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233 21; epoll_wait 232 -;
    epoll_pwait 281 22; epoll_pwait2 441 441; eventfd 284 -; eventfd2 290 19; pipe 22 -; pipe2 293 59; timerfd_create 283 85;
    timerfd_settime 286 86; timerfd_gettime 287 87; signalfd 282 -; signalfd4 289 74; restart_syscall 219 128; pause 34 -;
    # memory
    mmap 9 222; munmap 11 215; mremap 25 216; mprotect 10 226; brk 12 214; msync 26 227;
    membarrier 324 283;
    # processes and threads
    fork 57 -; vfork 58 -; execve 59 221; execveat 322 281; exit 60 93; exit_group 231 94; wait4 61 260; waitid 247 95; getpid 39 172;
    getppid 110 173; gettid 186 178; getpgid 121 155; getpgrp 111 -; getsid 124 156; setpgid 109 154; setsid 112 157;
    set_tid_address 218 96; set_robust_list 273 99; get_robust_list 274 100; futex 202 98; futex_waitv 449 449; rseq 334 293;
    arch_prctl 158 -; sched_yield 24 124; sched_getaffinity 204 123; sched_setaffinity 203 122; sched_getparam 143 121;
    sched_getscheduler 145 120; sched_get_priority_max 146 125; sched_get_priority_min 147 126; getpriority 140 141; setpriority 141 140;
    getrlimit 97 163; setrlimit 160 164; getrusage 98 165; times 100 153; pidfd_open 434 434;
    pidfd_send_signal 424 424;
    # users
    getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177; getresuid 118 148; getresgid 120 150; getgroups 115 158;
    setuid 105 146; setgid 106 144; setreuid 113 145; setregid 114 143; setresuid 117 147; setresgid 119 149; setgroups 116 159;
    setfsuid 122 151; setfsgid 123 152; capget 125 90;
    # signals
    rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127 136; rt_sigsuspend 130 133;
    rt_sigtimedwait 128 137; rt_sigqueueinfo 129 138; sigaltstack 131 132; kill 62 129; tkill 200 130; tgkill 234 131; alarm 37 -;
    setitimer 38 103; getitimer 36 102;
    # clocks
    clock_gettime 228 113; clock_getres 229 114; clock_nanosleep 230 115; nanosleep 35 101; gettimeofday 96 169; time 201 -;
    timer_create 222 107; timer_settime 223 110; timer_gettime 224 108; timer_getoverrun 225 109; timer_delete 226 111; getcpu 309 168;
    # both ends of a pair
    sendto 44 206; recvfrom 45 207; shutdown 48 210; getsockname 51 204; getpeername 52 205; getsockopt 55 209;
    # the machine
    uname 63 160; sysinfo 99 179; getrandom 318 278;
"""

REFUSED = """
    # calls that fail with EPERM, because programs expect a missing permission here
    socket 41 198; connect 42 203; bind 49 200; listen 50 201; accept 43 202; setsockopt 54 208; ptrace 101 117; mount 165 40; umount2 166 39; chroot 161 51;
    pivot_root 155 41; unshare 272 97; setns 308 268; kexec_load 246 104; reboot 169 142; sethostname 170 161; settimeofday 164 170;
    clock_settime 227 112; init_module 175 105; finit_module 313 273; delete_module 176 106; bpf 321 280; perf_event_open 298 241;
    process_vm_readv 310 270; process_vm_writev 311 271; mknod 133 -; mknodat 259 33; capset 126 91; swapon 167 224; acct 163 89;
    keyctl 250 219; add_key 248 217; request_key 249 218; syslog 103 116; personality 135 92; quotactl 179 60; open_by_handle_at 304 265
"""

PRETENDED = """
    # calls that do nothing and succeed, because programs go on well without their effect
    flock 73 32; fadvise64 221 223
"""

NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET


@dataclass(frozen=True)
class Guarded:
    """A call that passes if the low 32 bits of one argument are among `values`, or have none of the bits of `without`.

    If these bits are among `pretended`, the call succeeds without an effect. Otherwise the call fails with EPERM.
    """

    numbers: tuple[int, int]  # number of the call on x86_64, and on aarch64
    argument: int
    values: tuple[int, ...] = ()
    without: int = 0
    pretended: tuple[int, ...] = ()


# fcntl(2): DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, OFD_GETLK, DUPFD_CLOEXEC, GETPIPE_SZ pass. SETLK, SETLKW, their OFD forms and SETPIPE_SZ
# are pretended. The others, such as leases and the notice of a folder's use, fail. GETLK passes because SQLite asks it: it shows locks of the
# machine's own programs only.
_FCNTL = Guarded((72, 25), 1, values=(0, 1, 2, 3, 4, 5, 36, 1030, 1032), pretended=(6, 7, 37, 38, 1031))
GUARDED = (
    Guarded((56, 220), 0, without=NAMESPACES),  # clone: processes and threads, no namespaces
    Guarded((157, 167), 0, values=(1, 2, 3, 4, 15, 16)),  # prctl: PDEATHSIG, DUMPABLE and NAME, set and get
    Guarded(
        (16, 29), 1, values=(0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
    ),  # ioctl: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIO(N)CLEX
    Guarded((53, 199), 0, values=(1,)),  # socketpair: AF_UNIX
    Guarded((302, 261), 0, values=(0,)),  # prlimit64: of the caller itself
    _FCNTL,
    Guarded((327, 286), 5, values=(0,)),  # preadv2: no flags, because RWF_NOWAIT shows which pages other programs have read
    Guarded((28, 233), 2, values=(*range(20), 22, 23, 24, 25)),  # madvise: not COLD and PAGEOUT, which act on shared pages
)

# Classic BPF: codes of the instructions used, and return values of a filter.
LOAD, EQUAL, ABOVE, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
PRETEND = FAIL | 0  # the filter returns error 0, so the call returns 0
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
X32 = 0x40000000  # on x86_64, numbers from this one on belong to another calling convention


def numbers(table: str, column: int) -> list[int]:
    """Returns the numbers of a table's calls on one machine, in the table's order."""
    rows = [line for line in table.strip().splitlines() if not line.strip().startswith("#")]
    entries = (entry.split() for line in rows for entry in line.split(";") if entry.strip())
    return [int(entry[1 + column]) for entry in entries if entry[1 + column] != "-"]


@cache
def filter_for(machine: str | None = None) -> bytes:
    """Returns the filter as an array of struct sock_filter, for `bwrap --seccomp`. Raises KeyError for a machine that MACHINES lacks."""
    audit, column = MACHINES[machine or platform.machine()]
    refused = FAIL | errno.EPERM
    code = [_instruction(LOAD, MACHINE), _instruction(EQUAL, audit, 1, 0), _instruction(RETURN, KILL), _instruction(LOAD, NUMBER)]
    code += [_instruction(ABOVE, X32, 0, 1), _instruction(RETURN, FAIL | errno.ENOSYS)]
    for call in GUARDED:
        code += _guard(call, column, refused)
    for table, verdict in ((ALLOWED, ALLOW), (PRETENDED, PRETEND), (REFUSED, refused)):
        for number in numbers(table, column):
            code += [_instruction(EQUAL, number, 0, 1), _instruction(RETURN, verdict)]
    return b"".join([*code, _instruction(RETURN, FAIL | errno.ENOSYS)])


def _guard(call: Guarded, column: int, refused: int) -> list[bytes]:
    """Returns the instructions that decide one guarded call.

    For every other call, the call's number remains loaded for the next instruction.
    """
    if call.without:
        checks: Sequence[bytes] = (_instruction(BITS, call.without, 1, 0), _instruction(RETURN, ALLOW))
    else:
        verdicts = [*((value, ALLOW) for value in call.values), *((value, PRETEND) for value in call.pretended)]
        checks = [part for value, verdict in verdicts for part in (_instruction(EQUAL, value, 0, 1), _instruction(RETURN, verdict))]
    block = [_instruction(LOAD, ARGUMENTS + 8 * call.argument), *checks, _instruction(RETURN, refused)]
    return [_instruction(EQUAL, call.numbers[column], 0, len(block)), *block]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Returns one struct sock_filter. `if_true` and `if_false` are the numbers of instructions to skip."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
