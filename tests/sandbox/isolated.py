"""Where tests of isolation can run: where bubblewrap may isolate. Elsewhere they are skipped, with the reason."""

from __future__ import annotations

import pytest

from gradus.sandbox import missing

isolated = pytest.mark.skipif(missing() is not None, reason=str(missing()))
