"""Plays steps to a broker in a process of its own, and judges what it does."""

from __future__ import annotations

import dataclasses
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from fuzz.meaning import bystander, configuration, extremes
from fuzz.meaning.kept import Kept
from fuzz.meaning.steps import ANSWERED, CHECK, HTTP, KILL, RELOAD, SEND, START, STOP, Step
from fuzz.meaning.wire import Connection
from jetbroker.config.loader import load_text
from jetbroker.errors import ConfigError
from jetbroker.jetstream.models.errors import ERRORS
from jetbroker.testing.server import Server, ServerError

USERS = ("A", "B", "P", "W", "SYS")
ANSWER_SECONDS = 20.0
RELOAD_SECONDS = 20.0
END_SECONDS = 2.0
REST_SECONDS = (0.05, 0.5, 2.0)  # looked at one after the other while it computes
BUSY = 0.7  # of the time
WITNESS = "WITNESS"
MEMORY_BYTES = 1 << 30
_MEMORY = Path("/dev/shm")
_CODES = {err_code for _, err_code, _ in ERRORS.values()}
_WRONG_LINES = re.compile(r"\[ERR\]|\[FTL\]|Traceback|Error in |Exception|Fatal Python|\[WRN\].*offline| is offline")
_EXPECTED_LINES = re.compile(
    r"maximum control line|maximum payload|[Aa]uthorization|[Aa]uthentication|Failed to reload|Parser|Stale"
    r"|Slow Consumer|(Permissions?|Publish|Subscription) Violation|Invalid Publish Subject|no longer authorized"
    r"|maximum (account active )?(connections|subscriptions)"
    r"|broker\.conf:\d+:\d+: |Message Headers|Protocol Violation|Account .*(expired|deleted|changed)|Failed TLS"
    r"|Error trying to connect as leafnode|resource limits exceeded for server"
    r"|won't be able to trace events|Message tracing disabled"
)
_NUMBERS = re.compile(r"\d+")
_PREFIX = re.compile(r"^\[\d+\] \S+ \S+ ")


@dataclasses.dataclass
class Finding:
    """What was wrong. Two findings with the same `what` are one. `over`: the broker can not be played with any more."""

    what: str
    detail: str = ""
    over: bool = True


class Wrong(Exception):
    """A step showed something wrong."""

    def __init__(self, what: str, detail: object = "", *, over: bool = True) -> None:
        super().__init__(what)
        self.finding = Finding(what, str(detail), over)


