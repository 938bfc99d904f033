"""What the services tell that are asked for a server's or an account's figures, by name."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from jetbroker.forms.gotext import duration_text, quoted
from jetbroker.monitor import accountz, connz, healthz, jsz, leafz, options, subsz, varz
from jetbroker.monitor.query import BadRequest, NotAsked
from jetbroker.monitor.sources import Sources, now_text

_ALL = "PING"  # in the place of an account's name
_LONGEST_PROFILE_NS = 15_000_000_000


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
    found = await accountz.statz(sources, asked if of == _ALL else replace(asked, accounts=[of]))
    if not (found["account_statz"] or asked.include_unused):
        raise NotAsked("nobody uses these accounts")
    return found


async def _info_of(sources: Sources, asked: Any, of: str) -> Any:
    return await accountz.account_info(sources, of)


async def _profilez(sources: Sources, asked: options.ProfilezOptions) -> Any:
    """No profile can be had: they are of Go programs."""
    refusal = f"Profile {quoted(asked.name.encode())} not found"
    if not asked.name:
        refusal = "Profile name not specified"
    elif asked.name == "cpu":
        refusal = "Failed to start CPU profile: this server is no Go program"
        if not 0 < asked.duration <= _LONGEST_PROFILE_NS:
            refusal = f"Duration {duration_text(asked.duration)} should be between 0s and 15s"
    return {"profile": None, "error": refusal}


async def _expvarz(sources: Sources, asked: Any) -> Any:
    raise BadRequest("there are no variables of a Go program here: ask for VARZ")


async def ipqueuesz(sources: Sources, asked: Any) -> Any:
    """Those of nats-server's queues that hold something: there are none of them."""
    return {}


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
    "ACCOUNTZ": accountz.accountz,
    "PROFILEZ": _profilez,
    "EXPVARZ": _expvarz,
    "IPQUEUESZ": ipqueuesz,
}
_OF_AN_ACCOUNT: dict[str, Callable[[Sources, Any, str], Awaitable[Any]]] = {
    "CONNZ": _connz_of,
    "SUBSZ": _subsz_of,
    "LEAFZ": _leafz_of,
    "JSZ": _jsz_of,
    "STATZ": _statz_of,
    "INFO": _info_of,
}
