"""A broker in this process, on a loop and in a thread of its own.

async with embedded() as broker:                     # on asyncio's loop or on uvloop
    client = await nats.connect(broker.url)

with embedded(config="authorization { token: s3cret }") as broker:     # without any loop
    ...
"""

import asyncio
import os
import warnings
import weakref
from collections import deque
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Final

from jetbroker.accounts.account import graph_of
from jetbroker.config import start
from jetbroker.daemon.broker import Broker
from jetbroker.errors import JetbrokerError
from jetbroker.jetstream.server import load_engine
from jetbroker.logs.logger import Logger
from jetbroker.monitor.loading import load as load_monitoring
from jetbroker.testing.host import Host, tenants
from jetbroker.testing.places import HOST, Folder, Port, ServerError, check_process

_LOG_LINES: Final = 10_000

# What a broker loads once its configuration asks for it, or in a thread behind its start. Who imports this waits for
# all of it here, and for none of it in a start; and a fork during a start would leave the import locked.
_LATER: Final = (
    "encodings.idna",  # listening on a name
    "jetbroker.accounts.client_info",
    "jetbroker.accounts.graph",
    "jetbroker.accounts.services",
    "jetbroker.accounts.sharing",
    "jetbroker.config.accounts",
    "jetbroker.config.leafnodes",
    "jetbroker.config.loader",
    "jetbroker.config.operator",
    "jetbroker.config.websocket",
    "jetbroker.connections.tls",
    "jetbroker.connections.tls_layer",
    "jetbroker.connections.websocket",
    "jetbroker.jetstream.host.advisories",
    "jetbroker.leafnodes.server",
    "jetbroker.monitor.monitor",
)
load_engine()
load_monitoring()
for _name in _LATER:
    import_module(_name)


def embedded(
    *,
    config: str | os.PathLike[str] = "",
    jetstream: bool = True,
    store_dir: str | os.PathLike[str] = "",
    port: int = 0,
    timeout: float = 30.0,
) -> "EmbeddedBroker":
    """A broker in this process, for `async with` or `with`.

    `config` is a configuration: a `str` is the text itself, a `Path` names a file; logins, accounts, TLS and the rest
    come from it. The other arguments go before what it says. With `jetstream`, streams go to a temporary folder, or
    to `store_dir`. `port` 0 takes a free one of 127.0.0.1. A start or an end may take `timeout` seconds.
    Raises :class:`ServerError` when the port is taken.
    """
    return EmbeddedBroker(config=config, jetstream=jetstream, store_dir=store_dir, port=port, timeout=timeout)


