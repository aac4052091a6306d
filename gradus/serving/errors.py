"""Errors for refused requests, in the form that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Refused(Exception):
    """The error for a request that the server refuses. The error has the HTTP status, and a sentence with the wrong value, its field and the remedy."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    @property
    def body(self) -> dict[str, Any]:
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def wrong(param: str, message: str) -> Refused:
    """Returns the error for a wrong field of the request: status 400."""
    return Refused(400, message, param=param)
