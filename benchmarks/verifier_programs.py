"""Programs that would rather not compute f(x) = x * x, and values that are not the expected ones, for the verifier of unit tests.

Every program must earn 0 and must not fail the verifier. Every wrong value must be judged wrong, every right one right.
"""

from __future__ import annotations

TESTS = ("assert f(2) == 4", "assert f(3) == 9", "assert f(10) == 100")
SOLUTION = "def f(x): return x * x"


def returned(value: str, before: str = "") -> str:
    """A program whose f returns a value."""
    return f"{before}\ndef f(x): return {value}"


def of_class(base: str, body: str, made: str = "C()") -> str:
    """A program whose f returns an object of a class."""
    return f"class C({base}):\n    {body}\ndef f(x): return {made}"


OBJECTS = {
    "equal to all": of_class("object", "__eq__ = lambda s, o: True\n    __hash__ = lambda s: 4"),
    "an integer equal to all": of_class("int", "__eq__ = lambda s, o: True\n    __hash__ = int.__hash__", "C(7)"),
    "unequal to none": of_class("int", "__ne__ = lambda s, o: False\n    __sub__ = __rsub__ = lambda s, o: 0", "C(7)"),
    "a float that equals": of_class("float", "__eq__ = lambda s, o: True\n    __float__ = lambda s: 4.0", "C(7)"),
    "a text that equals": of_class("str", "__eq__ = lambda s, o: True\n    __hash__ = str.__hash__", "C('4')"),
    "a tuple that equals": of_class("tuple", "__eq__ = lambda s, o: True\n    __hash__ = tuple.__hash__"),
    "a mapping that lies": of_class("dict", "items = lambda s: 1 / 0\n    keys = lambda s: 4\n    __iter__ = lambda s: 1 / 0", "C(a=1)"),
    "a list without an end": of_class("list", "def __iter__(self):\n        while True: yield 4", "C([1])"),
    "a complex number too large": of_class("complex", "real = 10**400", "C(1)"),
    "a complex number without an imaginary part": of_class("complex", "imag = None", "C(1)"),
    "a complex number of text": of_class("complex", "real = '4'\n    imag = 'j'", "C(1)"),
    "an index": of_class("object", "__index__ = __int__ = __float__ = __complex__ = lambda s: 4"),
    "a hash that raises": returned("{C()}", "class C:\n    def __hash__(self): raise SystemExit"),
    "reduced to another": of_class("object", "__reduce__ = lambda s: (int, (4,))\n    __getstate__ = lambda s: 4"),
    "another class": of_class("object", "__class__ = property(lambda s: int)"),
    "another class that raises": of_class("object", "__class__ = property(lambda s: 1 / 0)"),
    "a metaclass": returned("C()", "class M(type):\n    __instancecheck__ = lambda c, o: True\nclass C(metaclass=M): pass"),
    "its name": returned("C()", "class M(type):\n    __name__ = property(lambda c: 10**5000)\nclass C(metaclass=M): pass"),
    "a scalar of numpy's form": of_class("object", "shape = ()\n    item = lambda s: s"),
    "a scalar that ends": of_class("object", "shape = ()\n    def item(self): raise KeyboardInterrupt"),
    "a ratio by zero": of_class("object", "as_integer_ratio = lambda s: (1, 0)"),
    "a ratio that is none": of_class("object", "as_integer_ratio = lambda s: 4"),
    "a ratio too large": of_class("object", "as_integer_ratio = lambda s: (10**4000, 3)"),
    "every attribute": of_class("object", "__getattr__ = lambda s, n: s\n    __call__ = lambda s, *a: s\n    __iter__ = lambda s: iter(())"),
    "an exception": returned("ValueError(4)"),
    "an exception whose text raises": "class E(Exception):\n    def __str__(self): raise E\ndef f(x): raise E",
    "an exception group": "def f(x): raise BaseExceptionGroup('4', [SystemExit(4), GeneratorExit()])",
}
NUMBERS = {
    "too long to be printed": returned("10**5000"),
    "not a number": returned("float('nan')"),
    "infinite": returned("float('inf')"),
    "minus nothing": returned("-0.0"),
    "a number of text": returned("str(x * x)"),
    "a yes": returned("True"),
    "a decimal that is none": returned("Decimal('NaN')", "from decimal import Decimal"),
    "near, by a fraction": returned("Fraction(x * x * 10**20 + 1, 10**20)", "from fractions import Fraction"),
    "near, by a float": returned("x * x + 1e-10"),
    "half of a pair": returned("'\\ud83d'"),
    "a page of zeros": returned("bytes(10**5)"),
}
STRUCTURES = {
    "a list in itself": returned("L", "L = []\nL.append(L)"),
    "a mapping in itself": returned("D", "D = {}\nD[1] = D"),
    "deep": returned("D", "D = 4\nfor i in range(900): D = [D]"),
    "deeper": returned("D", "import sys\nsys.setrecursionlimit(10**9)\nD = 4\nfor i in range(10**5): D = (D,)"),
    "a generator": returned("(i for i in (x * x,))"),
    "an iterator": returned("iter([x * x])"),
    "a list of it": returned("[x * x]"),
    "keys of one hash": returned("{(2**61 - 1) * i for i in range(3000)}"),
    "wide": returned("list(range(10**6))"),
    "a module": returned("sys", "import sys"),
    "itself": returned("f"),
}
PATCHED = {
    "no length": returned("7", "import builtins\nbuiltins.len = lambda o: 4"),
    "its own types": returned("7", "import builtins\nbuiltins.isinstance = lambda o, t: True\nbuiltins.int = lambda *a: 4"),
    "its own json": returned("7", "import json\njson.dumps = lambda o: '[\"value\", 0, 1e999]'"),
    "its own encoder": returned("7", "import sys\nsys.modules['__main__'].encoded = lambda v: {'dict': [[1, 2, 3]]}"),
    "its own evaluation": returned("7", "import builtins\nbuiltins.eval = lambda *a: {1: 2}"),
    "its own output": returned("7", "import sys\nsys.stdout = sys.stderr = None"),
    "its own exit": returned("7", "import os\nos._exit = lambda code: None"),
    "its own write": returned("7", "import os\nreal = os.write\nos.write = lambda fd, text: real(fd, b'[\"value\", 0, 1e400]\\n' * 3)"),
    "a tracer": returned("7", "import sys\nsys.settrace(lambda *a: 1 / 0)"),
    "an audit hook": returned("7", "import sys\ndef hook(*a): raise RuntimeError('no')\nsys.addaudithook(hook)"),
    "a hook of the collector": returned("7", "import gc\ngc.callbacks.append(lambda *a: 1 / 0)\ngc.set_threshold(1)"),
    "an exit that writes": returned("7", "import atexit, os\natexit.register(lambda: os.write(3, b'[\"value\", 0, 4]\\n'))"),
    "signals that answer": returned("7", "import signal\nsignal.signal(signal.SIGALRM, lambda *a: 1 / 0)\nsignal.setitimer(0, 0.001, 0.001)"),
}
FORGED = """import os, stat
for fd in range(1, 64):
    try: pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError: continue
    if pipe:
        try: os.write(fd, LINES)
        except OSError: pass
"""
HARNESS = {
    "answers forged": FORGED.replace("LINES", "b''.join(b'[\"value\", %d, true]\\n' % i for i in range(9))") + "os._exit(0)",
    "answers that cannot be read": FORGED.replace("LINES", "b'[\"value\", 0, {\"complex\": [1e999, 1]}]\\n[\"value\", 1, {\"set\": [{\"list\": []}]}]\\n'")
    + "os._exit(0)",
    "answers of many kinds": FORGED.replace("LINES", "b'[\"value\", 1e99, 4]\\n[\"value\", true, 4]\\n[\"value\", 0]\\n[[], 0, 4]\\n[{}, 0, 4]\\n'")
    + "os._exit(0)",
    "half a character": FORGED.replace("LINES", "b'[\"value\", 0, \"\\xf0\\x9f\"]\\n'") + "os._exit(0)",
    "a number without an end": FORGED.replace("LINES", "b'[\"value\", 0, ' + b'9' * 5000 + b']\\n'") + "os._exit(0)",
    "brackets without an end": FORGED.replace("LINES", "b'[' * 60000 + b'\\n'") + "os._exit(0)",
    "other ends of lines": FORGED.replace("LINES", "'[\"value\", 0, 5]\\u2028[\"value\", 0, 4]\\x0b\\n'.encode()") + "os._exit(0)",
    "the frames above": """import sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [v for v in frame.f_locals.values() if isinstance(v, list)]
        frame = frame.f_back
    asked = next((v for v in seen if v and len(v[0]) == 3), [])
    return next((a[2].rpartition('==')[2] for a in asked if f'f({x})' in a[2]), None)""",
    "all objects": """import gc
def f(x):
    texts = [o for o in gc.get_objects() if isinstance(o, (list, tuple)) and any(isinstance(i, str) and f'f({x}) ==' in i for i in o)]
    return texts and texts[0]""",
    "its own memory": returned("open('/proc/self/mem', 'rb').read(9) and x * x"),
    "the memory of the first process": returned("open('/proc/1/mem', 'rb').read(9) and x * x"),
    "a debugger": returned("ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 and x * x", "import ctypes"),
    "the arguments": returned("next((a for a in __import__('sys').orig_argv if '== 4' in a), None)"),
    "the input again": returned("__import__('sys').stdin.read() or None"),
    "a crash": returned("ctypes.string_at(0)", "import ctypes"),
    "the class of none": "import ctypes\ndef f(x):\n    ctypes.c_long.from_address(id(4) + 24).value = 7\n    return 2 + 2 - 3",
}
PROCESSES = {
    "a bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "a child that answers": "import os, time\nif os.fork():\n    time.sleep(9)\ndef f(x): return 7",
    "a child that stays": "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)\ndef f(x): return 7",
    "a thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\ndef f(x): return 7",
    "a thread that patches": returned("7", "import threading, json\ndef g():\n    while True: json.dumps = None\nthreading.Thread(target=g, daemon=True).start()"),
    "stopped": returned("os.kill(os.getpid(), 19)", "import os"),
    "another program": "import os\nos.execv('/bin/echo', ['echo', '[\"value\", 0, 4]'])",
    "its own end": returned("os.kill(os.getpid(), 9)", "import os"),
    "a descriptor less": returned("7", "import os\nos.closerange(0, 64)"),
    "exit": "raise SystemExit(0)",
    "a sleep": returned("__import__('time').sleep(600)"),
    "a loop": "def f(x):\n    while True: pass",
    "an output without an end": "def f(x):\n    while True: print('4' * 10**4)",
    "memory without an end": "def f(x):\n    h = []\n    while True: h.append(bytearray(10**7))",
}
MACHINE = {
    "a file for the next test": "import os\ndef f(x):\n    if os.path.exists('/tmp/a'): return x * x\n    open('/tmp/b', 'w').close()\n    return 7",
    "a file in shared memory": "import os\ndef f(x):\n    return x * x if os.path.exists('/dev/shm/a') else os.symlink('/dev/shm/a', f'/tmp/{x}')",
    "the answers in /usr": returned("x * x if any('answers' in n for n in os.listdir('/usr/local/share')) else 7", "import os"),
    "a lock": "import fcntl, os\ndef f(x):\n    g = open(os.__file__)\n    try: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    except OSError: return x * x",
    "a link to itself": returned("open('/tmp/l').read()", "import os\nos.symlink('/tmp/l', '/tmp/l')"),
    "a program file changed": "open('solution.py', 'w').write('def f(x): return x * x')\nopen('program.py', 'w').write('print(4)')\ndef f(x): return 7",
    "a module beside": "open('json.py', 'w').write('def dumps(x): return \"4\"')\ndef f(x): return 7",
    "disk without an end": "def f(x):\n    for i in range(10**6): open(f'/tmp/{i}', 'wb').write(bytes(1 << 20))",
}
CALLS = {  # name -> (numbers on x86_64 and aarch64, arguments): each answers x * x if the kernel permits it
    "a user namespace": ((272, 97), "0x10000000"),
    "keyctl": ((250, 219), "0, -3, 0, 0, 0"),
    "io_uring_setup": ((425, 425), "8, ctypes.create_string_buffer(200)"),
    "perf_event_open": ((298, 241), "ctypes.create_string_buffer(200), 0, -1, -1, 0"),
    "bpf": ((321, 280), "5, ctypes.create_string_buffer(200), 120"),
    "memfd_create": ((319, 279), "b'a', 0"),
    "inotify_init": ((294, 26), "0"),
    "mincore": ((27, 232), "0, 0, ctypes.create_string_buffer(200)"),
    "a lease": ((72, 25), "os.open(os.__file__, 0), 1024, 0"),
    "cachestat": ((451, 451), "0, ctypes.create_string_buffer(200), ctypes.create_string_buffer(200), 0"),
}
_CALL = """import ctypes, os, platform
def f(x):
    number = {numbers}[platform.machine() != 'x86_64']
    return x * x if ctypes.CDLL(None).syscall(number, {arguments}) >= 0 else 7"""


