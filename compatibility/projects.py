"""What is run, with pinned versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from compatibility import commands, counting
from compatibility.golang import GoTests
from compatibility.python_packages import Scenario, SourceTests

NATS_PY = "nats-py==2.16.0"


class Project(Protocol):
    """Software that expects a NATS server."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kind(self) -> str:
        """Whose tests are run."""

    def prepare(self) -> None:
        """Fetch it. Raises CompatibilityError when that fails."""

    def run(self, target: commands.Target) -> counting.Outcome:
        """Run it against a server. Raises CompatibilityError when it cannot be run."""


PROJECTS: Sequence[Project] = (
    Scenario("nats-py", "2.16.0", (NATS_PY,), "nats_py"),
    Scenario("faststream", "0.7.8", ("faststream[nats]==0.7.8", NATS_PY), "faststream_library"),
    Scenario("taskiq-nats", "0.7.0", ("taskiq-nats==0.7.0", "taskiq==0.13.0", NATS_PY), "taskiq_library"),
    SourceTests(
        "nats-micro",
        "0.0.5",
        ("nats-micro==0.0.5", "nats-test-server==0.0.1", "jinja2", "pytest==8.3.5", "pytest-asyncio==0.26.0", NATS_PY),
    ),
    GoTests(
        "watermill-nats",
        "github.com/ThreeDotsLabs/watermill-nats/v2",
        "v2.1.3",
        ("./pkg/nats",),
        "its own tests",
        url_variables=("WATERMILL_TEST_NATS_URL",),
    ),
    GoTests("go-kit", "github.com/go-kit/kit", "v0.13.0", ("./transport/nats",), "its own tests, server replaced"),
    GoTests("go-cloud", "gocloud.dev/pubsub/natspubsub", "v0.40.0", (".",), "its own tests, server replaced"),
)
