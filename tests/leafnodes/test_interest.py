"""What links are told of an account's interest, held against a plain count of it."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.links import RecordingLink, RecordingReceiver
from jetbroker.leafnodes.interest import Ledger, LinkView
from jetbroker.routing.links import LinkReceiver
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription
from jetbroker.tick import Tick

KINDS = [(False, None), (True, None), (False, b"c"), (True, b"c")]  # is this server the spoke, and the cluster
LINKS = len(KINDS)


class View(LinkView):
    """A link's view, and the end of the link that hears what it is told."""

    def __init__(self, link: LinkReceiver) -> None:
        super().__init__(link)
        self.deaf_to: set[bool] = set()
        self.denied: set[bytes] = set()
        self.behind = False
        self.written: list[bytes] = []
        self.lines: list[bytes] = []
        self.told: dict[tuple[bytes, ...], int] = {}

    def hears(self, of_hubs: bool, subject: bytes) -> bool:
        return of_hubs not in self.deaf_to

    def may_tell(self, subject: bytes) -> bool:
        return subject not in self.denied

    def is_behind(self) -> bool:
        return self.behind

    def write(self, lines: bytes) -> int:
        assert lines.endswith(b"\r\n")
        self.written.append(lines)
        for line in lines.split(b"\r\n")[:-1]:
            self.lines.append(line)
            match line.split(b" "):
                case [b"LS+", subject]:
                    assert (subject,) not in self.told, "plain interest is told once"
                    self.told[subject,] = 1
                case [b"LS+", subject, queue, number]:
                    self.told[subject, queue] = int(number)
                case [b"LS-", *key]:
                    del self.told[tuple(key)]
                case _:
                    raise AssertionError(line)
        return 0