class EmbeddedBroker:
    """One broker in this process; see :func:`embedded`.

    Its methods are plain calls, in async code too: they take a few milliseconds, and the broker does not need the
    caller's loop. The port stays the same until :meth:`close`, whatever is started and ended.
    """

    def __init__(
        self,
        *,
        config: str | os.PathLike[str],
        jetstream: bool,
        store_dir: str | os.PathLike[str],
        port: int,
        timeout: float,
    ) -> None:
        self.timeout = timeout
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self._jetstream = jetstream
        self._pid = os.getpid()
        self._host: Host | None = None
        self._tenant = object()
        self._broker: Broker | None = None
        self._urls: dict[str, str] = {}
        self._folder: Folder | None = Folder(config, store_dir)
        self._port = Port(port)
        self._scheme = "nats"

    @property
    def port(self) -> int:
        """Where clients connect, whether or not it runs."""
        return self._port.number

    @property
    def url(self) -> str:
        """What clients connect to: `nats://127.0.0.1:PORT`, `tls://` when the configuration says so."""
        return f"{self._scheme}://{HOST}:{self.port}"

    @property
    def urls(self) -> dict[str, str]:
        """Each listener that is open, by kind: `nats`, and as configured `websocket` and `monitoring`."""
        return dict(self._urls)

    @property
    def running(self) -> bool:
        """Was it started, and not ended since?"""
        return self._broker is not None

    @property
    def store_dir(self) -> Path:
        """The folder of the streams."""
        return Path(self._opened().store_dir)

    def start(self) -> "EmbeddedBroker":
        """Start, and return when it accepts clients; again after :meth:`stop` or :meth:`kill`, with the same streams.

        Raises :class:`ServerError` with the reason when it does not start, or runs already.
        """
        self._check_process()
        if self._broker is not None:
            raise ServerError(f"the broker at {self.url} runs already")
        log = _MemoryLog(self.log)
        host = self._host = tenants.enter(self._tenant, weakref.WeakMethod(self._leave))
        try:
            self._broker = host.call(self._started(log), self.timeout, "the start of the broker")
        except BaseException as error:
            tenants.leave(self._tenant)
            if isinstance(error, JetbrokerError | OSError) and not isinstance(error, ServerError):
                raise ServerError(f"the broker did not start: {error}") from None
            raise
        return self

    def stop(self) -> None:
        """End it as SIGTERM does. Harmless when it does not run; :meth:`start` brings it back."""
        self._end(cut_off=False)

    def kill(self) -> None:
        """Cut its connections and end it; :meth:`start` brings it back.

        Streams are as they were: what kill -9 does to them, :class:`~jetbroker.testing.Server` shows.
        """
        self._end(cut_off=True)

    def reset(self) -> None:
        """All streams, consumers and connections are gone; the port is the same, and clients may connect again.

        Raises :class:`ServerError` when `store_dir` was given: what is in there is not removed.
        """
        folder = self._opened()
        folder.check_reset()
        self._end(cut_off=True)
        folder.empty_store()
        self.start()

    def close(self) -> None:
        """End it, and give the port and the temporary folder back. Harmless the second time, and in a fork."""
        if os.getpid() == self._pid:
            self._end(cut_off=False)
            self._leave()

    def _leave(self) -> None:
        self._broker = None
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()
        self._port.close()

    async def _started(self, log: Logger) -> Broker:
        folder = self._opened()
        flags: list[tuple[str, str | int | float | bool]] = [("host", HOST), ("port", self.port)]
        if self._jetstream:
            flags += [("jetstream.enabled", True), ("jetstream.store_dir", folder.store_dir)]
        loaded = start.load(folder.config_file, flags)
        options = loaded.options
        log.debug_enabled, log.trace_enabled = options.debug, options.trace
        for notice in loaded.notices:
            log.warn(notice)
        broker = Broker(options, graph_of(options), log)
        try:
            await broker.start()
        except BaseException:
            await _ended(broker, cut_off=False)
            raise
        self._scheme = "nats" if options.tls is None else "tls"
        self._urls = {kind: addresses[0] for kind, addresses in broker.urls().items()}
        return broker

    def _end(self, *, cut_off: bool) -> None:
        self._check_process()
        broker, self._broker = self._broker, None
        if broker is None or self._host is None:
            return
        try:
            self._host.call(_ended(broker, cut_off), self.timeout, "the end of the broker")
        finally:
            self._urls = {}
            tenants.leave(self._tenant)

    def _opened(self) -> Folder:
        if self._folder is None:
            raise ServerError("the broker was closed: make another one")
        return self._folder

    def _check_process(self) -> None:
        check_process(self.url, self._pid)

    def __enter__(self) -> "EmbeddedBroker":
        return self._entered()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "EmbeddedBroker":
        return self._entered()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)  # clients on the caller's loop take their last messages meanwhile

    def __del__(self) -> None:
        broker, folder = getattr(self, "_broker", None), getattr(self, "_folder", None)
        if broker is None or folder is None or self._host is None or os.getpid() != self._pid:
            return
        warnings.warn(f"the broker at {self.url} was never closed", ResourceWarning, source=self, stacklevel=1)
        # in whatever thread this runs, the broker's own among them: nobody can wait here
        self._host.begin(_given_up(broker, folder, self._port))

    def _entered(self) -> "EmbeddedBroker":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise


async def _ended(broker: Broker, cut_off: bool) -> None:
    if cut_off:
        for client in list(broker.clients.connected.values()):
            client.transport.abort()
    await broker.stop()
    broker.release()


async def _given_up(broker: Broker, folder: Folder, port: Port) -> None:
    await _ended(broker, cut_off=True)
    folder.close()
    port.close()


class _MemoryLog(Logger):
    """Lines for whoever asks; a configuration's `log_file` is left alone."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def _write(self, level: str, text: str) -> None:
        self._lines.append(f"[{level}] {text}")
