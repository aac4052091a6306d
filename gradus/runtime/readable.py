"""Waits for file descriptors, including descriptors with numbers above 1,023. The function `select` cannot wait for such descriptors."""

from __future__ import annotations

import selectors
from collections.abc import Iterable


def readable(descriptors: Iterable[int], seconds: float | None) -> list[int]:
    """Returns the descriptors that can be read without a wait. Such a descriptor has data or an end of file, or its process has ended.

    If there is no such descriptor within `seconds` (None: no limit), the list is empty.
    """
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return [key.fd for key, _ in selector.select(None if seconds is None else max(0.0, seconds))]
