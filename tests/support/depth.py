"""How much a test plays: a part in `make test`, all of it in `make test-deep`."""

from __future__ import annotations

from hypothesis import settings

IS_DEEP = settings.get_current_profile_name() == "nightly"
