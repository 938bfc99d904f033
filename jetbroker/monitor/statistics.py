"""What the server tells of itself and of its accounts in figures: STATSZ, STATZ and CONNS."""

from collections.abc import Iterable
from typing import Any

from jetbroker.accounts.account import Account
from jetbroker.monitor.sources import Sources, paced
from jetbroker.monitor.traffic import Moved, by_account
from jetbroker.monitor.varz import varz


async def of_server(sources: Sources, servers: int) -> dict[str, Any]:
    """`statsz`; `servers` are known to be there, this one included."""
    figures = await varz(sources)
    found = {name: figures[name] for name in ("start", "mem", "cores", "cpu", "connections", "total_connections")}
    found |= {
        "active_accounts": sum(used(account) for account in sources.accounts.values()),
        "subscriptions": figures["subscriptions"],
        "sent": {"msgs": figures["out_msgs"], "bytes": figures["out_bytes"]},
        "sent_to_clients": {"msgs": figures["out_client_msgs"], "bytes": figures["out_client_bytes"]},
        "received": {"msgs": figures["in_msgs"], "bytes": figures["in_bytes"]},
        "received_from_clients": {"msgs": figures["in_client_msgs"], "bytes": figures["in_client_bytes"]},
        "slow_consumers": figures["slow_consumers"],
    }
    if figures["slow_consumers"]:
        found["slow_consumer_stats"] = figures["slow_consumer_stats"]
    if figures["stale_connections"]:
        found |= {name: figures[name] for name in ("stale_connections", "stale_connection_stats")}
    if figures["stalled_clients"]:
        found["stalled_clients"] = figures["stalled_clients"]
    found["active_servers"] = servers
    jetstream = figures["jetstream"]
    if jetstream:
        config = {name: value for name, value in jetstream["config"].items() if name != "store_dir"}
        found["jetstream"] = {**jetstream, "config": config}
    return found | {"gomaxprocs": figures["gomaxprocs"]}


def used(account: Account) -> bool:
    """Is anybody of this account here?"""
    return account.connections > 0 or account.links > 0


async def of_accounts(sources: Sources, accounts: Iterable[Account]) -> list[dict[str, Any]]:
    """A row of STATZ for each of them."""
    traffic = await by_account(sources)
    return [account_row(account, traffic[account.name]) async for account in paced(accounts)]


def account_row(account: Account, moved: Moved) -> dict[str, Any]:
    """An account's connections, and what has gone over them."""
    total, over_links = moved.total, moved.links
    return {
        "acc": account.name,
        "name": account.tag or account.name,
        "conns": account.connections,
        "leafnodes": account.links,
        "total_conns": account.connections + account.links,
        "num_subscriptions": account.router.subscriptions,
        "sent": _figures(total.out_msgs, total.out_bytes, _pair(over_links.out_msgs, over_links.out_bytes)),
        "received": _figures(total.in_msgs, total.in_bytes, _pair(over_links.in_msgs, over_links.in_bytes)),
        "slow_consumers": account.slow_consumers,
    }


def _figures(msgs: int, size: int, leafs: dict[str, int]) -> dict[str, Any]:
    return _pair(msgs, size) | {"gateways": _pair(0, 0), "routes": _pair(0, 0), "leafs": leafs}


def _pair(msgs: int, size: int) -> dict[str, int]:
    return {"msgs": msgs, "bytes": size}
