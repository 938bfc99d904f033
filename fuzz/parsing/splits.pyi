class SplitDifference(AssertionError): ...

class SplitChecker:
    def __init__(
        self,
        headers: bool = True,
        login_due: bool = False,
        max_payload: int = 1048576,
        max_control_line: int = 4096,
        leaf: bool = False,
    ) -> None: ...
    def check(self, data: bytes) -> bytes: ...
