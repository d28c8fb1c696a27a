"""Sends the requests of operations and reads their answers."""

import os
import time
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx
from pydantic import RootModel
from typing_extensions import Self

from ..concurrency import async_sleep
from ..errors import CONNECTION_FAILED, MarketlogError, Model, error_of, read_model, transport_error
from ..retries import Attempts, RetryLimits

Root = TypeVar("Root")
KEY_VARIABLE = "MARKETLOG_KEY"
CONNECT_SECONDS = 10.0


class AsyncCaller:
    _rows_of: Mapping[str, tuple[str, ...]]

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        *,
        time_limit: float = 30.0,
        retries: int = 4,
        retry_seconds: float = 60.0,
        feed_retry_seconds: float = 900.0,
        silence_seconds: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """
        Opens a client of the platform at an address, such as http://127.0.0.1:8080; close it, or use it in a `with`.

        Args:
            base_url: Where the platform is.
            key: The API key, or the access token of a session; the variable MARKETLOG_KEY of the environment when left out.
            time_limit: Seconds that one attempt of a call may take, and that a snapshot may be silent.
            retries: How often a call is sent again.
            retry_seconds: Seconds after its first failure in which a call is sent again, the waits that Retry-After asks for included.
            feed_retry_seconds: Seconds in which a feed that has broken tries to come back.
            silence_seconds: Seconds of silence after which a feed takes its connection for lost; the platform sends a ping every 20.
            headers: Sent with every request.
        """
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self._time_limit = time_limit
        self._limits = RetryLimits(retries, retry_seconds)
        self._feed_limits = RetryLimits(1_000_000, feed_retry_seconds)
        self._silence_seconds = silence_seconds
        bearer = key if key is not None else os.environ.get(KEY_VARIABLE)
        self._client = httpx.AsyncClient(
            base_url=self.base_url,
            headers={**(headers or {}), **({"authorization": f"Bearer {bearer}"} if bearer else {})},
            timeout=httpx.Timeout(time_limit, connect=min(CONNECT_SECONDS, time_limit)),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _json(self, model: type[Model], method: str, path: str, **request: Any) -> Model:
        _, content = await self._respond(method, path, **request)
        return read_model(model, content)

    async def _root(self, model: type[RootModel[Root]], method: str, path: str, **request: Any) -> Root:
        """A reply that is a list or a table of models."""
        return (await self._json(model, method, path, **request)).root

    async def _text(self, method: str, path: str, **request: Any) -> str:
        response, content = await self._respond(method, path, **request)
        return content.decode(response.encoding or "utf-8")

    async def _location(self, method: str, path: str, **request: Any) -> str:
        response, _ = await self._respond(method, path, **request)
        return response.headers["location"]

    async def _lines(self, model: type[Model], method: str, path: str, **request: Any) -> AsyncIterator[Model]:
        """The lines of a stream as they arrive; nothing is read ahead of the reader but what the connection holds."""
        response, _ = await self._respond(method, path, is_stream=True, **request)
        rest = b""
        try:
            async for chunk in response.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield read_model(model, line)
            if rest:
                raise MarketlogError(CONNECTION_FAILED, "the snapshot broke off within a line")
        except httpx.HTTPError as cause:
            raise transport_error(cause) from cause
        finally:
            await response.aclose()

    async def _pages(self, operation: str, parameters: dict[str, Any]) -> AsyncIterator[Any]:
        while True:
            reply = await getattr(self, operation)(**parameters)
            rows = reply
            for member in self._rows_of[operation]:
                rows = getattr(rows, member)
            for row in rows:
                yield row
            page = reply.pagination
            if not page.has_next:
                return
            cursor = getattr(page, "next_cursor", None)
            parameters = {**parameters, **({"cursor": cursor} if cursor else {"offset": page.offset + page.limit})}

    async def _respond(self, method: str, path: str, **request: Any) -> tuple[httpx.Response, bytes]:
        attempts = Attempts(self._limits, is_safe=method == "GET")
        while True:
            try:
                return await self._attempt(method, path, **request)
            except MarketlogError as error:
                delay = attempts.delay(error)
            await async_sleep(delay)

    async def _attempt(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        is_stream: bool = False,
        silence_seconds: float | None = None,
    ) -> tuple[httpx.Response, bytes]:
        """An answer with its content; that of a stream is left to be read."""
        extensions = {}
        if silence_seconds is not None:
            timeout = httpx.Timeout(self._time_limit, connect=CONNECT_SECONDS, read=silence_seconds)
            extensions = {"timeout": timeout.as_dict()}
        request = self._client.build_request(
            method,
            path,
            params=query,
            json=body,
            files={name: ("file.csv", content, "text/csv") for name, content in files.items()} if files else None,
            headers=headers,
            extensions=extensions,
        )
        limit = time.monotonic() + self._time_limit
        try:
            response = await self._client.send(request, stream=True)
            if is_stream and response.is_success:
                return response, b""
            try:
                content = b""
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if time.monotonic() > limit:
                        raise httpx.ReadTimeout(f"the answer took more than {self._time_limit} s")
            finally:
                await response.aclose()
        except httpx.HTTPError as cause:
            raise transport_error(cause) from cause
        if response.status_code >= 400:
            raise error_of(response.status_code, response.headers, content)
        return response, content
