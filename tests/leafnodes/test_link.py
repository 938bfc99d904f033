"""Two servers with a link between them: interest, messages, permissions, and what happens when one is slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jetbroker.auth.permissions import Permissions
from jetbroker.config.options import PermissionsOptions, ResponsePermissions, SubjectPermissions
from jetbroker.connections.halves import Shared
from jetbroker.errors import ProtocolError
from jetbroker.leafnodes.events import LinkEvents
from jetbroker.leafnodes.interest import Ledger
from jetbroker.leafnodes.link import Link
from jetbroker.leafnodes.rules import Domains, Rules, of_accepted
from jetbroker.tracing.trace import MessageTrace
from tests.support.inprocess import FakeClient, FakeTransport, World

BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"
ACK = b"$JS.ACK.S.C.1.1.1.1.0"
OPEN = Rules(None, None)


class LinkServer(LinkEvents):
    """Keeps what it is told."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.told: list[tuple[Any, ...]] = []

    def link_opened(self, link: Link) -> None:
        self.told.append(("opened",))

    def link_lost(self, link: Link, error: Exception | None) -> None:
        self.told.append(("lost", link.close_reason))

    def link_keeps(self, link: Link, size: int) -> None:
        self.told.append(("keeps", size))

    def link_connect(self, link: Link, raw: bytes) -> None:
        self.told.append(("connect", raw))

    def link_info(self, link: Link, raw: bytes) -> None:
        self.told.append(("info", raw))

    def link_error(self, link: Link, text: bytes) -> None:
        self.told.append(("error", text))

    def link_failed(self, link: Link, error: ProtocolError) -> None:
        self.told.append(("failed", error.detail))
        link.close(error.reason, error.text)

    def link_stalled(self, link: Link) -> None:
        self.told.append(("stalled",))

    def is_own_mark(self, link: Link, subject: bytes) -> bool:
        return subject == self.mark

    def link_looped(self, link: Link) -> None:
        self.told.append(("looped",))

    def link_violation(self, link: Link, what: str, subject: bytes) -> None:
        self.told.append(("violation", what, subject))
        link.close("Protocol Violation", f"Permissions Violation for {what} to {subject.decode()!r}")

    def link_wrong(self, link: Link) -> None:
        self.told.append(("wrong",))

    def link_reaches(self, link: Link) -> None:
        self.told.append(("reaches",))

    def link_traced(self, link: Link, trace: MessageTrace) -> None:
        self.told.append(("traced",))

    def link_fault(self, link: Link, fault: str) -> None:
        self.told.append(("fault", fault))

    def link_at_limit(self, link: Link) -> None:
        self.told.append(("limit",))


class SlowTransport(FakeTransport):
    """Takes nothing while it is full."""

    full = False

    def get_write_buffer_size(self) -> int:
        return 1 if self.full else 0


class End:
    """One server's end of a link, with clients of its own."""

    def __init__(self, name: str, *, spoke: bool, rules: Rules = OPEN, max_subscriptions: int = 0) -> None:
        self.world = World()
        self.spoke = spoke
        self.rules = rules
        self.name = name
        self.server = LinkServer(b"$LDS." + name.encode())
        self.shared = Shared(self.world.tick, self.server, self.world.shared.turn)
        self.shared.max_subscriptions = max_subscriptions
        self.ledger = Ledger(self.world.router)
        self.ledger.add_static(self.server.mark)
        self.link, self.transport = self.connect()

    def connect(self, cluster: str = "", isolated: bool = False) -> tuple[Link, SlowTransport]:
        """One more link."""
        link, transport = Link(self.shared, 1), SlowTransport()
        link.remote = SimpleNamespace(cluster=cluster, isolated=isolated)
        link.connection_made(transport)
        return link, transport

    def begin(self) -> None:
        self.link.begin(self.world.router, self.ledger, self.rules, self.spoke)

    def client(self) -> FakeClient:
        return self.world.client()

    def hear(self, data: bytes, link: Link | None = None) -> bytes:
        """What the other side says; returns what is said over the link then."""
        hearer = link or self.link
        while data and not hearer.closed:
            buffer = hearer.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            hearer.buffer_updated(size)
            data = data[size:]
            self.world.loop.run()
        return self.said()

    def said(self) -> bytes:
        self.world.loop.run()
        sent = bytes(self.transport.sent)
        self.transport.sent.clear()
        return sent


