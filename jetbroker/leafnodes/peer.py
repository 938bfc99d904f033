"""What is known of the server at the other end of a link, and how far the link has come."""

from asyncio import TimerHandle
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from jetbroker.accounts.account import Account
from jetbroker.auth.authenticator import Login
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.leafnodes.rules import Domains

if TYPE_CHECKING:
    from jetbroker.connections.upgrade import Upgrade
    from jetbroker.leafnodes.remote import Remote


class Stage(Enum):
    """How far a link has come."""

    CONNECT_DUE = "connect due"  # we accepted it: the other side has to log in
    CHECKING = "checking"  # its password is being checked
    INFO_DUE = "info due"  # we dialled: nothing was heard yet
    ANSWER_DUE = "answer due"  # we have sent CONNECT
    LIVE = "live"
    OVER = "over"


@dataclass(slots=True)
class Peer:
    """The other end. `dialled`: the configured remote that we dialled, None when it dialled us."""

    dialled: "Remote | None" = None
    account: Account | None = None  # ours, that the link belongs to; known from the start when we dialled
    stage: Stage = Stage.CONNECT_DUE
    upgrade: "Upgrade | None" = None  # over a WebSocket: what was agreed on when it began
    greeted: bool = True  # an accepted one gets its first INFO at once: no TLS handshake goes before that
    is_spoke: bool = False  # we are the spoke of this link
    nonce: bytes = b""
    server: str = ""
    cluster: str = ""
    domain: str = ""
    jetstream: bool = False  # its account has it, as it said when it dialled us
    remote_account: str = ""
    version: str = ""
    protocol: int = 0  # of what servers can do, as it said
    compression: str = "not supported"
    isolated: bool = False
    login: Login | None = None  # when it dialled us
    user: str | None = None  # its name, as monitoring and the log show it
    denied: list[str] = field(default_factory=list)  # what it does not want to get, when it dialled us
    imports: SubjectPermissions | None = None  # what its INFO allows, when we dialled
    exports: SubjectPermissions | None = None
    applied: tuple[SubjectPermissions | None, SubjectPermissions | None] = (None, None)  # of these, the last that hold
    domains: Domains = field(default_factory=Domains)
    timer: TimerHandle | None = None
    end: TimerHandle | None = None  # of a login that does not last for ever

    @property
    def permissions(self) -> PermissionsOptions | None:
        """Those of its login."""
        return None if self.login is None or self.login.permissions is None else self.login.permissions.options

    @property
    def label(self) -> str:
        """Whose it is, behind a line of the log; "": that is not known yet."""
        if self.account is None or self.login is None:
            return ""
        kind = "nkey" if self.login.nkey else "jwt" if self.login.token is not None else "user"
        return (
            f" - Account:{self.account.label} - {kind}:{self.user}" if self.user else f" - Account:{self.account.label}"
        )

    @property
    def decorated(self) -> str:
        """As the log names it, with its cluster."""
        return f"{self.server}/{self.cluster}" if self.cluster else self.server

    def await_until(self, timer: TimerHandle | None) -> None:
        """Only one thing is waited for at a time."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = timer

    def end_with(self, end: TimerHandle | None) -> None:
        """The login is over when this is due; None: it lasts."""
        if self.end is not None:
            self.end.cancel()
        self.end = end
