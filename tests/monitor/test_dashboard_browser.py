"""The dashboard in a real browser: it moves, it shows names as text, the keyboard reaches everything."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from tests.support.browser import CHROMIUM, Page, opened
from tests.support.http import monitor_port
from tests.support.process import ServerProcess, jetbroker

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (apt-get install chromium)")

MARKUP = "<img&lt;'x'onerror='alert(1)'"  # the worst that the name of a stream may be; subjects may close the tag
CONFIG = """
http: "127.0.0.1:-1"
server_name: "<b>broker</b>"
dashboard: true
accounts { A { jetstream: enabled, users: [ { user: alice, password: "s3cret" } ] } }
"""
PICTURES = os.environ.get("JETBROKER_PICTURES", "")  # a folder for the pictures in docs/


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "dashboard.conf"
    config.write_text(f'{CONFIG}\njetstream {{ store_dir: "{tmp_path}/store" }}')
    with jetbroker("-c", str(config)) as running:
        yield running


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with opened() as found:
        yield found


def figure(title: str) -> str:
    """JavaScript: a figure of the overview, as text."""
    return f"[...document.querySelectorAll('dt')].find((dt) => dt.textContent === {title!r}).nextSibling.textContent"


def row(table: str, name: str) -> str:
    """JavaScript: the row of a table that begins with this name."""
    rows = f"document.querySelectorAll('#{table} tbody tr')"
    return f"[...{rows}].find((row) => row.children[0].textContent === {json.dumps(name)})"


async def test_the_page_of_a_living_broker(server: ServerProcess, page: Page) -> None:
    port = monitor_port(server)
    client = await nats.connect(server.url, user="alice", password="s3cret", name="<i>watched</i>")
    js = client.jetstream()
    await js.add_stream(StreamConfig(name=MARKUP, subjects=["made.<img>", "made.<u>up</u>"]))
    await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await js.add_consumer("ORDERS", ConsumerConfig(durable_name="billing", filter_subject="orders.>"))
    await page.log_in_as("alice", "s3cret")
    await page.open(f"http://127.0.0.1:{port}/dashboard")

    await page.until("document.getElementById('status').textContent === 'Connected. No problems.'")
    await page.until(row("streams", MARKUP))
    assert await page.look("document.getElementById('name').textContent") == "<b>broker</b>"
    assert await page.look(figure("Stored messages")) == "0"

    for at in range(40):
        await js.publish("orders.eu", json.dumps({"order": at, "total": 12345678901234567890}).encode())
    await page.until(f"{figure('Stored messages')} === '40'")
    await page.until(f"{row('streams', 'ORDERS')}.children[4].textContent === '40'")
    await page.until(f"{row('consumers', 'billing')}.children[4].textContent === '40'")
    await page.until(f"parseInt({figure('Messages in')}.replace(/,/g, '')) >= 40")
    await page.until(row("connections", "1") + " || document.querySelector('#connections tbody tr')")
    assert "<i>watched</i>" in await page.look("document.querySelector('#connections tbody').textContent")
    assert await page.look("document.querySelectorAll('img, u, i, b').length") == 0

    await js.publish("orders.bytes", b"\xff\xfe\x00", headers={"Kind": "<s>raw</s>"})
    await page.look(f"{row('streams', 'ORDERS')}.querySelector('button').focus()")
    await page.press("Enter")
    await page.until("document.activeElement.id === 'messages-title'")
    assert await page.look("document.querySelector('#messages-rows th').textContent") == "41"
    await look_at_messages(page)
    await page.look("document.querySelector('#streams input').focus()")
    await page.type("<img")
    await page.until("document.querySelector('#streams .note').textContent === '1 to 1 of 1'")
    await keyboard_reaches_everything(page)
    await pause_and_go_on(page)
    if PICTURES:
        await pictures(page, Path(PICTURES))
    await client.close()
    assert page.complaints == []
    assert {url.split("/")[2] for url in page.asked} == {f"127.0.0.1:{port}"}


async def look_at_messages(page: Page) -> None:
    payload = "document.getElementById('message-payload').textContent"
    await page.look("document.querySelector('#messages-rows button').click()")
    await page.until(f"{payload}.startsWith('000000  ff fe 00')")
    assert await page.look("document.getElementById('message-headers').textContent.includes('<s>raw</s>')")
    assert await page.look("document.querySelector('input[value=json]').disabled")
    await page.look("document.querySelectorAll('#messages-rows button')[1].click()")
    await page.until(f"{payload}.includes('\"total\": 12345678901234567890')")  # no digit is rounded
    await page.look("document.querySelector('input[value=hex]').click()")
    await page.until(f"{payload}.startsWith('000000  7b 22 6f')")
    await page.look("document.getElementById('messages-older').click()")
    await page.until("document.querySelector('#messages-rows th').textContent === '21'")
    await page.until("!document.getElementById('messages-older').disabled")
    await page.look("document.getElementById('messages-older').click()")
    await page.until("document.getElementById('messages-older').disabled")


async def keyboard_reaches_everything(page: Page) -> None:
    """Tab goes through all that can be used, and each of them shows that it has the focus."""
    usable = "a[href], button:not(:disabled), input:not(:disabled), [tabindex='0']"
    # rows are others with each event: what is in them is looked at by the one that is there
    await page.look(
        f"""window.due = new Set([...document.querySelectorAll("{usable}")].filter((one) => one.checkVisibility()
            && !(one.type === 'radio' && !one.checked) && !one.closest('tbody')));
        window.unseen = [];
        document.addEventListener('focusin', (event) => {{
            window.due.delete(event.target);
            const style = getComputedStyle(event.target);
            if (event.target.matches(':focus-visible') && style.outlineStyle === 'none')
                window.unseen.push(event.target.outerHTML);
        }});
        document.activeElement.blur(); document.body.focus(); window.scrollTo(0, 0)"""
    )
    for _ in range(150):
        await page.press("Tab")
        if not await page.look("window.due.size"):
            break
    assert await page.look("[...window.due].map((one) => one.outerHTML)") == []
    assert await page.look("window.unseen") == []
    sortable = "document.querySelector('#streams th[data-sort=name]')"
    await page.look(f"{sortable}.querySelector('button').focus()")
    await page.press("Enter")
    await page.until(f"{sortable}.getAttribute('aria-sort') === 'ascending'")


async def pause_and_go_on(page: Page) -> None:
    await page.look("document.getElementById('pause').focus()")
    await page.press("Enter")
    await page.until("document.getElementById('status').textContent === 'Paused.'")
    await page.press("Enter")
    await page.until("document.getElementById('status').textContent === 'Connected. No problems.'")


async def pictures(page: Page, folder: Path) -> None:
    await page.look("document.querySelector('#streams input').value = ''")
    await page.look("document.querySelector('#streams input').dispatchEvent(new Event('input'))")
    await page.until("document.querySelector('#streams .note').textContent === '1 to 2 of 2'")
    await page.look("document.activeElement.blur(); window.scrollTo(0, 0)")
    for name, dark in (("light", False), ("dark", True)):
        await page.screenshot(folder / f"dashboard-{name}.png", width=1100, height=900, dark=dark)
