"""What differs between threads and event loops, once for each: _sync has the names without Async."""

import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

JOIN_SECONDS = 15.0


async def async_sleep(seconds: float) -> None:
    await anyio.sleep(seconds)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


class AsyncFlag:
    """Is set once; whoever waits goes on."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, seconds: float | None = None) -> bool:
        with anyio.move_on_after(seconds):
            await self._event.wait()
        return self._event.is_set()


class Flag:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        return self._event.wait(seconds)


class AsyncBackground:
    """Work that goes on beside its owner; the work deals with its own errors."""

    _tasks: TaskGroup

    async def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(work)

    async def stop(self, interrupt: Callable[[], None]) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)


class Background:
    _thread: threading.Thread

    def start(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="marketlog live book", daemon=True)
        self._thread.start()

    def stop(self, interrupt: Callable[[], None]) -> None:
        """A connection that is being made may outlive the wait; the process does not wait for it."""
        interrupt()
        self._thread.join(JOIN_SECONDS)
