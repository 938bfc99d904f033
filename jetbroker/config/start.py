"""What a start and a reload ask for: the options of a file, the flags over them, the defaults, the checks.

The language and its keys are imported only when there is a file to read: a start without one is quicker.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jetbroker.config import checks
from jetbroker.config.options import Loaded, Options, TlsOptions
from jetbroker.errors import ConfigError


def load(path: str, flags: Sequence[tuple[str, str | int | float | bool]] = ()) -> Loaded:
    """The options of a file (none if `path` is empty), with the flags over them, ready to start with.

    The flags stay in `Options.flags`, so a reload is ``load(options.config_file, options.flags)``. Raises
    :class:`~jetbroker.errors.ConfigError`.
    """
    if path:
        from jetbroker.config.loader import load_file

        loaded = load_file(path)
    else:
        loaded = Loaded(Options(), [])
    loaded.options.flags = list(flags)
    tls: dict[str, Any] = {}
    for field, value in flags:
        block, _, name = field.rpartition(".")
        if "tls" in (block, name):
            tls[name] = value
        else:
            setattr(_block(loaded.options, block), name, value)
    if tls:
        _override_tls(loaded.options, tls)
    _check_flag_login(loaded.options)
    checks.settle(loaded.options)
    checks.check_start(loaded.options)
    return loaded


def _check_flag_login(options: Options) -> None:
    """A login of the command line would let nobody in beside users of accounts; the loader looks at the file's only."""
    given = {field for field, _ in options.flags}
    if not any(account.users for account in options.accounts.values()):
        return
    if given & {"authorization.user", "authorization.password"}:
        raise ConfigError(f"{options.config_file}: Can not have a single user/pass and accounts")
    if "authorization.token" in given:
        raise ConfigError(f"{options.config_file}: Can not have a token and accounts")


def _block(options: Options, path: str) -> Any:
    """The block of options that a dotted path names."""
    block: Any = options
    for name in path.split(".") if path else ():
        block = getattr(block, name)
    return block


def _override_tls(options: Options, given: dict[str, Any]) -> None:
    """The `--tls...` flags together stand for a `tls {}` block that replaces the file's; `--tls=false` for none."""
    if given.pop("tls", True) is False:
        options.tls = None
        return
    if not given.get("cert_file"):
        raise ConfigError("TLS Server certificate must be present and valid")
    if not given.get("key_file"):
        raise ConfigError("TLS Server private key must be present and valid")
    from jetbroker.config import certificates

    # What no flag says stays as in the file: the time-out, who is mapped, which certificates are pinned.
    replaced = {"certs": [], "ciphers": [], "curves": [], "ca_file": "", "verify": False, "min_version": "", **given}
    options.tls = dataclasses.replace(options.tls or TlsOptions(), **replaced)
    certificates.check(options.tls)
