"""What the services tell that are asked for a server's or an account's figures, by name."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from jetbroker.monitor import connz, healthz, jsz, leafz, options, statistics, subsz, varz
from jetbroker.monitor.query import NotAsked
from jetbroker.monitor.sources import Sources, now_text

_ALL = "PING"  # in the place of an account's name


async def answer(sources: Sources, name: str, of: str, asked: Any) -> Any:
    """The data of an answer, from the figures of the account `of`, or ("") of the server. Raises BadRequest."""
    if of:
        return await _OF_AN_ACCOUNT[name](sources, asked, of)
    return await _OF_THE_SERVER[name](sources, asked)


async def _varz(sources: Sources, asked: Any) -> Any:
    return await varz.varz(sources)


async def _leafz(sources: Sources, asked: options.LeafzOptions) -> Any:
    return leafz.leafz(sources, asked)


async def _healthz(sources: Sources, asked: options.HealthzOptions) -> Any:
    status, found = healthz.healthz(sources, asked)
    return {"status": found["status"], "status_code": int(status), **found}


async def routez(sources: Sources, asked: Any) -> Any:
    """A lone server has no routes."""
    return {
        "server_id": sources.server_id,
        "server_name": sources.info.server_name,
        "now": now_text(),
        "num_routes": 0,
        "routes": [],
    }


async def gatewayz(sources: Sources, asked: Any) -> Any:
    """A lone server has no gateways."""
    return {"server_id": sources.server_id, "now": now_text(), "outbound_gateways": {}, "inbound_gateways": {}}


async def _raftz(sources: Sources, asked: Any) -> Any:
    return {}


async def _connz_of(sources: Sources, asked: options.ConnzOptions, of: str) -> Any:
    return await connz.connz(sources, replace(asked, account=of))


async def _subsz_of(sources: Sources, asked: options.SubszOptions, of: str) -> Any:
    return await subsz.subsz(sources, replace(asked, account=of, subscriptions=True))


async def _leafz_of(sources: Sources, asked: options.LeafzOptions, of: str) -> Any:
    return leafz.leafz(sources, replace(asked, account=of))


async def _jsz_of(sources: Sources, asked: options.JSzOptions, of: str) -> Any:
    return await jsz.of_account(sources, replace(asked, account=of))


async def _statz_of(sources: Sources, asked: options.AccountStatzOptions, of: str) -> Any:
    """Of one account, or of all that have connections. Raises NotAsked when there are none."""
    wanted = [of] if of != _ALL else list(dict.fromkeys(asked.accounts) or sources.accounts)
    named = [sources.accounts[name] for name in wanted if name in sources.accounts]
    shown = [account for account in named if asked.include_unused or statistics.used(sources, account)]
    if not (shown or asked.include_unused):
        raise NotAsked("nobody uses these accounts")
    rows = await statistics.of_accounts(sources, shown)
    return {"server_id": sources.server_id, "now": now_text(), "account_statz": rows}


_OF_THE_SERVER: dict[str, Callable[[Sources, Any], Awaitable[Any]]] = {
    "VARZ": _varz,
    "CONNZ": connz.connz,
    "SUBSZ": subsz.subsz,
    "JSZ": jsz.jsz,
    "LEAFZ": _leafz,
    "HEALTHZ": _healthz,
    "ROUTEZ": routez,
    "GATEWAYZ": gatewayz,
    "RAFTZ": _raftz,
}
_OF_AN_ACCOUNT: dict[str, Callable[[Sources, Any, str], Awaitable[Any]]] = {
    "CONNZ": _connz_of,
    "SUBSZ": _subsz_of,
    "LEAFZ": _leafz_of,
    "JSZ": _jsz_of,
    "STATZ": _statz_of,
}
