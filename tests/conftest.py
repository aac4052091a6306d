"""Properties use the same examples in every run, without a deadline. Tests marked `nightly` run with --nightly only."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from benchmarks.forked import Forked

# A background job of a shell, and nohup, leave these signals ignored. The tests need a process that hears them.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)

# the user's key, with which runs are marked, does not go into the home of who runs the tests
os.environ["XDG_STATE_HOME"] = os.path.join(tempfile.gettempdir(), f"gradus-tests-{os.getuid()}")
os.environ.pop("COLUMNS", None)  # the width of the terminal that runs the tests is not that of a user

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly, and no others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    nightly = config.getoption("--nightly")
    chosen = [item for item in items if (item.get_closest_marker("nightly") is not None) == nightly]
    config.hook.pytest_deselected(items=[item for item in items if (item.get_closest_marker("nightly") is not None) != nightly])
    items[:] = chosen


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """Processes that train are forked from it; all imports are done in it, so each can be killed at little cost."""
    with Forked() as made:
        yield made