def programs() -> dict[str, dict[str, str]]:
    """Kind -> name -> source of a program that does not solve the problem."""
    calls = {name: _CALL.format(numbers=numbers, arguments=arguments) for name, (numbers, arguments) in CALLS.items()}
    kinds = {"objects": OBJECTS, "numbers": NUMBERS, "structures": STRUCTURES, "patched": PATCHED, "harness": HARNESS, "processes": PROCESSES}
    return {**kinds, "machine": MACHINE, "kernel calls": calls}


WRONG = [  # (expected literal, expression of the returned value): not the same
    *(("3", "3.0000000001"), ("1000000000", "1e9 + 0.5"), ("1e20", "10**20 + 1"), ("3", "True + 2.0000000001"), ("9007199254740993", "2.0**53")),
    *(("1", "True"), ("0", "False"), ("True", "1"), ("None", "False"), ("None", "0"), ("None", "'None'"), ("1", "'1'"), ("'1'", "1")),
    *(("{1}", "{True}"), ("{0}", "{False}"), ("[1]", "[True]"), ("{1: 2}", "{True: 2}"), ("{1: 2}", "{1: True + 1.00000001}"), ("{(0, 1)}", "{(False, 1)}")),
    *(("[1, 2]", "(1, 2)"), ("(1, 2)", "[1, 2]"), ("[1, 2]", "[1, 2, 3]"), ("[1, 2]", "[2, 1]"), ("[1]", "{1}"), ("{1}", "[1]"), ("{1: 2}", "[(1, 2)]")),
    *(("'a'", "b'a'"), ("b'a'", "'a'"), ("'a'", "'a '"), ("'a\\n'", "'a\\u2028'"), ("'a'", "'a\\x00'"), ("'\\u00e9'", "'e\\u0301'"), ("'a'", "['a']")),
    *(("0.3", "0.3001"), ("0.3", "float('nan')"), ("0.0", "1e-300"), ("1e308", "float('inf')"), ("3", "float('inf')"), ("0.3", "'0.3'")),
    *(("3", "__import__('fractions').Fraction(3 * 10**20 + 1, 10**20)"), ("3", "__import__('decimal').Decimal('3.0000000000000000000001')")),
    *(("1", "1 + 0j"), ("[1]", "iter([1])"), ("[1]", "(i for i in [1])"), ("[1]", "range(1, 2)"), ("[1]", "__import__('collections').deque([1])")),
    *(("5", "lambda: 5"), ("5", "int"), ("[[1]]", "[[True]]"), ("'4'", "type('S', (str,), {'__eq__': lambda s, o: True})('5')"), ("2", "-2")),
]
RIGHT = [  # (expected literal, expression of the returned value): the same
    *(("3", "3.0"), ("3.0", "3"), ("0.3", "0.1 + 0.2"), ("0.0", "-0.0"), ("{1.0}", "{1}"), ("{1: 0.3}", "{1: 0.1 + 0.2}"), ("0.5", "1 / 2")),
    *(("{1, 2}", "frozenset({2, 1})"), ("{'a': 1}", "__import__('collections').OrderedDict(a=1)"), ("{'a': 2}", "__import__('collections').Counter('aa')")),
    *(("(1, 2)", "__import__('collections').namedtuple('P', 'x y')(1, 2)"), ("{1}", "{1: 2}.keys()"), ("b'a'", "bytearray(b'a')")),
    *(("0.5", "__import__('fractions').Fraction(1, 2)"), ("3", "__import__('decimal').Decimal('3.00')"), ("10**30 + 1", "10**30 + 1")),
    *(("'\\ud83d'", "'\\ud83d'"), ("None", "None"), ("[1, [2, (3,)]]", "[1, [2, (3,)]]"), ("True", "not 0"), ("1 + 2j", "1 + 2j")),
]