class Pair:
    """A hub and a spoke."""

    def __init__(self, hub_rules: Rules = OPEN, spoke_rules: Rules = OPEN) -> None:
        self.hub = End("hub", spoke=False, rules=hub_rules)
        self.spoke = End("spoke", spoke=True, rules=spoke_rules)
        self.hub.begin()
        self.spoke.begin()
        self.settle()

    def settle(self) -> tuple[bytes, bytes]:
        """Until neither has anything to say; returns what the hub and the spoke have said."""
        said = [b"", b""]
        hub, spoke = self.hub.said(), self.spoke.said()
        while hub or spoke:
            said[0] += hub
            said[1] += spoke
            hub, spoke = self.hub.hear(spoke), self.spoke.hear(hub)
        return said[0], said[1]

    def say(self, client: FakeClient, data: bytes) -> bytes:
        got = client.say(data)
        self.settle()
        return got + client.heard()


def rules(
    publish: dict[str, list[str]] | None = None,
    subscribe: dict[str, list[str]] | None = None,
    accepts: dict[str, list[str]] | None = None,
    responses: bool = False,
) -> Rules:
    def listed(given: dict[str, list[str]] | None) -> SubjectPermissions | None:
        return None if given is None else SubjectPermissions(**given)

    link = Permissions(PermissionsOptions(publish=listed(publish), subscribe=listed(subscribe)))
    judge = None
    if accepts is not None:
        answers = ResponsePermissions() if responses else None
        judge = Permissions(PermissionsOptions(publish=listed(accepts), responses=answers))
    return Rules(link, judge)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.mark.parametrize("there", ["hub", "spoke"])
def test_a_message_goes_where_it_is_asked_for(pair: Pair, there: str) -> None:
    here = pair.spoke if there == "hub" else pair.hub
    listener, talker = getattr(pair, there).client(), here.client()
    assert pair.say(talker, b"PUB a.b 1\r\n-\r\n") == b""
    pair.say(listener, b"SUB a.* 7\r\n")
    pair.say(talker, b"PUB a.b r 2\r\nhi\r\nHPUB a.c 18 20\r\n%bho\r\n" % BLOCK)
    assert listener.heard() == b"MSG a.b 7 r 2\r\nhi\r\nHMSG a.c 7 18 20\r\n%bho\r\n" % BLOCK
    assert here.link.out_msgs == 2
    assert getattr(pair, there).link.in_msgs == 2
    pair.say(listener, b"UNSUB 7\r\n")
    pair.say(talker, b"PUB a.b 2\r\nhi\r\n")
    assert here.link.out_msgs == 2
    assert getattr(pair, there).link.in_bytes == here.link.out_bytes == 22


def test_requests_are_answered_across(pair: Pair) -> None:
    service, caller = pair.hub.client(), pair.spoke.client()
    pair.say(service, b"SUB help 1\r\n")
    pair.say(caller, b"SUB _INBOX.x.* 2\r\nPUB help _INBOX.x.1 1\r\n?\r\n")
    assert service.heard() == b"MSG help 1 _INBOX.x.1 1\r\n?\r\n"
    pair.say(service, b"PUB _INBOX.x.1 1\r\n!\r\n")
    assert caller.heard() == b"MSG _INBOX.x.1 2 1\r\n!\r\n"


