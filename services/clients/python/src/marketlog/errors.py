"""What goes wrong: an answer of the platform that is an error, or none at all."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

CONNECTION_FAILED = "CONNECTION_FAILED"
TIME_LIMIT = "TIME_LIMIT"
UNEXPECTED_REPLY = "UNEXPECTED_REPLY"

Model = TypeVar("Model", bound=BaseModel)


class MarketlogError(Exception):
    """
    A call that failed.

    `code` is one of the platform's (see the reference), CONNECTION_FAILED or TIME_LIMIT without an answer, UNEXPECTED_REPLY for one that no
    model fits, REPLAY_CHANGED or FEED_GAP of a feed; `status` is None where the platform has not refused.
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


def read_model(model: type[Model], content: str | bytes) -> Model:
    """A reply by its model. What was sent is left out of the error, since it may hold a secret."""
    try:
        return model.model_validate_json(content)
    except ValidationError as cause:
        faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in cause.errors(include_input=False)]
        raise MarketlogError(UNEXPECTED_REPLY, f"{model.__name__}: {'; '.join(faults[:5])}") from None
