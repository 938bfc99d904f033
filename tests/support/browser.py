"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

TIMEOUT_S = 40.0
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-port=0"
).split()
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Page]:
    """An empty page of a browser of its own."""
    if CHROMIUM is None:
        raise RuntimeError("there is no Chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        said = process.stderr
        assert said is not None
        reading = None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                url = await _address(said)
            reading = asyncio.create_task(_read_all(said))  # a full pipe would stop it
            async with connect(url, max_size=None, compression=None, proxy=None) as socket:
                page = Page(socket)
                try:
                    yield await page.attach()
                finally:
                    await page.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if reading is not None:
                await reading


async def _address(said: asyncio.StreamReader) -> str:
    lines = []
    while line := (await said.readline()).decode(errors="replace"):
        if line.startswith("DevTools listening on "):
            return line.split()[-1]
        lines.append(line)
    raise RuntimeError("Chromium ended:\n" + "".join(lines))


async def _read_all(said: asyncio.StreamReader) -> None:
    while await said.read(65536):
        pass


class Page:
    """One page. `complaints`: errors and warnings of its console, and what its security policy forbade."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._session = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._credentials: tuple[str, str] | None = None
        self.complaints: list[str] = []
        self.asked: list[str] = []  # URLs

    async def attach(self) -> Self:
        """Take hold of the page."""
        self._go(self._read())
        targets = await self.send("Target.getTargets")
        page = next(target for target in targets["targetInfos"] if target["type"] == "page")
        attached = await self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        return self

    async def close(self) -> None:
        """Let go of it."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, method: str, **params: Any) -> Any:
        """A command; returns its result. Raises RuntimeError with the browser's words."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        command: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        await self._socket.send(json.dumps(command))
        async with asyncio.timeout(TIMEOUT_S):
            found = await answer
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        return found["result"]

    async def log_in_as(self, user: str, password: str) -> None:
        """What is typed when the browser asks for a name and a password."""
        self._credentials = (user, password)
        await self.send("Fetch.enable", handleAuthRequests=True)

    async def open(self, url: str) -> None:
        """Go there."""
        found = await self.send("Page.navigate", url=url)
        assert "errorText" not in found, found

    async def look(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        found = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    if await self.look(_WAIT % condition):
                        return
                except (RuntimeError, AssertionError) as error:  # another page has come meanwhile
                    if "context" not in str(error).lower() and "navigated" not in str(error).lower():
                        raise

    async def press(self, key: str, *, shift: bool = False) -> None:
        """A key, as if somebody pressed it."""
        params = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **params, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    async def type(self, text: str) -> None:
        """Text into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def screenshot(self, path: Path, *, width: int, height: int, dark: bool) -> None:
        """A picture of the top of the page, in its light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        found = await self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    # --- what comes ---

    def _go(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message)
            if "id" in found:
                answer = self._answers.pop(found["id"])
                if not answer.done():
                    answer.set_result(found)
            else:
                self._event(found["method"], found["params"])

    def _event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Fetch.requestPaused":
            self._go(self.send("Fetch.continueRequest", requestId=params["requestId"]))
        elif method == "Fetch.authRequired":
            self._go(self._log_in(params["requestId"]))

    async def _log_in(self, request: str) -> None:
        user, password = self._credentials or ("", "")
        answer = {"response": "ProvideCredentials", "username": user, "password": password}
        await self.send("Fetch.continueWithAuth", requestId=request, authChallengeResponse=answer)


_WAIT = """new Promise((done) => {
  const end = performance.now() + 2000;
  const look = () => {
    let found = false;
    try { found = Boolean(%s); } catch {}
    if (found || performance.now() > end) done(found); else setTimeout(look, 15);
  };
  look();
})"""