def test_one_member_of_a_group_gets_it_whichever_server_it_is_on(pair: Pair) -> None:
    members = [pair.hub.client(), pair.spoke.client()]
    for member in members:
        pair.say(member, b"SUB jobs workers 1\r\n")
    talker, plain = pair.hub.client(), pair.spoke.client()
    pair.say(plain, b"SUB jobs 2\r\n")
    pair.say(talker, b"PUB jobs 1\r\nx\r\n")
    assert [member.heard() for member in members] == [b"MSG jobs 1 1\r\nx\r\n", b""]  # the one at home comes first
    assert plain.heard() == b"MSG jobs 2 1\r\nx\r\n"
    pair.say(members[0], b"UNSUB 1\r\n")
    pair.say(talker, b"PUB jobs r 1\r\nx\r\n")
    assert members[1].heard() == b"MSG jobs 1 r 1\r\nx\r\n"
    assert plain.heard() == b"MSG jobs 2 r 1\r\nx\r\n"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"PUB q 1\r\nx\r\n", b"LMSG q | g 1\r\nx\r\n"),
        (b"PUB q r 01\r\nx\r\n", b"LMSG q + r g 1\r\nx\r\n"),
        (b"HPUB q 18 19\r\n%bx\r\n" % BLOCK, b"HMSG q | g 18 19\r\n%bx\r\n" % BLOCK),
        (b"PUB p  1\r\nx\r\n", b"LMSG p 1\r\nx\r\n"),
        (b"PUB p r 01\r\nx\r\n", b"LMSG p r 01\r\nx\r\n"),
        (b"HPUB p r 18 19\r\n%bx\r\n" % BLOCK, b"HMSG p r 18 19\r\n%bx\r\n" % BLOCK),
    ],
)
def test_a_message_in_the_forms_of_the_protocol(sent: bytes, said: bytes) -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    hub.hear(b"LS+ q g 2\r\nLS+ p\r\n")
    talker = hub.client()
    talker.say(sent)
    assert hub.said() == said


def test_headers_stay_here_when_the_other_side_does_not_understand_them() -> None:
    hub = End("hub", spoke=False)
    hub.link.headers = False
    hub.begin()
    hub.hear(b"LS+ p\r\n")
    hub.client().say(b"HPUB p r 18 19\r\n%bx\r\n" % BLOCK)
    assert hub.said() == b"LMSG p r 1\r\nx\r\n"
    assert hub.link.out_bytes == 1


def test_what_a_consumer_delivers_shows_its_own_subject() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    hub.hear(b"LS+ other.inbox\r\n")
    plain, member = hub.client(), hub.client()
    plain.say(b"SUB inbox 1\r\n")
    member.say(b"SUB inbox g 2\r\n")
    hub.said()
    hub.hear(b"LMSG inbox %b@orders.1 2\r\nhi\r\n" % ACK)
    assert plain.heard() == b"MSG orders.1 1 %b 2\r\nhi\r\n" % ACK
    assert member.heard() == b""
    hub.hear(b"HMSG inbox + %b@orders.2 g 18 20\r\n%bhi\r\n" % (ACK, BLOCK))
    assert member.heard() == b"HMSG orders.2 2 %b 18 20\r\n%bhi\r\n" % (ACK, BLOCK)


@pytest.mark.parametrize("reply", [b"$JS.ACK.S@x.C.1.1.1.1.0", b"$JS.ACK.a@b", b"x@y", ACK + b"@"])
def test_an_at_sign_elsewhere_is_part_of_the_reply(reply: bytes) -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    listener = hub.client()
    listener.say(b"SUB inbox 1\r\n")
    hub.hear(b"LMSG inbox %b 2\r\nhi\r\n" % reply)
    assert listener.heard() == b"MSG inbox 1 %b 2\r\nhi\r\n" % reply


