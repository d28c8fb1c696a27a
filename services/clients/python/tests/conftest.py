"""A platform that answers what a test has written down, over a real connection."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Request:
    path: str
    headers: Message


class ScriptedPlatform:
    """Gives one answer after the other, the last one again and again; `requests` and `bodies` have what came."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.bodies: list[Any] = []
        self.is_over = threading.Event()
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                platform.bodies.append(json.loads(body or "null"))
                platform.requests.append(Request(self.path, self.headers))
                at = min(len(platform.requests), len(platform.answers)) - 1
                platform.answers[at](self)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def platform() -> Iterator[ScriptedPlatform]:
    opened = ScriptedPlatform()
    yield opened
    opened.close()


def answered(status: int, body: str = "{}", **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body.encode())))
        request.end_headers()
        request.wfile.write(body.encode())

    return answer


def streamed(*events: str, then: Callable[[], object] | None = None, kind: str = "text/event-stream") -> Answer:
    """A stream that ends as a broken connection does, once `then` has returned."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        request.wfile.write("".join(events).encode())
        request.wfile.flush()
        if then is not None:
            then()
        request.close_connection = True

    return answer


def dropped(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