class Player:
    """A broker on a store of its own, with clients; a context manager."""

    def __init__(self, *, strict_ping_ms: float = 0.0) -> None:
        self.strict_ping_ms = strict_ping_ms
        self.worst_ms = 0.0  # the smaller of what a ping waited and what the broker computed meanwhile
        self.worst_step = ""
        self.longest_ms = 0.0  # a ping waited, whoever had the processor
        self.worst_start_seconds = 0.0
        self.largest_bytes = 0
        self.starts = 0
        self.played = 0
        self.folder = Path(tempfile.mkdtemp(prefix="meaning-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.config = self.folder / "broker.conf"
        self.connections: dict[str, Connection] = {}
        self.acknowledged = 0  # messages of the witness
        self.kept = Kept()
        self._inboxes = 0
        self._bystander: subprocess.Popen[str] | None = None
        self._lines_seen = 0
        self._monitor = 0
        self._disturbed = False  # another configuration is in force
        command = ["env", "-C", str(self.folder), sys.executable, "-m", "jetbroker"]
        self.server = Server(
            "-c", str(self.config), jetstream=True, store_dir=str(self.folder / "store"), command=command
        )

    def __enter__(self) -> Player:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop everything and remove the store."""
        self._leave()
        self.server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the broker ---

    def start(self, text: bytes = b"") -> None:
        """Start it on what is in the store. Raises Wrong when it does not get ready, or has forgotten something."""
        self.config.write_bytes(text or configuration.written(configuration.good()).encode())
        began = time.monotonic()
        try:
            self.server.start()
        except ServerError as error:
            if not text or "Traceback" in str(error):
                raise Wrong("does not start", error) from None
            return  # it refused the configuration, and said so
        self.starts += 1
        self.worst_start_seconds = max(self.worst_start_seconds, time.monotonic() - began)
        self._lines_seen = 0
        self._disturbed = bool(text)
        self._monitor = self._monitor_port()
        if not text:
            self._join()
            self._remembered()

    def _monitor_port(self) -> int:
        found = [line for line in self.server.log if "monitor" in line]
        return int(re.findall(r":(\d+)", found[-1])[-1]) if found else 0

    def _join(self) -> None:
        for user in USERS:
            self.connections[user] = Connection(self.server.port, user, configuration.PASSWORD)
        self._wait(())
        program = [sys.executable, "-I", "-S", str(Path(bystander.__file__))]
        arguments = [str(self.server.port), str(self.server.pid), "W", configuration.PASSWORD]
        self._bystander = subprocess.Popen(
            [*program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not self.acknowledged:
            config = {"name": WITNESS, "subjects": ["witness"], "deny_delete": True, "deny_purge": True}
            answer = self.ask("W", f"$JS.API.STREAM.CREATE.{WITNESS}", config)
            if "error" in answer:
                raise Wrong("no witness", answer)

    def _leave(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections = {}
        if self._bystander is not None:
            self._bystander.kill()
            self._bystander.communicate()
            self._bystander = None

    def _remembered(self) -> None:
        """All that was acknowledged is there after a start."""
        if not self.acknowledged:
            return
        state = self.ask("W", f"$JS.API.STREAM.INFO.{WITNESS}").get("state", {})
        if state.get("messages", 0) < self.acknowledged or state["last_seq"] != state["messages"]:
            raise Wrong("acknowledged messages are gone", f"{self.acknowledged} acknowledged, {state}")
        for account, known in self.kept.streams.items():
            answer = self.ask(account, "$JS.API.STREAM.LIST")
            names = {entry["config"]["name"] for entry in answer.get("streams") or []}
            if answer.get("offline"):
                raise Wrong("a stream is offline", answer["offline"])
            if not set(known) <= names:
                raise Wrong("streams are gone", f"{account}: {set(known) - names}")
            for stream, consumers in known.items():
                names = set(self.ask(account, f"$JS.API.CONSUMER.NAMES.{stream}").get("consumers") or ())
                if not consumers <= names:
                    raise Wrong("consumers are gone", f"{account} > {stream}: {consumers - names}")

    def _rests(self) -> None:
        """With nothing asked of it, the broker has little to do."""
        for seconds in REST_SECONDS:
            used = bystander.processor_ns(self.server.pid)
            time.sleep(seconds)
            if bystander.processor_ns(self.server.pid) - used < BUSY * seconds * 1e9:
                return
        raise Wrong("computes for nobody", "\n".join(self.server.log[-30:]))

    def _stop(self, how: str) -> None:
        if self.connections and not self._disturbed:
            self._rests()
        self._leave()
        try:
            code = self.server.stop() if how == STOP else self.server.kill()
        except ServerError as error:
            raise Wrong("does not end", error) from None
        self._look_at_log()
        if how == STOP and code not in (0, -signal.SIGTERM, 1):
            raise Wrong(f"ended with {code}", "\n".join(self.server.log[-30:]))

    def _reload(self, text: bytes) -> None:
        self.config.write_bytes(text or configuration.written(configuration.good()).encode())
        before = len(self.server.log)
        self.server.send(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_SECONDS
        while not any("eload" in line and "server configuration" in line for line in self.server.log[before:]):
            self._alive()
            if time.monotonic() > deadline:
                raise Wrong("a reload has no end", text.decode("utf-8", "replace"))
            time.sleep(0.002)
        self._disturbed = bool(text)
        if not text:
            said = " ".join(self.server.log[before:])
            if "decreasing jetstream max" in said:  # as in nats-server: what has grown shrinks with a start only
                self._stop(STOP)
                self.start()
                return
            if "Failed" in said:
                raise Wrong("the way back is refused", "\n".join(self.server.log[before:]))
            for connection in self.connections.values():
                connection.ping()  # whoever may not stay is told by now
            self._wait(())
            self._reconnect()

    def _reconnect(self) -> None:
        for user, connection in self.connections.items():
            if connection.closed:
                connection.close()
                self.connections[user] = Connection(self.server.port, user, configuration.PASSWORD)

    # --- steps ---

    def play(self, steps: Sequence[Step]) -> None:
        """Play some steps at once. Raises Wrong."""
        together: list[Step] = []
        for step in steps:
            if step.what == SEND:
                together.append(step)
                continue
            self._send(together)
            together = []
            self._one(step)
        self._send(together)
        self.played += len(steps)
        self._look_at_log()
        self._look_at_pings(steps)
        self._look_at_memory()

    def _one(self, step: Step) -> None:
        if self.server.running == (step.what == START) and step.what not in (CHECK, HTTP):
            return  # steps of a finding may have been left out
        if step.what == CHECK:
            check(step.body)
        elif step.what == HTTP:
            self._get(step.subject)
        elif step.what == RELOAD:
            self._reload(step.body)
        elif step.what == START:
            self.start(step.body)
        elif step.what in (STOP, KILL):
            self._stop(step.what)

    def _send(self, steps: Sequence[Step]) -> None:
        if not steps or not self.connections:
            return
        waiting: list[tuple[Step, Connection, int]] = []
        out: dict[str, list[bytes]] = {}
        for step in steps:
            self._inboxes += 1
            connection = self.connections[step.who]
            body, headers = extremes.clock(step.body), extremes.clock(step.headers)
            out.setdefault(step.who, []).append(connection.publish(step.subject, self._inboxes, headers, body))
            waiting.append((step, connection, self._inboxes))
        witness = self.connections["W"]
        self._inboxes += 1
        last = self._inboxes
        out["W"] = [witness.publish("witness", last, b"", b"w")]
        for who, parts in out.items():
            self.connections[who].send(b"".join(parts))
            self.connections[who].ping()
        needed = [(connection, inbox) for step, connection, inbox in waiting if step.wants == ANSWERED]
        self._wait(needed if self._disturbed else [*needed, (witness, last)], steps)
        if not self._disturbed:
            self._judge_witness(witness.answers.get(last))
        for step, connection, inbox in waiting:
            self._judge(step, connection.answers.get(inbox))
        self.kept.forget_unclear(
            [(step, not self._disturbed and inbox in connection.answers) for step, connection, inbox in waiting]
        )
        for connection in self.connections.values():
            connection.answers.clear()
        if not self._disturbed:
            self._reconnect()

    def _wait(self, needed: Sequence[tuple[Connection, int]], steps: Sequence[Step] = ()) -> None:
        """Until all connections have been read by the broker, and what is needed has come."""
        deadline = time.monotonic() + ANSWER_SECONDS
        missing = list(needed)
        while True:
            missing = [(one, inbox) for one, inbox in missing if inbox not in one.answers and not one.closed]
            open_ones = {one.socket: one for one in self.connections.values() if not one.closed}
            if self._disturbed:
                missing = []
            if not missing and all(one.idle for one in open_ones.values()):
                return
            with selectors.DefaultSelector() as selector:
                for one, connection in open_ones.items():
                    selector.register(one, selectors.EVENT_READ, connection)
                for ready, _ in selector.select(0.5) if open_ones else ():
                    ready.data.read()
            self._alive()
            if time.monotonic() > deadline:
                first = self._inboxes - len(steps)
                asked = [steps[inbox - first] for _, inbox in missing if 0 <= inbox - first < len(steps)]
                subjects = [f"{step.subject} {step.body[:300]!r}" for step in asked]
                frozen = not asked or not self.connections["W"].idle
                what = "frozen" if frozen else f"no answer to {endpoint_of(asked[0].subject)}"
                raise Wrong(what, "\n".join([*subjects, *map(repr, steps)]))

    def _alive(self, seconds: float = 0.0) -> None:
        """It has not ended, nor does it within so long, which is for one whose connections are gone."""
        code = self.server.ended(seconds) if self.server.running else None
        if code is not None:
            log = self.server.log[-60:]
            self.server.kill()
            raise Wrong(f"ended with {code}: {last_error(log)}", "\n".join(log))

    def ask(self, who: str, subject: str, body: object = None) -> dict[str, Any]:
        """One request of the API, answered."""
        self._inboxes += 1
        connection = self.connections[who]
        data = b"" if body is None else orjson.dumps(body)
        connection.send(connection.publish(subject, self._inboxes, b"", data))
        connection.ping()
        self._wait([(connection, self._inboxes)])
        found = connection.answers.pop(self._inboxes, None)
        if found is None:
            raise Wrong(f"no answer to {endpoint_of(subject)}", connection.errors[-3:])
        answer: dict[str, Any] = orjson.loads(found[1])
        return answer

    def _get(self, target: str) -> None:
        if not self._monitor or not self.server.running:
            return
        request = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode("utf-8", "surrogatepass")
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", self._monitor), timeout=ANSWER_SECONDS) as connection:
                connection.sendall(request)
                while data := connection.recv(1 << 16):
                    answer += data
        except OSError as error:
            self._alive()
            raise Wrong("monitoring does not answer", f"{target}: {error}") from None
        if not answer.startswith(b"HTTP/1.1 ") or answer.startswith(b"HTTP/1.1 500"):
            raise Wrong(f"monitoring answers {answer[:30]!r}", target)

    # --- judging ---

    def _judge(self, step: Step, found: tuple[bytes, bytes] | None) -> None:
        if found is None or step.wants != ANSWERED:
            if found is not None and b"internal error" in found[1]:
                raise Wrong(f"internal error of {endpoint_of(step.subject)}", f"{step}\n{found[1]!r}", over=False)
            return
        headers, body = found
        if headers:
            return  # a status: nobody is there, or it is not allowed
        try:
            answer = orjson.loads(body)
        except ValueError:
            raise Wrong(f"no JSON from {endpoint_of(step.subject)}", f"{step}\n{body[:500]!r}") from None
        error = answer.get("error") if isinstance(answer, dict) else None
        if error is not None:
            known = error.get("err_code") in _CODES or error.get("code") == 503
            if not known or "internal error" in error.get("description", ""):
                raise Wrong(f"error of {endpoint_of(step.subject)}: {error.get('description')}", step, over=False)
        else:
            self.kept.answered(step, answer)

    def _judge_witness(self, found: tuple[bytes, bytes] | None) -> None:
        if found is None or b'"seq"' not in found[1]:
            self._alive(END_SECONDS)
            raise Wrong("the witness is not acknowledged", found)
        self.acknowledged += 1

    def _look_at_log(self) -> None:
        lines = self.server.log[self._lines_seen :]
        self._lines_seen += len(lines)
        refused = False  # of a configuration that is refused, the lines that follow tell why
        for number, line in enumerate(lines):
            refused = "Failed to reload" in line or (refused and "[ERR]" in line)
            if not refused and _WRONG_LINES.search(line) and not _EXPECTED_LINES.search(line):
                shown = "\n".join(lines[max(0, number - 3) : number + 40])
                raise Wrong(f"log: {last_error(lines[number:])}", shown, over=False)

    def _look_at_pings(self, steps: Sequence[Step]) -> None:
        watcher = self._bystander
        if watcher is None or watcher.stdin is None or watcher.stdout is None:
            return
        watcher.stdin.write("\n")
        watcher.stdin.flush()
        waited, computed, longest = (int(word) / 1e6 for word in watcher.stdout.readline().split())
        self.longest_ms = max(self.longest_ms, longest)
        own = min(waited, computed)
        if own > self.worst_ms:
            self.worst_ms = own
            self.worst_step = " | ".join(f"{step.what} {step.subject[:80]}" for step in steps[:60])
        if self.strict_ping_ms and own > self.strict_ping_ms:
            raise Wrong(
                "a bystander waited",
                f"{waited:.1f} ms, {computed:.1f} ms of them computing\n{describe(steps)}",
                over=False,
            )

    def _look_at_memory(self) -> None:
        if not self.server.running:
            return
        try:
            pages = int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1])
        except OSError:
            return self._alive()
        size = pages * os.sysconf("SC_PAGE_SIZE")
        self.largest_bytes = max(self.largest_bytes, size)
        if size > MEMORY_BYTES:
            raise Wrong("too much memory", f"{size >> 20} MiB")


def check(text: bytes) -> None:
    """A configuration is read, or refused. Raises Wrong."""
    try:
        load_text(text.decode("utf-8", "surrogateescape"), "file.conf", {})
    except ConfigError:
        return
    except Exception as error:  # whatever it is, it is the finding
        raise Wrong(f"configuration: {type(error).__name__}", f"{error}\n{text!r}") from error


def endpoint_of(subject: str) -> str:
    """The subject without names, so that the same fault is one finding."""
    tokens = [token for token in subject.split(".") if token.isupper() and token.isalpha()]
    return ".".join(tokens)[:60] or subject.split(".")[0]


def describe(steps: Sequence[Step]) -> str:
    """The steps, a line each."""
    return "\n".join(repr(step)[:2000] for step in steps)


def last_error(lines: Sequence[str]) -> str:
    """The exception and the place of a traceback among lines of a log, or the first wrong line."""
    first = next((line for line in lines if _WRONG_LINES.search(line)), lines[-1] if lines else "nothing was said")
    spread = [part for line in lines[:80] for part in line.split("\\n")]
    lines = [_PREFIX.sub("", line).removeprefix("[ERR] ") for line in spread]
    places = [line.strip().split(", in ")[0][-60:] for line in lines if line.lstrip().startswith("File ")]
    raised = [line for line in lines if re.match(r"^[\w.]+(Error|Exception|Interrupt)\b", line)]
    if raised:
        return _NUMBERS.sub("0", raised[0][:120]) + (f" at {places[-1]}" if places else "")
    return _NUMBERS.sub("0", _PREFIX.sub("", first)[:160])