def test_a_delivery_goes_on_to_the_next_server_as_it_came() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    other, transport = hub.connect("elsewhere")
    other.begin(hub.world.router, hub.ledger, OPEN, False)
    hub.hear(b"LS+ inbox\r\n", other)
    transport.sent.clear()
    hub.hear(b"LMSG inbox %b@orders.1 2\r\nhi\r\n" % ACK)
    assert bytes(transport.sent) == b"LMSG inbox %b@orders.1 2\r\nhi\r\n" % ACK
    assert b"LMSG" not in hub.said()


def test_a_message_does_not_come_back_over_its_link() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    hub.hear(b"LS+ >\r\n")
    assert hub.hear(b"LMSG a 1\r\nx\r\nLMSG a | g 1\r\nx\r\nPUB a 1\r\nx\r\n") == b""
    assert hub.link.in_msgs == 3


@pytest.mark.parametrize(
    ("clusters", "isolated", "said"),
    [
        (("", ""), False, b"LS+ a\r\n"),
        (("x", "x"), False, b""),
        (("x", "y"), False, b"LS+ a\r\n"),
        (("", ""), True, b""),
    ],
)
def test_spokes_hear_of_each_other_unless_they_belong_together(
    clusters: tuple[str, str], isolated: bool, said: bytes
) -> None:
    hub = End("hub", spoke=False)
    hub.link, hub.transport = hub.connect(clusters[0], isolated)
    hub.begin()
    hub.said()
    other, _ = hub.connect(clusters[1])
    other.begin(hub.world.router, hub.ledger, OPEN, False)
    assert hub.hear(b"LS+ a\r\n", other) == said


def test_a_spoke_does_not_pass_on_what_another_hub_asks_for() -> None:
    spoke = End("spoke", spoke=True)
    spoke.begin()
    spoke.said()
    other, _ = spoke.connect()
    other.begin(spoke.world.router, spoke.ledger, OPEN, True)
    assert spoke.hear(b"LS+ a\r\nLS+ $LDS.x\r\n", other) == b"LS+ $LDS.x\r\n"


def test_interest_is_refused_and_told_of_by_permissions() -> None:
    hub = End("hub", spoke=False, rules=rules(publish={"deny": ["secret"]}, subscribe={"allow": ["open.>"]}))
    hub.begin()
    talker = hub.client()
    talker.say(b"SUB open.a 1\r\nSUB shut 2\r\n")
    assert set(hub.said().split(b"\r\n")) == {b"LS+ $LDS.hub", b"LS+ open.a", b""}
    hub.hear(b"LS+ >\r\n")
    talker.say(b"PUB secret 1\r\nx\r\nPUB other 1\r\nx\r\n")
    assert hub.said() == b"LMSG other 1\r\nx\r\n"
    assert hub.hear(b"LS+ secret\r\n") == b"-ERR 'Permissions Violation for Subscription to 'secret''\r\n"
    assert hub.server.told[-1] == ("violation", "Subscription", b"secret")
    assert hub.link.closed


def test_what_is_denied_to_a_queue_group_others_get() -> None:
    user = PermissionsOptions(subscribe=SubjectPermissions(deny=["shut workers", "half.shut workers"]))
    hub = End("hub", spoke=False, rules=of_accepted(user, (), Domains()))
    hub.begin()
    hub.hear(b"LS+ shut workers 1\r\nLS+ half.* workers 1\r\nLS+ half.* others 1\r\n")
    assert not hub.link.closed
    hub.said()
    talker = hub.client()
    for asked, subject, told in (
        (b"", b"shut", b""),
        (b"", b"half.shut", b"LMSG half.shut | others 1\r\nx\r\n"),
        (b"", b"half.open", b"LMSG half.open | workers others 1\r\nx\r\n"),
        (b"LS+ >\r\n", b"shut", b"LMSG shut 1\r\nx\r\n"),
        (b"", b"half.open", b"LMSG half.open | workers others 1\r\nx\r\n"),
        (b"LS- half.* others\r\n", b"half.shut", b"LMSG half.shut 1\r\nx\r\n"),
    ):
        hub.hear(asked)
        talker.say(b"PUB " + subject + b" 1\r\nx\r\n")
        assert hub.said() == told


