"""What the libraries behind fsspec say when something fails, as one sentence with what to do about it."""

from __future__ import annotations

REASON_CHARACTERS = 300
NO_BUCKET = "NoSuchBucket"
HALF_COPIED = "it is half copied; ship it again with --check"
NO_PROTOCOL = "Protocol not known"
# by name, since each library has classes of its own, and none of them has to be installed
UNREACHABLE = {"ConnectionError", "HTTPClientError", "TimeoutError", "ClientConnectionError", "gaierror"}
NO_LOGIN = {"PermissionError", "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
NO_PROFILE = {"ProfileNotFound"}
LOGIN_CODES = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
S3 = "s3"


def said(error: Exception, scheme: str) -> str:
    """One line of what a library says, and what to do where that is known."""
    return "; ".join(filter(None, (_reason(error), _advice(error, scheme))))


def _advice(error: Exception, scheme: str) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    code = _code(error)
    if code == NO_BUCKET:
        return "make the bucket, or correct the URL"
    if kinds & NO_PROFILE:
        return "correct AWS_PROFILE, or write this profile into ~/.aws/config"
    if kinds & NO_LOGIN or code in LOGIN_CODES:
        if scheme == S3:
            return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to a login that may use the bucket"
        return "see that there are credentials, and that they may use it"
    if "FileNotFoundError" in kinds:
        return HALF_COPIED
    if str(error).startswith(NO_PROTOCOL):
        return "name a folder, s3://…, or a URL of another package of fsspec that is installed"
    if kinds & UNREACHABLE:
        endpoint = ", and that AWS_ENDPOINT_URL is right (not set: Amazon's)" if scheme == S3 else ""
        return f"see that it runs and can be reached from this machine{endpoint}"
    return ""


def _code(error: Exception) -> str:
    """By which S3 says what is wrong; s3fs makes an OSError of that."""
    response = getattr(error.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _reason(error: Exception) -> str:
    lines = str(error.strerror if isinstance(error, OSError) and error.strerror else error).strip().split("\n")
    first = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return (first or type(error).__name__).rstrip(".")[:REASON_CHARACTERS]
