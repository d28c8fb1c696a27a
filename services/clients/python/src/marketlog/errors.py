"""What goes wrong: an answer of the platform that is an error, or none at all."""

import json
from collections.abc import Mapping
from typing import Any

import httpx

CONNECTION_FAILED = "CONNECTION_FAILED"
TIME_LIMIT = "TIME_LIMIT"


class MarketlogError(Exception):
    """
    A call that failed.

    `code` is one of the platform's (see the reference), or CONNECTION_FAILED or TIME_LIMIT without an answer, where `status` is None.
    `detail` is a text, of a VALIDATION_ERROR the list of its violations. `retry_after` is in seconds.
    """

    def __init__(
        self,
        code: str,
        detail: Any,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        about = [str(part) for part in (self.status, self.code) if part is not None]
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{' '.join(about)}: {self.detail}{request}"


class FeedGap(MarketlogError):
    """A feed whose position the log does not hold any more (`expired`) or never did (`unknown`); iterated further, it goes on live."""

    def __init__(self, reason: str) -> None:
        super().__init__("FEED_GAP", f"the position of the feed is {reason}: changes are missing")
        self.reason = reason


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> MarketlogError:
    """The error that an answer is; a proxy's page has a code of its status."""
    try:
        body = json.loads(content)
        code, detail = str(body["code"]), body["detail"]
    except (ValueError, TypeError, KeyError):
        code, detail = f"HTTP_{status}", content[:200].decode(errors="replace")
    seconds = headers.get("retry-after", "")
    return MarketlogError(
        code,
        detail,
        status=status,
        request_id=headers.get("x-request-id"),
        retry_after=float(seconds) if seconds.isdigit() else None,
    )


def transport_error(cause: httpx.HTTPError) -> MarketlogError:
    """The error of a request that got no whole answer."""
    code = TIME_LIMIT if isinstance(cause, httpx.TimeoutException) else CONNECTION_FAILED
    return MarketlogError(code, str(cause) or type(cause).__name__)
