from typing import Any

from jetbroker.errors import ProtocolError

class RecordingParser:
    events: list[tuple[Any, ...]]
    error: str | None
    fault: ProtocolError | None
    def __init__(
        self,
        headers: bool = True,
        login_due: bool = False,
        max_payload: int = 1048576,
        max_control_line: int = 4096,
        leaf: bool = False,
    ) -> None: ...
    def feed(self, data: bytes) -> None: ...
    @property
    def unfinished(self) -> int: ...
