"""The programs of examples/, loaded as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def example(name: str) -> Any:
    """The module of `examples/<name>.py`."""
    path = EXAMPLES / f"{name}.py"
    known = f"examples.{name.replace('/', '.')}"
    spec = importlib.util.spec_from_file_location(known, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # pydantic looks there for what annotations name
    spec.loader.exec_module(module)
    return module
