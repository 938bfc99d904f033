"""Conversations with one server that speaks leafnodes: its peers and clients step by step, and its log.

All conversations of a `Setting` are played with one server at the same time, each with an account of its own: the log
is told apart by the ports of the links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.leaf_peer import Listener, Peer, dial
from tests.support.process import free_port

Heard = list[tuple[str, str]]
Data = bytes | Callable[[str], bytes]  # or from the server's nonce to what is sent

PONG = "pong"
END = "end"
NOTHING = "nothing"
AT_ONCE = 8

# what a server tells at moments of its own, or only so often in a second, and details that only nats-server tells
_NOT_COMPARED = (
    "Ping Timer",
    "Delaying PING",
    "rying to connect",
    "DBG] link - Authentication Timeout",
    "Stale Leaf Node",
    "ERR] link - maximum control line exceeded",
    "DBG] link - Adding JetStream Domain Mapping",
    "DBG] link - Not permitted to",
    "DBG] link - Creating import subscription",
    "DBG] link - Permissions Violation for Subscription",
    "DBG] link - Authenticated JWT",  # with an address in memory
    "ERR] link - maximum account active connections exceeded",
    "ERR] link - maximum subscriptions exceeded",
)
_FILE = re.compile(r'"/[^"]*/(?=[^/"]*\.creds")')
_LINE = re.compile(r"\[\d+\] \S+ \S+ (\[\w+\]) (.*)")
_LINK = re.compile(r"127\.0\.0\.1:\d+ - lid:\d+ - ")


@dataclass(frozen=True)
class Step:
    """`who` sends `data` and waits: for a PONG, for the end, for nothing, or for a line that begins with `until`.

    `shown`: what it hears then is part of what is compared.

    Names that begin with "leaf" dial the leafnode port, with "hub" are dialled by the server under test, with "raw",
    "client" and "other" the client port; a "client" logs in by itself.
    """

    who: str
    data: Data = b""
    until: str = PONG
    shown: bool = True


@dataclass(frozen=True)
class Conversation:
    """In an account of its own. USER, ACCOUNT, PEER in any text: its user and name, the port of the scripted hub.

    `account`: what the account has beside its users. `user`: what the user of leafs has beside its password.
    `imports`: of account Y. `remote`, `login`: what the remote has, and what its URL has before the address.
    """

    name: str
    steps: Sequence[Step]
    account: str = ""
    user: str = ""
    imports: str = ""
    remote: str = ""
    login: str = ""
    patience: str = "5s"
    logged: bool = True  # what the log tells is compared, too
    credentials: str = ""  # what the remote's file holds


@dataclass(frozen=True)
class Setting:
    """What servers of some conversations have in common. `leafnodes`, `server`, `accounts`: of the configuration."""

    name: str
    conversations: Sequence[Conversation]
    leafnodes: str = "compression: off"
    server: str = ""
    accounts: str = ""
    operator: str = ""  # in the place of the accounts
    in_turn: bool = False  # they share an account
    own: tuple[str, ...] = ()  # lines that begin so are each server's own


@dataclass
class Outcome:
    """What each heard, in the order of the steps, and what the log told of the links, in any order.

    The participants stand one behind the other: whom a server tells first is its own matter.
    """

    heard: Heard = field(default_factory=list)
    log: list[str] = field(default_factory=list)


class Stage:
    """The participants of one conversation with one server."""

    def __init__(
        self,
        server: Daemon,
        user: str,
        ports: dict[str, int],
        listener: Listener | None = None,
        *,
        keeps_listening: bool = False,
    ) -> None:
        self.peers: dict[str, Peer] = {}
        self._server = server
        self._user = user
        self._listener = listener
        self._keeps_listening = keeps_listening  # for the next conversation
        self._dialled = 0  # connections of the server that are still to come
        self._leaf_port = ports.get("LEAF", 0)
        self._names = {port: name for name, port in {"CLIENT": server.port, **ports}.items()}

    def play(self, conversation: Conversation) -> Heard:
        heard: Heard = []
        self._dialled = len({step.who for step in conversation.steps if step.who.startswith("hub")} - self.peers.keys())
        for step in conversation.steps:
            if step.who not in self.peers:
                heard += [(step.who, line) for line in self._open(step.who)]
            lines = self._take(self.peers[step.who], step)
            heard += [(step.who, line) for line in lines if step.shown]
            for name, peer in self.peers.items():
                if name != step.who and peer.ponged and not peer.closed:
                    heard += [(name, line) for line in peer.until_pong()]
        return heard

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()

    def links(self) -> list[int]:
        """Ports by which the log names the links, one for each."""
        return [peer.local_port for name, peer in self.peers.items() if name.startswith(("leaf", "hub"))]

    def _open(self, name: str) -> list[str]:
        """A new participant; what it hears first."""
        if name.startswith("hub") and self._listener is not None:
            self.peers[name] = Peer(self._listener.accept(), self._names)
            self._dialled -= 1
            if not self._dialled and not self._keeps_listening:
                self._listener.close()  # a server that comes back is none of this conversation
            return []
        port = self._leaf_port if name.startswith("leaf") else self._server.port
        peer = self.peers[name] = Peer(dial(port), self._names)
        heard = peer.until("INFO")
        if not name.startswith("client"):
            return heard
        peer.say(b'CONNECT {"verbose":false,"headers":true,"user":"%b","pass":"p"}\r\n' % self._user.encode())
        peer.until_pong()
        return []

    def _take(self, peer: Peer, step: Step) -> list[str]:
        data = step.data if isinstance(step.data, bytes) else step.data(peer.nonce)
        if data:
            user = f"leaf-{self._user}" if step.who.startswith("leaf") else self._user
            words = {"USER": user, "ACCOUNT": self._user.upper(), "PEER": str(peer.local_port)}
            for word, value in words.items():
                data = data.replace(word.encode(), value.encode())
        if step.until == PONG:
            return peer.until_pong(data)
        if data:
            peer.say(data)
        if step.until == END:
            return peer.to_end()
        if step.until == NOTHING:
            return []
        return peer.until(step.until)


def told_of(lines: Sequence[str], ports: Sequence[int]) -> list[str]:
    """What a log says of these links, in any order."""
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match is None or not any(f":{port} - lid:" in line for port in ports):
            continue
        said = f"{match[1]} {_FILE.sub('FILE', _LINK.sub('link - ', match[2]))}"
        if not any(word in said for word in _NOT_COMPARED):
            found.append(said)
    return sorted(found)


def _accounts(setting: Setting) -> str:
    blocks = [
        "X { users: [ {user: x, password: p} ],"
        " exports: [ {service: svc.there}, {service: svc.too}, {stream: str.a}, {stream: tick.>} ] }"
    ]
    blocks.append(setting.accounts)
    imports = []
    for number, row in enumerate(setting.conversations):
        user, account = f"u{number}", f"U{number}"
        given = row.account.replace("USER", user).replace("ACCOUNT", account)
        blocks.append(
            f"{account} {{ users: [ {{user: {user}, password: p}},"
            f" {{user: leaf-{user}, password: p\n{row.user} }} ]\n{given} }}"
        )
        imports.append(row.imports.replace("USER", user).replace("ACCOUNT", account))
    blocks.append(f"Y {{ users: [ {{user: y, password: p}} ], imports: [ {', '.join(filter(None, imports))} ] }}")
    return "\n".join(blocks)


def _remote(user: str, row: Conversation, port: int, folder: Path) -> str:
    login = row.login.replace("USER", user)
    compression = "" if "compression" in row.remote else "compression: off\n"
    patience = f'first_info_timeout: "{row.patience}"\n'
    url = f'url: "nats-leaf://{login}127.0.0.1:{port}"'
    file = folder / f"{user}.creds"
    if row.credentials:
        file.write_text(row.credentials)
    credentials = f'credentials: "{file}"\n' if row.credentials else ""
    return f"{{ {url}\naccount: {user.upper()}\n{patience}{compression}{credentials}{row.remote} }}"


def _configuration(setting: Setting, folder: Path, leafnodes: str) -> str:
    return "\n".join(
        [
            "server_name: same",
            setting.operator or f"accounts {{ {_accounts(setting)} }}",
            f"leafnodes {{ {leafnodes}\n{setting.leafnodes} }}",
            setting.server.replace("STORE", f"'{folder}'"),
        ]
    )


def _started(command: Sequence[str], folder: Path, configuration: str) -> Daemon:
    path = folder / "server.conf"
    path.write_text(configuration)
    return Daemon("-D", "-c", str(path), command=command)


def _outcome(server: Daemon, stage: Stage, conversation: Conversation) -> Outcome:
    """Play it; the log is whole once the server has told that the links are closed."""
    try:
        heard = stage.play(conversation)
    finally:
        ports = stage.links()
        stage.close()
    ended = re.compile(rf":({'|'.join(map(str, ports))}) - lid:.*connection closed")
    server.wait_until(lambda log: sum(1 for line in log if ended.search(line)) >= len(ports), "the end of each link")
    heard.sort(key=itemgetter(0))
    return Outcome(heard, told_of(server.log, ports) if conversation.logged else [])


def played_by_leafs(command: Sequence[str], folder: Path, setting: Setting) -> dict[str, Outcome]:
    """The conversations of leafs that dial a server. `folder`: for its configuration and its store."""
    port = free_port()
    server = _started(command, folder, _configuration(setting, folder, f'listen: "127.0.0.1:{port}"'))

    def one(number: int, row: Conversation) -> Outcome:
        return _outcome(server, Stage(server, f"u{number}", {"LEAF": port}), row)

    with server:
        return _all(setting, one)


def played_by_hubs(command: Sequence[str], folder: Path, setting: Setting) -> dict[str, Outcome]:
    """The conversations of hubs that a server dials, each at a port of its own."""
    listeners = [Listener() for _ in setting.conversations]
    remotes = "\n".join(
        _remote(f"u{number}", row, listener.port, folder)
        for number, (row, listener) in enumerate(zip(setting.conversations, listeners, strict=True))
    )
    port = free_port()
    leafnodes = f'listen: "127.0.0.1:{port}"\nreconnect: "50ms"\nremotes: [ {remotes} ]'
    server = _started(command, folder, _configuration(setting, folder, leafnodes))

    def one(number: int, row: Conversation) -> Outcome:
        listener = listeners[number]
        return _outcome(server, Stage(server, f"u{number}", {"LEAF": port, "PEER": listener.port}, listener), row)

    with server:
        return _all(setting, one, at_once=len(listeners))


def _all(setting: Setting, one: Callable[[int, Conversation], Outcome], at_once: int = AT_ONCE) -> dict[str, Outcome]:
    with ThreadPoolExecutor(1 if setting.in_turn else at_once) as pool:
        waited = [pool.submit(one, number, row) for number, row in enumerate(setting.conversations)]
        found = {row.name: future.result() for row, future in zip(setting.conversations, waited, strict=True)}
    for outcome in found.values():
        outcome.heard = [(who, line) for who, line in outcome.heard if not line.startswith(setting.own)]
    return found
