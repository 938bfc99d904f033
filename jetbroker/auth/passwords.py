"""Who may log in: users with passwords, or one token.

Comparisons take the same time for known and unknown users; bcrypt hashes are checked in a thread, because one check
takes a tenth of a second.
"""

import hmac
from collections.abc import Callable
from typing import NamedTuple

BCRYPT_PREFIXES = ("$2a$", "$2b$", "$2x$", "$2y$")
BCRYPT_MAX_BYTES = 72  # bcrypt reads no more of a password; the library refuses longer ones


class Login(NamedTuple):
    """A successful login: the user's name ("" for a token) and the account it belongs to."""

    user: str
    account: str


class Credential(NamedTuple):
    """One way to log in. `secret` is plain or a bcrypt hash."""

    login: Login
    secret: str

    @property
    def hashed(self) -> bool:
        """True when checking takes long and belongs in a thread."""
        return self.secret.startswith(BCRYPT_PREFIXES)


def check_secret(secret: str, given: str) -> bool:
    """Does the given password or token fit the configured one?"""
    if not secret.startswith(BCRYPT_PREFIXES):
        return hmac.compare_digest(secret.encode(), given.encode("utf-8", "surrogatepass"))
    import bcrypt  # imported late: most brokers have no hashes

    encoded = given.encode("utf-8", "surrogatepass")
    if len(encoded) > BCRYPT_MAX_BYTES:
        return False
    # $2x$ and $2y$ name the same algorithm as $2b$; the library knows only the latter
    normalised = "$2b$" + secret[4:]
    try:
        return bcrypt.checkpw(encoded, normalised.encode())
    except ValueError:  # a malformed hash fits nothing
        return False


class Authenticator:
    """The logins of a configuration."""

    def __init__(self) -> None:
        self._users: dict[str, Credential] = {}
        self._token: Credential | None = None
        self._no_auth: Login | None = None

    @property
    def required(self) -> bool:
        """True when a client cannot come in without CONNECT."""
        return self.configured and self._no_auth is None

    @property
    def configured(self) -> bool:
        """True when there is any login at all."""
        return bool(self._users) or self._token is not None

    def add_user(self, user: str, password: str, account: str) -> None:
        """Let a user of an account log in."""
        self._users[user] = Credential(Login(user, account), password)

    def set_token(self, token: str, account: str) -> None:
        """Let whoever has the token log in."""
        self._token = Credential(Login("", account), token)

    def set_no_auth_user(self, user: str) -> None:
        """Clients that give no credentials are this user. Raises KeyError when there is no such user."""
        self._no_auth = self._users[user].login

    def login_without_credentials(self) -> Login | None:
        """Who a client is that has sent no CONNECT yet."""
        return self._no_auth

    def find(self, user: str, password: str, token: str) -> tuple[Login | None, Callable[[], Login | None] | None]:
        """Judge credentials: the login (None: refused), or a check that must run in a thread and gives it."""
        if self._no_auth is not None and not (user or password or token):
            return self._no_auth, None
        if self._token is not None:
            credential, given = self._token, token
        else:
            # an unknown user is checked against somebody's hash, so that the answer takes as long
            known = self._users.get(user)
            credential = known or next(iter(self._users.values()))
            given = password
            if known is None:
                credential = Credential(Login("", ""), credential.secret)

        def check() -> Login | None:
            return credential.login if check_secret(credential.secret, given) and credential.login.account else None

        if credential.hashed:
            return None, check
        return check(), None
