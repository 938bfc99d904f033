"""`no_auth_user`, of plain and of WebSocket clients: the login of those that give none."""

from jetbroker.config.options import Options
from jetbroker.errors import ConfigError


def check_no_auth_user(options: Options, name: str) -> None:
    """Raise :class:`~jetbroker.errors.ConfigError` unless `name` is empty or one of the users."""
    if not name:
        return
    if options.operator.tokens:
        raise ConfigError("no_auth_user not compatible with Trusted Operator")
    users = [user.nkey or user.user for user in options.all_users()]
    if not users:
        raise ConfigError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
    if name not in users:
        raise ConfigError(
            f'no_auth_user: "{name}" not present as user or nkey in authorization block or account configuration'
        )