def test_a_hub_cuts_off_who_sends_what_it_may_not() -> None:
    hub = End("hub", spoke=False, rules=rules(accepts={"allow": ["fine"]}))
    hub.begin()
    listener = hub.client()
    listener.say(b"SUB > 1\r\n")
    hub.hear(b"LMSG fine 1\r\nx\r\nLMSG _R_.x 1\r\nx\r\nLMSG $JS.ACK.a 1\r\nx\r\n")
    assert listener.heard().count(b"MSG") == 3
    hub.hear(b"LMSG bad 1\r\nx\r\nLMSG fine 1\r\nx\r\n")
    assert hub.server.told[-1] == ("violation", "Publish", b"bad")
    assert listener.heard() == b""


def test_a_spoke_drops_what_it_does_not_want() -> None:
    spoke = End("spoke", spoke=True, rules=rules(subscribe={"deny": ["bad"]}))
    spoke.begin()
    listener = spoke.client()
    listener.say(b"SUB > 1\r\n")
    spoke.hear(b"LMSG bad 1\r\nx\r\nLMSG fine 1\r\nx\r\n")
    assert listener.heard() == b"MSG fine 1 1\r\nx\r\n"
    assert not spoke.link.closed


def test_who_is_asked_may_answer() -> None:
    hub = End("hub", spoke=False, rules=rules(accepts={"allow": ["fine"]}, responses=True))
    hub.begin()
    hub.hear(b"LS+ help\r\n")
    caller = hub.client()
    caller.say(b"SUB inbox 1\r\nPUB help inbox 1\r\n?\r\n")
    hub.hear(b"LMSG inbox 1\r\n!\r\n")
    assert caller.heard() == b"MSG inbox 1 1\r\n!\r\n"
    hub.hear(b"LMSG inbox 1\r\n!\r\n")  # one answer is what it may give
    assert hub.server.told[-1] == ("violation", "Publish", b"inbox")


def test_new_rules_take_interest_back() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    hub.client().say(b"SUB a 1\r\nSUB b 2\r\n")
    hub.said()
    hub.link.apply_rules(rules(subscribe={"deny": ["a"]}))
    assert hub.said() == b"LS- a\r\n"


def test_a_loop_is_told_of_and_so_is_a_limit() -> None:
    hub = End("hub", spoke=False, max_subscriptions=1)
    hub.begin()
    hub.hear(b"LS+ a\r\nLS+ b\r\nLS+ a\r\n")
    assert hub.server.told[1:] == [("limit",)]
    hub.hear(b"LS+ $LDS.hub\r\n")
    assert hub.server.told[-1] == ("looped",)
    assert [sub.subject for sub in hub.link.subscription_list()] == [b"a"]


def test_the_api_of_a_jetstream_comes_and_goes() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    for line in (b"LS+ $JS.far.API.CONSUMER.>", b"LS+ JS.acc@hub.API.INFO", b"LS- $JS.far.API.CONSUMER.>"):
        told = len(hub.server.told)
        hub.hear(line + b"\r\n")
        assert hub.server.told[told:] == [("reaches",)]
    told = len(hub.server.told)
    hub.hear(b"LS+ API\r\nLS+ an.API\r\nLS- API\r\n")
    assert hub.server.told[told:] == []


def test_repeated_interest_counts_once_and_a_number_is_that_of_the_last_line() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    hub.hear(b"LS+ a\r\nLS+ a\r\nLS- nothing\r\nLS+ q g 2\r\nLS+ q g 5\r\n")
    assert [(s.subject, s.queue, s.weight) for s in hub.link.subscription_list()] == [(b"a", None, 1), (b"q", b"g", 5)]
    hub.hear(b"LS- a\r\nLS- q g\r\n")
    assert hub.link.subscription_count == hub.world.router.subscriptions == 0