class Account:
    """A router with its ledger, its subscriptions, and the views of its links."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tick = Tick(self.loop)
        self.router = Router("$G", self.tick)
        self.client = RecordingReceiver()
        self.links = [RecordingLink(cluster) for _, cluster in KINDS]
        for link, (is_spoke, _) in zip(self.links, KINDS, strict=True):
            link.is_spoke = is_spoke
        self.views: dict[int, View] = {}
        self.subs: list[Subscription] = []
        self.statics: Counter[bytes] = Counter()
        self.ledger = Ledger(self.router)

    def close(self) -> None:
        for view in self.views.values():
            self.ledger.forget(view)
        self.settle()
        self.loop.close()

    def settle(self) -> None:
        """Until nobody is to be told anything."""
        while True:
            self.loop.run_until_complete(asyncio.sleep(0))
            self.tick.run()
            if not any(view.is_walking and not view.behind for view in self.views.values()):
                return

    def link(self, which: int) -> View:
        view = self.views[which] = View(self.links[which])
        self.ledger.add(view)
        return view

    def expected(self, which: int) -> dict[tuple[bytes, ...], int]:
        view = self.views[which]
        counts: Counter[tuple[bytes, ...]] = Counter()
        for sub in self.subs:
            link = sub.receiver if sub.receiver in self.links else None
            if link is view.link or not sub.weight:
                continue
            if link and (link.is_spoke in view.deaf_to or (link.cluster and link.cluster == view.link.cluster)):
                continue
            counts[(sub.subject,) if sub.queue is None else (sub.subject, sub.queue)] += sub.weight
        for subject, times in self.statics.items():
            counts[subject,] += times
        return {
            key: 1 if len(key) == 1 else number
            for key, number in counts.items()
            if number > 0 and key[0] not in view.denied
        }

    def check(self) -> None:
        self.settle()
        for which, view in self.views.items():
            assert view.told == self.expected(which)
        assert self.ledger.count == len(
            {(sub.subject, sub.queue) for sub in self.subs if sub.weight} | {(s, None) for s in +self.statics}
        )

    def play(self, step) -> None:
        match step:
            case ("subscribe", who, subject, queue, weight):
                # the last one is a client; of its own, what weighs nothing is told to nobody
                receiver = self.client if who == LINKS else self.links[who]
                weight = min(weight, 1) if who == LINKS or queue is None else max(weight, 1)
                if receiver is self.client or self.own(receiver, subject, queue) is None:
                    self.subs.append(self.router.subscribe(receiver, subject, queue, b"", weight))
            case ("unsubscribe", which) if self.subs:
                self.router.unsubscribe(self.subs.pop(which % len(self.subs)))
            case ("weigh", which, weight) if self.subs:
                sub = self.subs[which % len(self.subs)]
                if sub.receiver is not self.client and sub.queue is not None:
                    self.router.weigh(sub, max(weight, 1))
            case ("link", which) if which not in self.views:
                self.link(which)
            case ("forget", which) if which in self.views:
                self.ledger.forget(self.views.pop(which))
            case ("permissions", which, denied, deaf_to) if which in self.views:
                self.views[which].denied = denied
                self.views[which].deaf_to = deaf_to
                self.ledger.retell(self.views[which])
            case ("static", subject):
                self.statics[subject] += 1
                self.ledger.add_static(subject)
            case ("remove static", subject):
                self.statics[subject] = max(self.statics[subject] - 1, 0)
                self.ledger.remove_static(subject)
            case ("behind", which, behind) if which in self.views:
                self.views[which].behind = behind
                if not behind:
                    self.views[which].resume()
            case ("crowd", first, number):
                # so many that a new link is told of them in turns
                self.subs += [self.router.subscribe(self.client, b"c.%d" % i) for i in range(first, first + number)]
            case ("crowd leaves", first, number):
                for sub in self.subs[first : first + number]:
                    self.router.unsubscribe(sub)
                del self.subs[first : first + number]
            case ("check",):
                for view in self.views.values():
                    view.behind = False
                    view.resume()
                self.check()
            case ("turn",):
                self.loop.run_until_complete(asyncio.sleep(0))

    def own(self, receiver, subject, queue):
        same = (sub for sub in self.subs if (sub.receiver, sub.subject, sub.queue) == (receiver, subject, queue))
        return next(same, None)


@pytest.fixture
def account():
    account = Account()
    yield account
    account.close()


subjects = st.sampled_from([b"a", b"b", b"a.*", b">", b"c.1", b"c.2000"])
queues = st.none() | st.sampled_from([b"q1", b"q2"])
which = st.integers(0, LINKS - 1)
subscribe = st.tuples(st.just("subscribe"), st.integers(0, LINKS), subjects, queues, st.integers(0, 4))
unsubscribe = st.tuples(st.just("unsubscribe"), st.integers(0, 20))
steps = st.lists(
    st.one_of(
        *[subscribe, unsubscribe] * 3,
        st.tuples(st.just("weigh"), st.integers(0, 20), st.integers(1, 4)),
        st.tuples(st.just("link"), which),
        st.tuples(st.just("forget"), which),
        st.tuples(st.just("permissions"), which, st.sets(subjects), st.sets(st.booleans())),
        st.tuples(st.just("static"), subjects),
        st.tuples(st.just("remove static"), subjects),
        st.tuples(st.just("behind"), which, st.booleans()),
        st.tuples(st.just("crowd"), st.integers(0, 3000), st.sampled_from([3, 70, 2500])),
        st.tuples(st.just("crowd leaves"), st.integers(0, 3000), st.sampled_from([3, 70, 2500])),
        st.tuples(st.just("turn")),
        st.tuples(st.just("check")),
    ),
    min_size=20,
    max_size=80,
)


@given(steps)
def test_what_a_link_was_told_equals_what_it_may_see(steps):
    account = Account()
    try:
        for step in [("link", 0), *steps, ("check",)]:
            account.play(step)
    finally:
        account.close()


def test_a_link_is_told_of_what_was_there_before_the_ledger():
    loop = asyncio.new_event_loop()
    router = Router("$G", Tick(loop))
    router.subscribe(RecordingReceiver(), b"a", b"q")
    ledger = Ledger(router)
    view = View(RecordingLink())
    ledger.add(view)
    router.tick.run()
    assert view.lines == [b"LS+ a q 1"]
    loop.close()


def test_a_new_link_is_told_in_turns_and_changes_meanwhile_at_once(account):
    account.play(("crowd", 0, 20_000))
    view = account.link(0)
    account.tick.run()
    assert 0 < len(view.told) < 20_000
    assert view.is_walking
    account.play(("subscribe", LINKS, b"new", None, 1))
    account.tick.run()
    assert view.told[b"new",] == 1
    assert view.is_walking
    account.check()
    assert len(view.told) == 20_001


@pytest.mark.parametrize("first", [0, 15_000])
def test_what_goes_while_a_link_is_told_is_not_told(account, first):
    account.play(("crowd", 0, 20_000))
    view = account.link(0)
    account.play(("crowd leaves", first, 5_000))
    account.check()
    assert len(view.told) == 15_000
    account.play(("crowd leaves", 0, 15_000))
    account.check()
    assert not view.told


def test_what_a_link_may_no_longer_see_is_taken_back_though_it_goes_before_its_turn(account):
    view = account.link(0)
    account.play(("subscribe", 1, b"a", b"q1", 1))
    account.play(("crowd", 0, 5_000))
    account.tick.run()
    account.play(("permissions", 0, set(), {1}))
    assert view.is_walking
    assert view.told[b"a", b"q1"] == 1
    account.play(("unsubscribe", 0))
    account.check()


def test_a_link_that_is_behind_is_told_of_changes_alone(account):
    view = View(account.links[0])
    view.behind = True
    account.play(("crowd", 0, 100))
    account.ledger.add(view)
    account.play(("subscribe", LINKS, b"new", None, 1))
    account.tick.run()
    assert view.lines == [b"LS+ new"]
    view.behind = False
    view.resume()
    account.views[0] = view
    account.check()
    assert len(view.told) == 101


def test_lines_are_written_together(account):
    view = account.link(0)
    for step in [("subscribe", LINKS, b"a", None, 1), ("subscribe", 1, b"b", b"q", 3), ("unsubscribe", 0)]:
        account.play(step)
    assert not view.written
    account.tick.run()
    assert view.written == [b"LS+ a\r\nLS+ b q 3\r\nLS- a\r\n"]


def test_numbers_have_no_more_digits_than_peers_read(account):
    view = account.link(0)
    for link in (1, 2):
        account.play(("subscribe", link, b"a", b"q", 999_999_999))
    account.tick.run()
    assert view.told == {(b"a", b"q"): 999_999_999}


def test_a_view_that_fails_disturbs_nobody(account):
    class Failing(View):
        def may_tell(self, subject):
            raise RuntimeError("broken")

    failing = Failing(account.links[0])
    account.ledger.add(failing)
    view = account.link(1)
    account.play(("subscribe", LINKS, b"a", None, 1))
    account.tick.run()
    assert view.told == {(b"a",): 1}
    account.ledger.forget(failing)
