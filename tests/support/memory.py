"""What is in the memory of this process."""

from __future__ import annotations

import gc
from typing import Any


def instances(*kinds: type) -> list[Any]:
    """All that the collector knows of these kinds.

    Asked by type: isinstance() would follow other tests' weak proxies to things that are gone.
    """
    return [found for found in gc.get_objects() if issubclass(type(found), kinds)]