def test_before_the_handshake_is_done_nothing_goes_over_it() -> None:
    hub = End("hub", spoke=False)
    hub.client().say(b"SUB a 1\r\n")
    assert hub.hear(b"LMSG a 1\r\nx\r\nPING\r\n") == b"PONG\r\n"
    assert hub.hear(b"LS+ a\r\n") == b"-ERR 'Authorization Violation'\r\n"
    assert hub.link.closed


def test_with_the_connection_its_interest_goes() -> None:
    pair = Pair()
    listener, talker = pair.spoke.client(), pair.hub.client()
    pair.say(listener, b"SUB a 1\r\n")
    pair.hub.link.connection_lost(None)
    pair.hub.world.loop.run()
    assert pair.hub.world.router.subscriptions == 0
    talker.say(b"PUB a 1\r\nx\r\n")
    assert pair.hub.link.out_msgs == 0


def test_groups_choose_no_link_that_is_being_closed() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    other, _ = hub.connect()
    other.begin(hub.world.router, hub.ledger, OPEN, False)
    hub.hear(b"LS+ jobs g 1\r\n")
    hub.hear(b"LS+ jobs g 9\r\n", other)
    other.close("Server Shutdown")  # its last bytes are still on their way
    hub.client().say(b"PUB jobs 1\r\nx\r\n" * 20)
    assert hub.link.out_msgs == 20


def test_ping_is_answered_and_times_the_way() -> None:
    pair = Pair()
    pair.hub.link.ping()
    assert pair.hub.link.pings.unanswered == 1
    pair.settle()
    assert pair.hub.link.pings.unanswered == 0
    assert pair.hub.link.rtt_ns > 0


def test_a_client_waits_for_a_link_that_falls_behind() -> None:
    hub = End("hub", spoke=False)
    hub.shared.max_pending = 2 << 20  # near this nobody asks any more whether it takes anything at all
    hub.begin()
    hub.hear(b"LS+ a\r\n")
    talker = hub.client()
    hub.transport.full = True
    data = (b"PUB a 65536\r\n" + b"x" * 65536 + b"\r\n") * 40
    while data and not talker.transport.paused:
        data = data[talker.feed(data) :]
        hub.world.tick.run()
    assert talker.transport.paused
    assert not hub.link.closed
    hub.transport.full = False
    hub.link.resume_writing()
    hub.world.loop.run()
    assert not talker.transport.paused


def test_a_link_that_takes_nothing_is_cut_off() -> None:
    hub = End("hub", spoke=False)
    hub.shared.max_pending = 1 << 20
    hub.link, hub.transport = hub.connect()
    hub.begin()
    hub.hear(b"LS+ a\r\n")
    hub.transport.full = True
    for _ in range(40):
        hub.world.router.publish_bytes(b"a", None, b"", b"x" * 65536)
    hub.world.loop.run()
    assert hub.link.closed
    assert hub.link.close_reason == "Slow Consumer (Pending Bytes)"
    assert hub.shared.slow_consumers == 1


def test_a_subject_that_comes_again_and_again_is_looked_at_anew_when_something_has_changed() -> None:
    hub = End("hub", spoke=False)
    hub.begin()
    first, later = hub.client(), hub.client()
    first.say(b"SUB a 1\r\n")
    for _ in range(2):
        hub.hear(b"LMSG a 1\r\nx\r\n")
    assert first.heard() == b"MSG a 1 1\r\nx\r\n" * 2
    later.say(b"SUB a 2\r\n")
    hub.hear(b"LMSG a 1\r\ny\r\n")
    assert (first.heard(), later.heard()) == (b"MSG a 1 1\r\ny\r\n", b"MSG a 2 1\r\ny\r\n")
    hub.link.apply_rules(rules(accepts={"allow": ["b"]}))
    hub.hear(b"LMSG a 1\r\nz\r\n")
    assert hub.server.told[-1] == ("violation", "Publish", b"a")
    assert first.heard() == b""
