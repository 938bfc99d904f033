"""`/subsz`: the interest tables, and who a subject would reach."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.accounts.streams import Shadow
from jetbroker.connections.closed import subscription_record
from jetbroker.connections.halves import ClientOutput
from jetbroker.monitor.connz import DEFAULT_LIMIT, subscription_row
from jetbroker.monitor.options import SubszOptions
from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import Room, Sources, go_float, now_text, paced, page
from jetbroker.routing.links import LinkReceiver
from jetbroker.routing.subscription import Receiver, Subscription
from jetbroker.wire.subjects import subset, wildcard


def asked(query: Query) -> SubszOptions:
    """What a query string asks for. Raises BadRequest."""
    listed = query.boolean("subs")
    offset, limit = query.integer("offset"), query.integer("limit")
    return SubszOptions(offset, limit, listed, query.text("acc"), query.text("test"))


async def subsz(sources: Sources, options: SubszOptions) -> dict[str, Any]:
    """Figures of all accounts or of one, maybe with a page of their subscriptions. Raises BadRequest."""
    offset, limit = max(options.offset, 0), options.limit if options.limit > 0 else DEFAULT_LIMIT
    test = options.test
    if test and not _is_literal(test):
        raise BadRequest(f"invalid test subject, must be valid publish subject: {test}")
    accounts = _accounts(sources, options.account)
    answer = {"server_id": sources.server_id, "now": now_text()} | figures(sources, accounts)
    if not options.subscriptions:
        return answer | {"total": 0, "offset": offset, "limit": limit}
    total, found = await _subscriptions(sources, accounts, test, offset, min(limit, limits.MONITOR_ROWS))
    answer |= {"total": total, "offset": offset, "limit": limit}
    room = Room()
    rows = [room.take(_row(account, sub)) async for account, sub in paced(found)]
    if rows:
        answer["subscriptions_list"] = rows
    return answer


async def subscribers(account: Account, asked: bytes) -> int:
    """How many subscriptions of clients, and of spokes, get messages on a subject, or lie within one with wildcards.

    `asked` is the subject; with a queue group behind it, divided by a blank, its members count only.
    """
    subject, *rest = asked.strip().split(b" ")
    queue = rest[0] if rest else None
    router = account.router
    if not wildcard(subject):
        found = [sub for sub in router.matching(subject) if queue is None or sub.queue == queue]
        return sum(_is_of_peer(sub.receiver) for sub in found)
    count = 0
    async for sub in paced(router.subscription_list(0, router.subscriptions)):
        if subset(sub.subject, subject) and queue in (None, sub.queue or b""):
            count += _is_of_peer(sub.receiver)
    return count


def _is_of_peer(receiver: Receiver) -> bool:
    if isinstance(receiver, LinkReceiver):
        return not getattr(receiver, "is_spoke", True)
    return isinstance(receiver, (ClientOutput, Shadow))


def _is_of_link(sub: Subscription) -> bool:
    receiver = sub.receiver
    if isinstance(receiver, Shadow):
        receiver = receiver.original.receiver
    return isinstance(receiver, LinkReceiver)


def _is_literal(subject: str) -> bool:
    tokens = subject.split(".")
    return all(tokens) and not {"*", ">"} & set(tokens)


def _accounts(sources: Sources, name: str) -> list[Account]:
    if not name:
        return list(sources.accounts.values())
    return [sources.accounts[name]] if name in sources.accounts else []


def figures(sources: Sources, accounts: list[Account]) -> dict[str, Any]:
    """Matches are messages that clients sent; the cache answered those for which no route had to be worked out."""
    subscriptions = inserts = cached = builds = most = receivers = 0
    for account in accounts:
        router = account.router
        subscriptions += router.subscriptions
        inserts += (router.generation + router.subscriptions) // 2  # every change is one or the other
        cached += router.route_count
        builds += router.builds
        widest, all_of_them = router.fanout()
        most, receivers = max(most, widest), receivers + all_of_them
    matches = max(builds, _sent(sources, {account.name for account in accounts}))
    return {
        "num_subscriptions": subscriptions,
        "num_cache": cached,
        "num_inserts": inserts,
        "num_removes": inserts - subscriptions,
        "num_matches": matches,
        "cache_hit_rate": go_float(1 - builds / matches) if matches else 0,
        "max_fanout": most,
        "avg_fanout": go_float(receivers / cached) if cached else 0,
    }


def _sent(sources: Sources, accounts: set[str]) -> int:
    live = sum(connection.in_msgs for connection in sources.connected if connection.account.name in accounts)
    traffic = [sources.clients.closed_traffic]
    if sources.leafnodes is not None:
        traffic.append(sources.leafnodes.leafs.closed_traffic)
    return live + sum(gone.in_msgs for of in traffic for name, gone in of.items() if name in accounts)


async def _subscriptions(
    sources: Sources, accounts: list[Account], test: str, offset: int, limit: int
) -> tuple[int, list[tuple[Account, Subscription]]]:
    """How many there are in all, and a page of them; those of links do not count."""
    total = sum(account.router.subscriptions for account in accounts)
    every: Iterable[tuple[Account, Subscription]]
    if test:
        every = ((account, sub) for account in accounts for sub in account.router.matching(test.encode()))
    elif sources.links:
        every = _page(accounts, 0, total)
    else:
        return total, list(islice(_page(accounts, offset, limit), limit))
    local = [found async for found in paced(every) if not _is_of_link(found[1])]
    return len(local), page(local, offset, limit)


def _page(accounts: list[Account], offset: int, limit: int) -> Iterable[tuple[Account, Subscription]]:
    for account in accounts:
        for sub in account.router.subscription_list(offset, limit):
            yield account, sub
        offset = max(offset - account.router.subscriptions, 0)


def _row(account: Account, sub: Subscription) -> dict[str, Any]:
    receiver = sub.receiver
    if isinstance(receiver, Shadow):  # an import's: shown as the importer's
        receiver = receiver.original.receiver
    if not isinstance(receiver, ClientOutput) or receiver.protocol is None:  # the broker's own
        return subscription_row(subscription_record(sub), 0, account.name, account.tag)
    client = receiver.protocol
    return subscription_row(subscription_record(sub), client.cid, client.account.name, client.account.tag)
