"""Connections that fail: what is said about statuses, redirects, certificates and proxies of real servers."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
import trustme

from pytest_llmprops.core.requests import Chat
from pytest_llmprops.models.api import errors
from pytest_llmprops.models.base import Result
from tests.support.backends import called, error, make, reply
from tests.support.networks import (
    answer,
    answering,
    clear_network,
    connecting_proxy,
    server_tls,
)
from tests.support.servers import free_port

KEY = "sk-0123456789-secret"
OK = answer("200 OK", json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}))
#: with aiohttp 3.14
proxy_user = pytest.mark.filterwarnings(
    "ignore:BasicAuth is deprecated", "ignore:The 'proxy_auth' parameter is"
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a key, and remove what the machine sets."""
    clear_network(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def trust(authority: trustme.CA, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust a private authority."""
    authority.cert_pem.write_to_path(str(folder / "trusted.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "trusted.pem"))


def ask(url: str, **headers: str) -> Result:
    """Return the result of one call to the server at an address without a path."""
    return called(make("openai:m", base_url=f"{url}/v1", timeout=10.0, headers=headers), Chat.user("q"))[0]


def refused(result: Result, *said: str, kind: str, fatal: bool = True, transient: bool = False) -> str:
    """Check that a call failed with one short line that has these texts, and return the line."""
    got = error(result)
    assert (got.kind, got.fatal, got.transient) == (kind, fatal, transient), got
    line = str(got)
    assert [text for text in said if text not in line] == [], line
    assert "<" not in line
    assert KEY not in line
    assert line.isprintable()
    assert len(line) < 300
    return line


def page(status: str) -> bytes:
    """Return a page of nginx with a status and its reason."""
    html = f"<html>\r\n<head><title>{status}</title></head>\r\n<body><center><h1>{status}</h1></center></body></html>"
    return answer(status, html, kind="text/html")


# Statuses come before the body, which proxies and gateways send as HTML or leave empty.


@pytest.mark.parametrize("is_page", [True, False], ids=["HTML", "empty"])
@pytest.mark.parametrize(
    ("status", "kind", "is_fatal", "said"),
    [
        ("401 Unauthorized", "key", True, "refuses the key (status 401)"),
        ("407 Authentication Required", "key", True, "the proxy asks for a user (status 407); put USER:PASSWORD@"),
        ("413 Request Entity Too Large", "status 413", False, "the prompt is too long"),
        ("404 Not Found", "url", True, "usually ends in /v1"),
    ],
)  # fmt: skip
def test_status_is_read_before_the_body(
    is_page: bool, status: str, kind: str, is_fatal: bool, said: str
) -> None:
    """A refusal with an HTML page or an empty body names its status and what to do, and only a 404 also the page."""
    with answering(page(status) if is_page else answer(status, kind="text/plain")) as server:
        line = refused(ask(f"http://127.0.0.1:{server.port}"), said, kind=kind, fatal=is_fatal)
    assert ("returned HTML instead of JSON (status 404: Not Found)" in line) == (is_page and kind == "url")


def test_status_counts_without_its_body() -> None:
    """A refusal whose body is compressed in an unknown way is still one."""
    with answering(answer("502 Bad Gateway", "?", "Content-Encoding: br")) as server:
        result = ask(f"http://127.0.0.1:{server.port}")
    refused(result, kind="status 502", fatal=False, transient=True)


def test_basic_authentication_names_the_address() -> None:
    """A gateway that asks for a user is told apart from an API that refuses the key."""
    wanted = answer("401 Unauthorized", "", 'WWW-Authenticate: Basic realm="x"', kind="text/html")
    with answering(wanted) as server:
        url = f"http://127.0.0.1:{server.port}"
        refused(ask(url), "asks for a user", "USER:PASSWORD@ before the host", kind="key")


@pytest.mark.parametrize(
    ("to", "status", "said"),
    [
        (
            "http://localhost:{port}/v1/messages?state=x",
            "307 Temporary Redirect",
            "http://localhost:{port}/v1/messages (",
        ),
        ("/login?state=x", "302 Found", "/login ("),
        ("http://[bad", "308 Permanent Redirect", "an address that cannot be read"),
    ],
    ids=["another host", "login page", "unreadable"],
)
def test_redirect_is_one_line_and_its_host_gets_nothing(to: str, status: str, said: str) -> None:
    """No redirect is followed; the line names its target without the query."""
    with answering(OK) as other:
        moved = answer(status, "", f"Location: {to.format(port=other.port)}")
        with answering(moved) as server:
            result = ask(f"http://127.0.0.1:{server.port}", **{"X-Own": "own-secret-value"})
        line = refused(result, f"redirected to {said.format(port=other.port)}", status[:3], kind="url")
    assert "state=" not in line
    assert other.heads == []


@pytest.mark.parametrize(
    ("content", "said"), [(None, "is not a file with certificates"), ("hello", "in the PEM format")]
)
def test_certificate_file_that_cannot_be_used(
    content: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong ``SSL_CERT_FILE`` is named with its value."""
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    refused(ask("https://127.0.0.1:1"), f"SSL_CERT_FILE: {file} ", said, kind="request")


@pytest.mark.parametrize(
    ("trusts", "host", "days", "said"),
    [
        ("nobody", "127.0.0.1", 1, ("unknown authority", "set SSL_CERT_FILE to a PEM file")),
        ("another", "127.0.0.1", 1, ("unknown authority", "to SSL_CERT_FILE=")),
        ("it", "example.org", 1, ("certificate is for another host",)),
        ("it", "127.0.0.1", -1, ("has expired",)),
    ],
)
def test_certificate_of_a_server(
    trusts: str, host: str, days: int, said: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown authority asks for its certificate, a wrong host name for another address; an expired one says so."""
    authorities = {"it": trustme.CA(), "another": trustme.CA()}
    if trusts in authorities:
        trust(authorities[trusts], tmp_path, monkeypatch)
    with answering(OK, server_tls(authorities["it"], host, days)) as server:
        refused(ask(f"https://127.0.0.1:{server.port}"), *said, kind="connection")


def test_https_to_a_server_of_http() -> None:
    """A server without TLS is named as such, in place of OpenSSL's words."""
    with answering(answer("400 Bad Request")) as server:
        line = refused(
            ask(f"https://127.0.0.1:{server.port}"),
            "does not use TLS; write http://",
            kind="connection",
        )
    assert "SSL:" not in line


def test_alert_for_a_client_certificate() -> None:
    """OpenSSL's alert of TLS 1.3 is the cause of a fatal error."""
    alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    got = errors.from_exception(alert, url="https://h/v1", model="m")
    assert (got.kind, got.fatal) == ("connection", True)
    assert "asks for a client certificate" in str(got)


def test_local_server_that_is_not_running() -> None:
    """A refused connection says that the server is not running, and stays transient: it may start."""
    url = f"http://localhost:{free_port()}"
    said = "is not running at this port (connection refused); start it"
    line = refused(ask(url), said, kind="unreachable", fatal=False, transient=True)
    assert line.startswith(f"cannot reach {url}")
    assert "Errno" not in line


def test_unknown_host_name() -> None:
    """A name that cannot be resolved is named, and transient."""
    result = ask("http://no-such-host.invalid")
    refused(result, "no-such-host.invalid, is not known", kind="unreachable", fatal=False, transient=True)


@proxy_user
@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_proxy_of_the_environment_connects(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls over TLS go through the proxy of each variable, with its user, except to hosts in ``NO_PROXY``."""
    authority = trustme.CA()
    trust(authority, tmp_path, monkeypatch)
    with (
        answering(OK, server_tls(authority, "api.invalid")) as server,
        connecting_proxy(server.port, user="user:pass word") as proxy,
    ):
        monkeypatch.setenv(variable, f"http://user:pass%20word@127.0.0.1:{proxy.port}")
        assert reply(ask("https://api.invalid")).text == "hello"
        assert proxy.heads[0].startswith("CONNECT api.invalid:443 ")
        assert KEY not in "".join(proxy.heads)
        monkeypatch.setenv("NO_PROXY", "example.org,api.invalid")
        assert "is not known" in str(error(ask("https://api.invalid")))


@proxy_user
@pytest.mark.parametrize(
    ("user", "status", "kind", "said"),
    [
        ("other:pw", "", "key", "asks for a user (status 407); put USER:PASSWORD@ before the host in its address"),
        ("", "403 Forbidden", "forbidden", "refuses connections to api.invalid (status 403); allow it there, or add"),
        ("", "502 Bad Gateway", "connection", "has no connection to api.invalid (status 502)"),
    ],
)  # fmt: skip
def test_refusals_of_a_proxy_name_it(
    user: str, status: str, kind: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that refuses is named with its variable, and without its password; a lost connection is transient."""
    with connecting_proxy(1, user=user, refused=status) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:proxy-password@127.0.0.1:{proxy.port}")
        is_lost = kind == "connection"
        line = refused(ask("https://api.invalid"), said, kind=kind, fatal=not is_lost, transient=is_lost)
    assert f"the proxy http://127.0.0.1:{proxy.port} (https_proxy)" in line
    assert "proxy-password" not in line


def test_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that is unknown is not taken for the server."""
    monkeypatch.setenv("https_proxy", f"http://no-such-proxy.invalid:{free_port()}")
    said = "the proxy http://no-such-proxy.invalid:"
    refused(ask("https://api.invalid"), said, kind="unreachable", fatal=False, transient=True)


@pytest.mark.parametrize(
    ("address", "said"), [("::::", "https_proxy: "), ("socks5://127.0.0.1:9", "a SOCKS proxy")]
)
def test_proxy_address_that_cannot_be_used(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of a proxy that is not understood names the variable."""
    monkeypatch.setenv("https_proxy", address)
    assert error(ask("https://api.invalid"), said).fatal
