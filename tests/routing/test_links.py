"""Who gets a message, and how often, where some of those who want it stand behind links to other servers."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.links import RecordingLink, RecordingReceiver, deliver_once, publish, publish_from_link, reaches, send
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription
from jetbroker.tick import Tick
from jetbroker.wire import subjects
from tests.routing.test_router import naive_match

CLIENTS = 3
CLUSTERS = (None, None, b"east", b"east")  # of the links

tokens = st.sampled_from(["a", "b", "*", ">"])
patterns = st.one_of(
    st.lists(tokens, min_size=1, max_size=3).map(lambda parts: ".".join(parts).encode()),
    st.sampled_from([b"_INBOX.x.*", b"_INBOX.>", b"_INBOX.x.a", b"_INBOX.*.a", b"$JS.ACK.S.C.>", b"$JS.ACK.>"]),
).filter(subjects.valid_subject)
literals = st.one_of(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3).map(lambda parts: ".".join(parts).encode()),
    st.sampled_from([b"_INBOX.x.a", b"_INBOX.x.b", b"$JS.ACK.S.C.1.2.3.4.5"]),
)
groups = st.sampled_from([b"q1", b"q2", b"q3"])
clients = st.integers(0, CLIENTS - 1)
links = st.integers(0, len(CLUSTERS) - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("client subscribes"), clients, patterns, st.none() | groups),
        st.tuples(st.just("link subscribes"), links, patterns, st.none() | groups, st.integers(1, 5)),
        st.tuples(st.just("unsubscribe"), st.integers(0, 30)),
        st.tuples(st.just("weigh"), st.integers(0, 30), st.integers(1, 5)),
        st.tuples(st.just("refuses"), clients, st.booleans()),
        st.tuples(st.just("client publishes"), clients, st.booleans(), st.booleans(), literals),
        st.tuples(st.just("link publishes"), links, st.none() | st.lists(groups, max_size=3), literals),
        st.tuples(st.just("consumer delivers"), literals),
    ),
    max_size=40,
)


@dataclass
class Ward:
    """A router with clients and links, and what the rules say of each message."""

    router: Router = field(default_factory=lambda: Router("$G", Tick(asyncio.new_event_loop())))
    clients: list[RecordingReceiver] = field(default_factory=lambda: [RecordingReceiver() for _ in range(CLIENTS)])
    links: list[RecordingLink] = field(default_factory=lambda: [RecordingLink(cluster) for cluster in CLUSTERS])
    subs: list[Subscription] = field(default_factory=list)

    def play(self, step):
        match step:
            case ("client subscribes", who, pattern, queue):
                self.subs.append(self.router.subscribe(self.clients[who], pattern, queue))
            case ("link subscribes", who, pattern, queue, weight):
                self.subs.append(self.router.subscribe(self.links[who], pattern, queue, b"", weight))
            case ("unsubscribe", which) if which < len(self.subs):
                self.router.unsubscribe(self.subs.pop(which))
            case ("weigh", which, weight) if which < len(self.subs):
                self.router.weigh(self.subs[which], weight)
            case ("refuses", who, refuses):
                self.clients[who].answer = 0 if refuses else 1
            case ("client publishes", who, echo, once, subject):
                skip = None if echo else self.clients[who]
                answer = (deliver_once if once else publish)(self.router, skip, subject)
                self.check(subject, answer, None, skip, None, None)
            case ("link publishes", who, named, subject):
                answer = publish_from_link(self.router, self.links[who], named, subject)
                self.check(subject, answer, None, None, self.links[who], named or [])
            case ("consumer delivers", subject):
                answer = send(self.router, subject, b"stored")
                self.check(subject, answer, b"stored", None, None, None)

    def check(self, subject, answer, stored, skip, source, named):
        matching = [sub for sub in self.subs if naive_match(subject, sub.subject)]
        got = Counter(sub for client in self.clients for sub, _ in client.got)
        shown = {shown for client in self.clients for _, shown in client.got}
        sent = {link: link.sent for link in self.links if link.sent}
        assert shown <= {stored or subject}

        # plain subscriptions: each one of a client's once, and each link once
        plain = {sub for sub in matching if sub.queue is None}
        assert {sub: n for sub, n in got.items() if sub.queue is None} == {
            sub: 1 for sub in plain if self.takes(sub.receiver, skip)
        }
        open_links = [link for link in self.links if self.passes(link, source)]
        reached = {sub.receiver for sub in plain if sub.receiver in open_links}
        assert reached <= set(sent) <= set(open_links)
        assert all(len(messages) == 1 for messages in sent.values())
        assert all(message[:2] == (subject, stored) for (message,) in sent.values())

        # queue groups: one member of each, a client's when there is one who takes it
        chosen = Counter(queue for ((_, _, queues),) in sent.values() for queue in queues or ())
        for queue in {sub.queue for sub in matching if sub.queue is not None}:
            members = [sub for sub in matching if sub.queue == queue]
            takers = [sub for sub in members if self.takes(sub.receiver, skip)]
            remote = [link for link in open_links if any(sub.receiver is link for sub in members)]
            here = sum(got[sub] for sub in members)
            asked = named is None or queue in named
            assert here == (1 if asked and takers else 0)
            assert chosen.pop(queue, 0) == (1 if asked and remote and not takers else 0)
            for link, ((_, _, queues),) in sent.items():
                assert queue not in (queues or ()) or link in remote
        assert not chosen
        for link, ((_, _, queues),) in sent.items():
            assert link in reached or queues, "a link without plain interest gets nothing but for a group"

        assert (answer > 0) == bool(got or sent)
        for receiver in self.clients:
            receiver.got.clear()
        for link in self.links:
            link.sent.clear()

    def takes(self, receiver, skip):
        return receiver in self.clients and receiver is not skip and receiver.answer > 0

    @staticmethod
    def passes(link, source):
        return source is None or (link is not source and (source.cluster is None or source.cluster != link.cluster))


@settings(max_examples=400, deadline=None)
@given(steps)
def test_deliveries_equal_those_of_the_rules(steps):
    ward = Ward()
    for step in steps:
        ward.play(step)
    # once more, now that the routes of most subjects are known, or not
    for subject in (b"a", b"a.b", b"_INBOX.x.a"):
        ward.play(("client publishes", 0, True, False, subject))
        ward.play(("client publishes", 0, False, True, subject))
        for link in range(len(CLUSTERS)):
            ward.play(("link publishes", link, [b"q1", b"q2"], subject))


def test_a_group_that_only_links_have_members_of_is_shared_out_by_their_weights():
    ward = Ward()
    subs = [ward.router.subscribe(ward.links[i], b"work", b"q", b"", weight) for i, weight in enumerate((1, 3))]
    shares = share_of_messages(ward)
    assert 2800 < shares[1] < 3200
    ward.router.weigh(subs[0], 12)
    shares = share_of_messages(ward)
    assert 600 < shares[1] < 1000


def share_of_messages(ward: Ward) -> list[int]:
    for _ in range(4000):
        publish(ward.router, None, b"work")
    counts = [len(link.sent) for link in ward.links]
    for link in ward.links:
        link.sent.clear()
    return counts


def test_a_link_that_has_ended_is_no_member_any_more():
    ward = Ward()
    for link in ward.links[:2]:
        ward.router.subscribe(link, b"work", b"q")
    ward.links[0].end()
    for _ in range(50):
        assert publish(ward.router, None, b"work") == 1
    assert [len(link.sent) for link in ward.links[:2]] == [0, 50]


def test_many_named_groups_each_get_the_message_once():
    ward = Ward()
    names = [b"q%d" % i for i in range(50)]
    for name in names:
        ward.router.subscribe(ward.clients[0], b"work", name)
        ward.router.subscribe(ward.links[1], b"work", name)
    publish_from_link(ward.router, ward.links[0], names[:40], b"work")
    assert {sub.queue for sub, _ in ward.clients[0].got} == set(names[:40])
    assert len(ward.clients[0].got) == 40
    assert not ward.links[1].sent
    ward.clients[0].answer = 0
    publish_from_link(ward.router, ward.links[0], names[:40], b"work")
    ((_, _, queues),) = ward.links[1].sent
    assert sorted(queues) == sorted(names[:40])


def test_what_a_link_withholds_is_no_delivery():
    ward = Ward()
    ward.router.subscribe(ward.links[0], b"a")
    ward.links[0].answer = -2
    assert publish(ward.router, None, b"a") == -2
    assert send(ward.router, b"a", b"stored") == 1, "a consumer counts who is there but may not have it"


def test_interest_behind_a_link_is_interest():
    ward = Ward()
    assert reaches(ward.router, b"a.b") == (False, False)
    sub = ward.router.subscribe(ward.links[0], b"a.*")
    assert reaches(ward.router, b"a.b") == (True, False)
    ward.router.subscribe(ward.links[0], b"a.b", b"q")
    assert reaches(ward.router, b"a.b") == (True, False)
    ward.router.subscribe(ward.links[0], b"a.b")
    assert reaches(ward.router, b"a.b") == (True, True)
    ward.router.unsubscribe(sub)
    assert reaches(ward.router, b"a.c") == (False, False)
