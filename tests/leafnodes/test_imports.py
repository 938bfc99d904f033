"""Links of an account that imports streams and services from another one."""

import asyncio
from collections import Counter

import pytest

from fuzz.links import RecordingLink, RecordingReceiver, publish, publish_from_link, send
from jetbroker.accounts.graph import Export, ServiceImport, StreamImport
from jetbroker.accounts.services import ServiceReceiver
from jetbroker.accounts.sharing import Imports
from jetbroker.leafnodes.interest import Ledger, LinkView
from jetbroker.routing.router import Router
from jetbroker.routing.transform import Transform
from jetbroker.tick import Tick

INBOX = b"_INBOX.feed.>"
RENAMED = Transform(b"feed.>", b"in.>", True)
STREAMS = (
    StreamImport("E", b"feed.>", b"in.>", b"in.>", RENAMED, RENAMED.reversed()),
    StreamImport("E", INBOX, INBOX, INBOX),
)


class Accounts:
    """E exports, I imports, and each has two links."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tick = Tick(self.loop)
        self.exporter = Router("E", self.tick)
        self.importer = Router("I", self.tick)
        self.imports = Imports(self.importer)
        self.importer.imports = self.imports
        self.imports.set_streams([(stream, self.exporter) for stream in STREAMS])
        self.links = [RecordingLink() for _ in range(2)]
        self.exporters_links = [RecordingLink() for _ in range(2)]


@pytest.fixture
def accounts():
    accounts = Accounts()
    yield accounts
    accounts.loop.close()


@pytest.mark.parametrize(
    ("subscribed", "published", "shown"),
    [
        ((b"in.a", b"in.*", b"in.>", b">"), b"feed.a", b"in.a"),
        ((b"_INBOX.feed.a", b"_INBOX.feed.*"), b"_INBOX.feed.a", b"_INBOX.feed.a"),
        ((b"_INBOX.feed.*", b"_INBOX.feed.>"), b"_INBOX.feed.a", b"_INBOX.feed.a"),
    ],
)
def test_a_link_gets_an_imported_message_once(accounts, subscribed, published, shown):
    link = accounts.links[0]
    subs = [accounts.importer.subscribe(link, subject) for subject in subscribed]
    assert publish(accounts.exporter, None, published) == 1
    assert publish_from_link(accounts.exporter, accounts.exporters_links[0], None, published) == 1
    assert link.sent == [(shown, None, None)] * 2
    for sub in subs:
        accounts.importer.unsubscribe(sub)
    assert publish(accounts.exporter, None, published) == 0
    assert len(link.sent) == 2


def test_a_consumers_delivery_is_sent_where_the_import_says_and_its_stored_subject_stays(accounts):
    accounts.importer.subscribe(accounts.links[0], b"in.a")
    assert send(accounts.exporter, b"feed.a", b"stored") == 1
    assert accounts.links[0].sent == [(b"in.a", b"stored", None)]


def test_queue_groups_of_the_importer_behind_links_get_an_imported_message(accounts):
    first, second = accounts.links
    accounts.importer.subscribe(first, b"in.a", b"q1")
    accounts.importer.subscribe(first, b"in.*", b"q2")
    accounts.importer.subscribe(first, b"in.>")
    accounts.importer.subscribe(second, b"in.>")
    assert publish(accounts.exporter, None, b"feed.a") == 2
    ((subject, _, queues),) = first.sent
    assert (subject, sorted(queues)) == (b"in.a", [b"q1", b"q2"])
    assert second.sent == [(b"in.a", None, None)]


def test_a_group_has_its_members_here_before_those_behind_the_importers_links(accounts):
    here = RecordingReceiver()
    accounts.exporter.subscribe(here, b"feed.a", b"q")
    accounts.importer.subscribe(accounts.links[0], b"in.a", b"q")
    assert publish(accounts.exporter, None, b"feed.a") == 1
    assert len(here.got) == 1
    assert not accounts.links[0].sent


def test_the_weight_of_an_importers_link_counts_in_the_exporter(accounts):
    first, second = accounts.links
    sub = accounts.importer.subscribe(first, b"in.a", b"q", b"", 3)
    accounts.importer.subscribe(second, b"in.a", b"q")
    for _ in range(2000):
        publish(accounts.exporter, None, b"feed.a")
    assert 1400 < len(first.sent) < 1600
    first.sent.clear()
    accounts.importer.weigh(sub, 1)
    for _ in range(2000):
        publish(accounts.exporter, None, b"feed.a")
    assert 900 < len(first.sent) < 1100


def test_links_of_the_exporter_are_told_of_the_importers_interest(accounts):
    class View(LinkView):
        def __init__(self, link):
            super().__init__(link)
            self.lines = []

        def hears(self, of_hubs, subject):
            return not of_hubs

        def write(self, lines):
            self.lines += lines.split(b"\r\n")[:-1]
            return 0

    accounts.links[1].is_spoke = True
    view = View(accounts.exporters_links[0])
    Ledger(accounts.exporter).add(view)
    sub = accounts.importer.subscribe(accounts.links[0], b"in.a", b"q", b"", 2)
    accounts.importer.subscribe(accounts.links[1], b"in.b")
    accounts.importer.subscribe(RecordingReceiver(), b"in.c")
    accounts.importer.weigh(sub, 5)
    accounts.importer.unsubscribe(sub)
    accounts.tick.run()
    assert Counter(view.lines) == Counter([b"LS+ feed.a q 2", b"LS+ feed.c", b"LS+ feed.a q 5", b"LS- feed.a q"])


def test_a_request_over_a_link_reaches_an_imported_service_and_its_answer_comes_back_once(accounts):
    link, other = accounts.links
    provider = Imports(accounts.exporter)
    export = Export("E", b"serve")
    rule = ServiceImport("E", b"ask", b"serve", export, transform=None, published=False, share=False)
    service = ServiceReceiver(rule, accounts.imports.responses, provider.responses, lambda *_: b"{}")
    accounts.importer.subscribe(service, b"ask")
    server = accounts.exporters_links[0]
    accounts.exporter.subscribe(server, b"serve", b"workers")
    for subject in (b"_INBOX.x.1", b"_INBOX.x.*", b"_INBOX.>"):
        accounts.importer.subscribe(link, subject)
    accounts.importer.subscribe(other, b"ask")
    assert publish_from_link(accounts.importer, link, None, b"ask", b"_INBOX.x.1") == 2
    assert other.sent == [(b"ask", None, None)]
    assert server.sent == [(b"serve", None, [b"workers"])], "requests go to groups, whatever the link has named"
    assert publish_from_link(accounts.exporter, server, None, server.replies[0]) == 1
    assert link.sent == [(b"_INBOX.x.1", None, None)]
