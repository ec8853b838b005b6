"""Say in one line why a server cannot be reached: redirects, proxies, certificates, and servers that are not running.

The functions take addresses and the exceptions of a failed connection, in the order of their causes. aiohttp is not
imported.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.texts import one_line


def _failure(text: str, kind: str = "connection", *, is_lasting: bool = False) -> BackendError:
    """Return the error of a failed connection; if the next call fails in the same way, the error is fatal."""
    return BackendError(text, kind=kind, transient=not is_lasting, fatal=is_lasting)


def redirect_target(location: str) -> str:
    """Return the address in the header of a redirect for a message.

    It has no user and no query, in which login pages get the state of a session.
    """
    try:
        target = urlsplit(location)
    except ValueError:
        return "an address that cannot be read"
    return one_line(
        target._replace(netloc=target.netloc.rpartition("@")[2], query="", fragment="").geturl(), 100
    )


class Proxy(NamedTuple):
    """A proxy: its address, which may have a password, and how a message shows it; no host if it cannot be read."""

    address: str
    host: str | None
    port: int | None
    shown: str


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy that the environment names for an address; None if there is none."""
    parts = urlsplit(url)
    address = getproxies().get(parts.scheme) or getproxies().get("all")
    if not address or proxy_bypass(parts.hostname or ""):
        return None
    names = [
        name for scheme in (parts.scheme, "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    ]
    variable = next((name for name in names if os.environ.get(name)), "the system's settings")
    address = address if "://" in address else f"http://{address}"
    try:
        proxy = urlsplit(address)
        shown = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]} ({variable})"
        return Proxy(address, proxy.hostname, proxy.port, shown)
    except ValueError:
        return Proxy(address, None, None, variable)


def usable_proxy(url: str) -> str | None:
    """Return the address of the proxy for a server; None if there is none.

    :raises BackendError: if calls cannot be sent through it.
    """
    proxy = proxy_for(url)
    if proxy is None:
        return None
    if not proxy.host:
        text = f"{proxy.shown}: not the address of a proxy; write http://HOST:PORT, or unset it"
        raise _failure(text, is_lasting=True)
    if proxy.shown.startswith("socks"):
        text = f"the proxy {proxy.shown} is a SOCKS proxy, which is not supported; use an HTTP proxy"
        raise _failure(f"cannot reach {url}: {text}", is_lasting=True)
    return proxy.address


def proxy_problem(status: int, url: str) -> BackendError:
    """Return why a proxy does not forward a request to a server.

    :param status: the proxy's answer.
    """
    proxy = proxy_for(url)
    name = "the proxy" if proxy is None else f"the proxy {proxy.shown}"
    if status == 407:
        text = f"{name} asks for a user (status 407); put USER:PASSWORD@ before the host in its address"
        return _failure(f"cannot reach {url}: {text}", "key", is_lasting=True)
    host = urlsplit(url).hostname
    if 400 <= status < 500:
        text = f"{name} refuses connections to {host} (status {status}); allow it there, or add {host} to NO_PROXY"
        return _failure(f"cannot reach {url}: {text}", "forbidden", is_lasting=True)
    return _failure(f"cannot reach {url}: {name} has no connection to {host} (status {status})")


#: reasons of OpenSSL for an answer that is not TLS
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
)
#: alerts of a server that wants a certificate of the client, or another one
_WANTS_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "HANDSHAKE_FAILURE",
)
CLIENT_CERTIFICATE = (
    "the server asks for a client certificate, which calls do not send; go through a local proxy that has one"
)
#: what is wrong with a certificate, by the code of OpenSSL (``x509_vfy.h``)
_CERTIFICATE = {
    9: "is not valid yet; correct the clock of this machine",
    10: "has expired; renew it, or correct the clock of this machine",
    62: "is for another host; use the host name that is in it, or correct the address",
    64: "is for another host; use the host name that is in it, or correct the address",
}


def certificates_problem() -> str | None:
    """Return what is wrong with the file that ``SSL_CERT_FILE`` names; None if it has certificates."""
    file = os.environ.get("SSL_CERT_FILE")
    try:
        ssl.create_default_context(cafile=file or None)
    except OSError:
        return f"SSL_CERT_FILE: {file} is not a file with certificates in the PEM format; correct or unset it"
    return None


def problem_of(chain: Sequence[BaseException], url: str) -> BackendError:
    """Return why a server cannot be reached.

    :param chain: the exception of a call, its cause, the cause's cause and so on.
    """
    if any(isinstance(error, ssl.SSLError) for error in chain) and (problem := certificates_problem()):
        return _failure(problem, is_lasting=True)
    proxy = proxy_for(url)
    refused = next((e for e in chain if type(e).__name__ == "ClientHttpProxyError"), None)
    if refused is not None:
        return proxy_problem(int(getattr(refused, "status", 0)), url)
    # The libraries' errors name the host to which they connect.
    place = next(((e.host, e.port) for e in chain if hasattr(e, "host") and hasattr(e, "port")), None)
    server, host = "the server", urlsplit(url).hostname
    if proxy is not None and place == (proxy.host, proxy.port):
        server, host = f"the proxy {proxy.shown}", proxy.host
    if (text := _tls_problem(chain, server)) is not None:
        return _failure(f"cannot reach {url}: {text}", is_lasting=True)
    # The innermost cause with a message is the operating system's error.
    text = next((str(cause) for cause in reversed(chain) if str(cause)), "")
    for error in reversed(chain):
        if isinstance(error, ConnectionRefusedError):
            text = (
                f"{server} is not running at this port (connection refused); start it, or correct the address"
            )
        elif isinstance(error, socket.gaierror):
            fix = "correct it, or check the network and HTTPS_PROXY"
            text = f"the host of {server}, {host}, is not known ({error.strerror}); {fix}"
        elif isinstance(error, ConnectionResetError):
            text = f"{server} closed the connection"
    # No connection at all: no prompt is the reason. litellm may use httpx.
    never = any(type(error).__name__ in ("ClientConnectorError", "ConnectError") for error in chain) or any(
        isinstance(error, ConnectionRefusedError | socket.gaierror) for error in chain
    )
    return _failure(f"cannot reach {url}: {text}", "unreachable" if never else "connection")


def _tls_problem(chain: Sequence[BaseException], server: str) -> str | None:
    """Return why there is no connection with TLS; None for another reason."""
    for error in chain:
        # The error of aiohttp that wraps it has no code.
        if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_code"):
            named = next(
                (f"{n}={os.environ[n]}" for n in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(n)), ""
            )
            remedy = (
                f"add its certificate to {named}" if named else "set SSL_CERT_FILE to a PEM file that has it"
            )
            unknown = f"is from an unknown authority ({error.verify_message}); {remedy}"
            return f"the server's certificate {_CERTIFICATE.get(error.verify_code, unknown)}"
        reason = getattr(error, "reason", None)
        if isinstance(error, ssl.SSLError) and isinstance(reason, str):
            if reason in _NOT_TLS:
                return f"{server} does not use TLS; write http:// in place of https://"
            if any(name in reason for name in _WANTS_CERTIFICATE):
                return CLIENT_CERTIFICATE
    return None
