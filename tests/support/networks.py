"""Networks of tests: a server of raw answers, a proxy, and an environment without the machine's settings."""

from __future__ import annotations

import base64
import contextlib
import datetime
import select
import socket
import socketserver
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import trustme

from tests.support.servers import listening

#: what clients read from the environment
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


def clear_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys, addresses, proxies and certificates of the machine from the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", *VARIABLES):
        for form in (name, name.upper(), name.lower()):
            monkeypatch.delenv(form, raising=False)


def answer(status: str, body: str = "", *headers: str, kind: str = "application/json") -> bytes:
    """Return an HTTP answer.

    :param status: with its reason, such as ``404 Not Found``.
    """
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body.encode())}", *headers]
    return "\r\n".join([*head, "", body]).encode()


@dataclass
class RawServer:
    """What a server of raw answers got.

    :param heads: the first line and the headers of each request.
    """

    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)


@contextmanager
def answering(
    reply: bytes | Callable[[str], bytes], tls: ssl.SSLContext | None = None, *, closing: bool = False
) -> Iterator[RawServer]:
    """Serve one answer to all requests, or what a function returns for the head of a request.

    :param closing: close the connection after each answer.
    """
    made = RawServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            made.connections += 1
            with contextlib.suppress(OSError):
                stream = self.request if tls is None else tls.wrap_socket(self.request, server_side=True)
                with stream, stream.makefile("rb") as lines:
                    while head := _head(lines):
                        made.heads.append(head)
                        stream.sendall(reply(head) if callable(reply) else reply)
                        if closing or head == "not HTTP":
                            return

    with listening(Handler) as made.port:
        yield made


def _head(lines: object) -> str:
    """Return the head of the next request, whose body is dropped; empty at the end of the connection.

    What is not text, such as the first message of TLS, counts as a head, as nginx and Python's server take it.
    """
    head, size = "", 0
    if (first := lines.peek(1)[:1]) and not first.isalpha():  # type: ignore[attr-defined]
        return "not HTTP"
    while (line := lines.readline()) not in (b"", b"\r\n"):  # type: ignore[attr-defined]
        head += line.decode("latin-1")
        name, _, value = head.splitlines()[-1].partition(":")
        size = int(value) if name.lower() == "content-length" else size
    lines.read(size)  # type: ignore[attr-defined]
    return head


@contextmanager
def connecting_proxy(target: int, *, user: str = "", refused: str = "") -> Iterator[RawServer]:
    """Run a proxy that connects each CONNECT request (RFC 9110, section 9.3.6) to a port of this machine, for any host.

    :param user: ``USER:PASSWORD`` that it asks for. :param refused: status with which it refuses every request.
    """
    made = RawServer()
    wanted = "Proxy-Authorization: Basic " + base64.b64encode(user.encode()).decode()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = _head(self.rfile)
            made.heads.append(head)
            if user and wanted.lower() not in head.lower():
                page = "<html><head><title>Access denied</title></head></html>"
                self.wfile.write(answer("407 Proxy Authentication Required", page, kind="text/html"))
            elif refused:
                self.wfile.write(answer(refused, "<html></html>", kind="text/html"))
            else:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._tunnel()

        def _tunnel(self) -> None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", target)) as server:
                other = {self.request: server, server: self.request}
                while True:
                    for end in select.select([*other], [], [], 10)[0]:
                        if not (data := end.recv(65536)):
                            return
                        other[end].sendall(data)

    with listening(Handler) as made.port:
        yield made


def server_tls(authority: trustme.CA, name: str = "127.0.0.1", days: int = 1) -> ssl.SSLContext:
    """Return a server's TLS context with a certificate for a host name that is valid until so many days from now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days)
    certificate = authority.issue_cert(name, not_before=end - datetime.timedelta(2), not_after=end)
    certificate.configure_cert(context)
    return context
