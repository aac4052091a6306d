"""Properties are tried on the same examples at every run, so that a change is judged by itself alone; none is timed."""

import signal

from hypothesis import settings

# A shell's background job, and nohup, hand on that these are ignored; what is tested is a program that hears them.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")
