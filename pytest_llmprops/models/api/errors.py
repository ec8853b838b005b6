"""Turn the failure of a network call into a :class:`BackendError`.

The functions take a status, headers and a body, or an exception with these attributes: that of a call of ours, or of
litellm. Neither aiohttp nor litellm is imported. Messages from servers become one short line: control characters are
escaped. The broker removes secrets.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.models.api.connections import (
    CLIENT_CERTIFICATE,
    certificates_problem,
    problem_of,
    proxy_problem,
    redirect_target,
)
from pytest_llmprops.models.api.rate_hints import seconds_to_wait

LONGEST_MESSAGE = 300
_NO_MODEL = re.compile(
    r"model\b.{0,120}(does not exist|do(es)? not have access|not found|not exist|is not available)"
    r"|(unknown|invalid|no such|unsupported) model|invalid model id|model identifier is invalid|no models? loaded"
    r"|^model: ",
    re.IGNORECASE | re.DOTALL,
)
#: also the budgets of LiteLLM's proxy (https://docs.litellm.ai/docs/proxy/users)
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient (funds|credits|balance)|credit balance is too low"
    r"|budget_exceeded|budget has been exceeded|exceeded ?budget",
    re.IGNORECASE,
)
#: what only content filters say: those of OpenAI, Azure and Anthropic, xAI, OpenRouter, DashScope and DeepSeek
_CODED = re.compile(
    r"content_filter|ContentPolicyViolation|blocked by content filtering|SAFETY_CHECK_|violates usage guidelines"
    r"|input was flagged|flagged as potentially violating|data_?inspection_?failed|content exists risk",
    re.IGNORECASE,
)
_FILTER = re.compile(rf"{_CODED.pattern}|content filtering|content_?policy|responsible ?ai", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|only the default|not allowed|not permitted"
    r"|deprecated|extra inputs|extra_forbidden|incompatible|not enabled|not available|disabled"
    r"|only [\d.]+ is allowed|must be 'json_schema'",
    re.IGNORECASE,
)
_ONLY_RESPONSES = re.compile(
    r"only (supported|available) in.{0,20}v1/responses|use the responses api", re.IGNORECASE
)
#: OpenRouter's 404 for a model that the account's privacy settings, or the parameters, leave without a provider
_NO_PROVIDER = re.compile(r"no (allowed )?(endpoints|providers) (found|are? ?available)", re.IGNORECASE)
#: Gemini refuses a wrong key with status 400
_WRONG_KEY = re.compile(r"api[ _]key (not valid|not found|invalid|expired)", re.IGNORECASE)
#: DashScope's models that think answer only streams, unless their thoughts are turned off
_THINKS_IN_STREAM = re.compile(r"enable_thinking", re.IGNORECASE)
_ONLY_STREAM = re.compile(r"only supports? stream|stream mode|non-streaming|非流式", re.IGNORECASE)
#: chat templates without a role for system messages, as vLLM and LM Studio report them; o1-mini; MiniMax
_NO_SYSTEM = re.compile(
    r"system role not supported|(role|does not support)\W+system\b|only user(,| and) assistant"
    r"|conversation roles must alternate",
    re.IGNORECASE,
)
_NO_CHAT = re.compile(r"not a chat model|does not support chat|chat template", re.IGNORECASE)
#: the values that a parameter may have
_RANGE = re.compile(
    r"strictly positive|\(0(?:\.0+)?, ?[12]|greater than 0|larger than 0|must be positive|> ?0(?!\.\d)",
    re.IGNORECASE,
)
#: what libraries and gateways write before the message of a provider
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+Error: )+(?:\w+Exception - )?(?=.)")
#: the headers with the id of a call, which a provider's support asks for
_REQUEST_IDS = ("x-request-id", "request-id", "x-litellm-call-id", "x-amzn-requestid", "apim-request-id")
_LONGEST_ID = 100
#: the statuses for the codes of MiniMax in an answer with status 200
#: (https://platform.minimax.io/docs/api-reference/errorcode)
_MINIMAX = {
    1001: 504, 1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1039: 429, 1041: 429, 1042: 400, 2013: 400,
    2049: 401, 2056: 402,
}  # fmt: skip
_MINIMAX_FILTERED = (1026, 1027)
#: spellings of ``logprobs`` in errors
_LOGPROBS = re.compile(r"\blog[ _-]?prob(s|abilit(y|ies))?\b", re.IGNORECASE)
#: servers' names for the samples of one call that occur in no other error
_SEVERAL = re.compile(
    r"\bcandidates?\b|candidate_?count|completion choice|(multiple|number of) (choices|completions)",
    re.IGNORECASE,
)
#: not only at the start: litellm puts words before a server's page
_HTML = re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE)
_TITLE = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
#: litellm's message for an answer without a body
_ONLY_STATUS = re.compile(r"Error code: \d+")
#: nginx: a request without a client certificate, and one with HTTP to the port of HTTPS
_WANTS_CERTIFICATE = re.compile(r"SSL certificate (was sent|error)", re.IGNORECASE)
_WANTS_HTTPS = re.compile(r"(plain )?HTTP request (was sent )?to (an )?HTTPS (port|server)", re.IGNORECASE)
#: 498: Groq has no capacity for a flexible tier
_TRANSIENT = (408, 409, 425, 429, 498)
#: OpenAI and Groq: one request has more tokens than a minute
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)


def clean(text: str) -> str:
    """Return ``text`` as one line of at most 300 characters (:func:`one_line`), which may still show a secret."""
    return one_line(text[: 20 * LONGEST_MESSAGE], LONGEST_MESSAGE)


def request_id(headers: Mapping[str, str]) -> str:
    """Return the id that the server gave to a call; empty if it gave none."""
    names = (name for name in _REQUEST_IDS if headers.get(name))
    name = next(names, None)
    return cleaned_id(headers[name]) if name else ""


def cleaned_id(value: Any) -> str:
    """Return the id of a call that a server sent, as a short text; empty if it is none."""
    # Not cut: it could then end with a part of a key that a server repeats.
    return clean(value) if isinstance(value, str) and len(value) <= _LONGEST_ID else ""


def marked(text: str, request_id: str) -> str:
    """Return a message of at most 300 characters with the id of its call at the end."""
    end = f" (request {request_id})" if request_id else ""
    return one_line(text, LONGEST_MESSAGE - len(end)) + end


def is_html(headers: Mapping[str, str], body: str) -> bool:
    """Return True if the answer is a web page."""
    return "text/html" in headers.get("content-type", "").lower() or bool(_HTML.search(body[:500]))


def _title(body: str) -> str:
    """Return the title of a web page, in which servers and proxies name the problem; empty if it has none."""
    title = _TITLE.search(body[:10_000])
    return "" if title is None else html.unescape(title[1]).strip()


def _details(body: Any) -> tuple[str, str, str, str]:
    """Return (message, code, type, parameter) of an error body in any of the usual shapes."""
    if isinstance(body, list) and body:
        # Gemini's compatible API sends a list with one error.
        body = body[0]
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    if not isinstance(body, Mapping):
        return _WRAPPING.sub("", body if isinstance(body, str) else ""), "", "", ""
    inner = body.get("innererror")
    inner_code = inner.get("code", "") if isinstance(inner, Mapping) else ""
    message = str(body.get("message") or body.get("detail") or body.get("error") or "")
    code = f"{body.get('code') or ''} {inner_code}".strip()
    return _WRAPPING.sub("", message), code, str(body.get("type") or ""), str(body.get("param") or "")


def refused_parameter(status: int, body: Any, sent: Iterable[str]) -> str | None:
    """Return the parameter that the API does not accept, if its error says so.

    :param sent: the names of the parameters that were sent and can be changed or left out.
    """
    if status not in (400, 403, 422):
        return None
    message, code, _, param = _details(body)
    names = list(sent)
    if "temperature" in names and "temperature" in f"{param} {message}".lower() and names_range(body):
        return "temperature"
    if not _REFUSED.search(f"{code} {message}"):
        return None
    # The part of a parameter, such as text.format.
    if (whole := param.partition(".")[0]) in names:
        return whole
    # A quoted name is certainly the parameter. Without quotes, it may be an ordinary word of the message.
    for form in (r"['\"`]{}['\"`]", r"\b{}\b"):
        for name in names:
            if re.search(form.format(re.escape(name)), message):
                return name
    return "logprobs" if "logprobs" in names and _LOGPROBS.search(f"{param} {message}") else None


def needs_responses(status: int, body: Any) -> bool:
    """Return True if an error of the chat API says that the model has only the Responses API."""
    return status in (400, 404) and bool(_ONLY_RESPONSES.search(_details(body)[0]))


def refuses_system(status: int, body: Any) -> bool:
    """Return True if an error says that the model has no role for system messages."""
    return status in (400, 422, 500) and bool(_NO_SYSTEM.search(_details(body)[0]))


def names_range(body: Any) -> bool:
    """Return True if an error says that a parameter must be above 0."""
    return bool(_RANGE.search(_details(body)[0]))


def refuses_several(status: int, body: Any) -> bool:
    """Return True if an internal error says that the server returns only one reply per call (llama.cpp)."""
    return status in (500, 501) and bool(_SEVERAL.search(_details(body)[0]))


def is_filtered(status: int, body: Any) -> bool:
    """Return True if the error means that a content filter refused the prompt."""
    message, code, kind, _ = _details(body)
    text = f"{code} {kind} {message if _CODED.search(message) else ''}"
    return status in (400, 403) and bool(_FILTER.search(text))


def in_answer(answer: Mapping[str, Any]) -> tuple[int, Any] | None:
    """Return (status, body) of the error that an answer with status 200 reports; None if it reports none.

    Proxies send an error instead of an answer; a numeric code is the actual status. MiniMax sends ``base_resp``.
    """
    inner, state = answer.get("error"), answer.get("base_resp")
    if inner:
        code = inner.get("code") if isinstance(inner, Mapping) else None
        return (code if isinstance(code, int) and 400 <= code < 600 else 500), inner
    state = state if isinstance(state, Mapping) else {}
    code = state.get("status_code")
    if isinstance(code, int) and code and not answer.get("choices") and not answer.get("content"):
        filtered = {"code": "content_filter"} if code in _MINIMAX_FILTERED else {}
        return _MINIMAX.get(code, 500), {"message": f"{state.get('status_msg')} ({code})", **filtered}
    return None


def from_status(status: int, headers: Mapping[str, str], body: Any, *, url: str, model: str) -> BackendError:
    """Return the error for an HTTP answer.

    :param headers: with lower-case names.
    :param body: the parsed JSON, or the text if it is not JSON.
    :param url: the base URL, for the message.
    """
    message, code, kind, _ = _details(body)
    is_page = isinstance(body, str) and is_html(headers, body)
    if is_page:
        # nginx repeats the status.
        message = _title(message).removeprefix(f"{status} ")
    elif _ONLY_STATUS.fullmatch(message):
        message = ""
    detail = f": {message}" if message else ""

    def error(text: str, kind: str, *, fatal: bool = True, **fields: Any) -> BackendError:
        shown = marked(clean(text + detail), request_id(headers))
        return BackendError(shown, kind=kind, fatal=fatal, **fields)

    refused = f"the API refuses the request (status {status})"
    if status == 402 or (status in (400, 429) and _QUOTA.search(f"{code} {kind} {message}")):
        return error("the account's quota is used up", "quota")
    if status >= 500 or status in _TRANSIENT:
        if status == 429 and _TOO_LARGE.search(message):
            return error(refused, "request", fatal=False)
        wait = seconds_to_wait(headers, body, message)
        text = f"status {status}"
        return error(text, text, fatal=False, transient=True, retry_after=wait)
    if 300 <= status < 400:
        target = redirect_target(headers.get("location", ""))
        fix = "correct the base URL, or log in to the gateway"
        text = f"{url} redirected to {target} (status {status}), which is not followed; {fix}"
        return BackendError(clean(text), kind="url", fatal=True)
    if status == 407:
        return error(proxy_problem(status, url).message, "key")
    if status in (495, 496) or (status in (400, 403) and _WANTS_CERTIFICATE.search(message)):
        return error(f"{url}: {CLIENT_CERTIFICATE} (status {status})", "forbidden")
    if status == 400 and _WANTS_HTTPS.search(message):
        return error(f"{url}: the server answers only with TLS; write https:// (status 400)", "url")
    if status == 401 and "basic" in headers.get("www-authenticate", "").lower():
        text = f"{url} asks for a user (status 401); put USER:PASSWORD@ before the host in the base URL"
        return error(text, "key")
    if status == 403 and is_page:
        text = f"{url}: the server, or a firewall or proxy in front of it, refuses the request (status 403)"
        return error(f"{text}; check the key, the address and what the proxy allows", "forbidden")
    if status in (401, 403) or (status == 400 and _WRONG_KEY.search(message)):
        fix = "set the right one in OPENAI_API_KEY, or in your provider's variable"
        return error(
            f"the API refuses the key (status {status}); {fix}", "key" if status == 401 else "forbidden"
        )
    if status == 413:
        text = "the prompt is too long for the server, or a proxy in front of it (status 413)"
        return error(f"{text}; raise its limit (nginx: client_max_body_size)", "status 413", fatal=False)
    if is_page:
        return not_json(url, body, headers, f"status {status}{detail}")
    if status in (400, 404) and _NO_CHAT.search(message):
        text = f"'{model}' is a base model without a chat format; measure it as completions:{model}"
        return error(text, "model")
    if status == 400 and _ONLY_STREAM.search(message):
        fix = "choose another model"
        if _THINKS_IN_STREAM.search(message):
            fix = "add --llm-param enable_thinking=false, which turns its thoughts off"
        text = f"the API answers these calls to '{model}' only as a stream, which is not supported; {fix}"
        return error(text, "request")
    if status == 404 and _NO_PROVIDER.search(message):
        return error(f"no provider serves '{model}' under the settings of the account", "model")
    if "DeploymentNotFound" in code:
        return error(f"DeploymentNotFound: no deployment of this name at {url}", "url")
    no_model = "model_not_found" in code or _NO_MODEL.search(message)
    if no_model and status in (400, 404):
        return error(f"unknown model '{model}'", "model")
    if status in (404, 405):
        fix = "a base URL usually ends in /v1"
        if "/openai/deployments/" in url:
            fix = "add ?api-version=VERSION to the base URL, or correct it"
        return error(f"no API at {url} (status {status}); {fix}", "url")
    return error(refused, "request", fatal=False)


def not_json(url: str, body: str, headers: Mapping[str, str], problem: str = "") -> BackendError:
    """Return the error for an answer that is not JSON, as from a server that is not an API.

    :param problem: what the server says; default: the title of its page.
    """
    known = request_id(headers)
    if not body.strip():
        # A gateway that drops an answer; the next one may arrive.
        text = marked(clean(f"the answer of {url} is empty"), known)
        return BackendError(text, kind="response", transient=True)
    content = "HTML" if is_html(headers, body) else "text"
    problem = problem or _title(body)
    shown = f" ({problem})" if problem else ""
    text = f"{url} returned {content} instead of JSON{shown}; check the base URL, which usually ends in /v1"
    return BackendError(marked(clean(text), known), kind="url", fatal=True)


def from_opening(error: Exception) -> BackendError:
    """Return the error for an exception of a client while it is created: it reads the environment."""
    if isinstance(error, BackendError):
        return _cleaned(error)
    text = certificates_problem() if isinstance(error, OSError) else None
    return BackendError(clean(text or str(error)), kind="request", fatal=True)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause's cause and so on, at most ten."""
    seen = 0
    cause: BaseException | None = error
    while cause is not None and seen < 10:
        yield cause
        cause, seen = cause.__cause__ or cause.__context__, seen + 1


def status_of(error: Exception) -> int:
    """Return the status in the exception of a call; 0 without one."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else 0


def error_body(error: Exception) -> Any:
    """Return the answer's body from the exception of a call, or its message."""
    body = getattr(error, "body", None)
    return body if body is not None else getattr(error, "message", None) or str(error)


def is_lost(error: BaseException) -> bool:
    """Return True if there is no connection, or no answer in time."""
    names = {cls.__name__ for cls in type(error).__mro__}
    # The names are those of litellm and of aiohttp.
    return bool(names & {"APIConnectionError", "ClientError"}) or isinstance(error, OSError)


def from_exception(error: Exception, *, url: str, model: str) -> BackendError:
    """Return the error for the exception of a call."""
    if isinstance(error, BackendError):
        # Of a body that was refused.
        return _cleaned(error)
    status, names = status_of(error), {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, TimeoutError) or ("APITimeoutError" in names and not _is_disconnected(error)):
        return BackendError("no answer in time (--llm-timeout)", kind="timeout", transient=True)
    package = next((cause.name for cause in _chain(error) if isinstance(cause, ModuleNotFoundError)), None)
    if package:
        text = f"{model} needs the package '{package.partition('.')[0]}', which is not installed: pip install {package}"
        return BackendError(clean(text), kind="package", fatal=True)
    if is_lost(error) or _is_wrapped(error):
        return _cleaned(problem_of(list(_chain(error)), url))
    if status:
        # litellm builds an artificial response and keeps the server's headers in another attribute.
        raw = getattr(error, "litellm_response_headers", None) or getattr(error, "headers", None)
        raw = raw or getattr(getattr(error, "response", None), "headers", None) or {}
        headers = {str(k).lower(): str(v) for k, v in dict(raw).items()}
        body = error_body(error)
        if "litellm" in type(error).__module__ and not isinstance(body, Mapping):
            known = _from_litellm(str(body), url, model)
            if known is not None:
                return known
        return from_status(status, headers, body, url=url, model=model)
    return BackendError(clean(f"{type(error).__name__}: {error}"), kind="backend")


def _from_litellm(message: str, url: str, model: str) -> BackendError | None:
    """Return the error for those messages of litellm that come with a misleading status; otherwise None."""
    text = clean(message)
    if "Missing credentials" in message or ("Missing" in message and "API Key" in message):
        return BackendError(text, kind="key", fatal=True)
    if "LLM Provider NOT provided" in message:
        hint = f"unknown provider in '{model}': write litellm:PROVIDER/NAME, for example"
        return BackendError(f"{hint} litellm:anthropic/claude-3-5-haiku-20241022", kind="model", fatal=True)
    received = message.partition("invalid response from LLM endpoint. Received: ")[2]
    if received:
        return not_json(url, received.lstrip("'\""), {})
    if message.endswith("Connection error."):
        return BackendError(f"cannot reach {url}", kind="unreachable", transient=True)
    return None


def _is_wrapped(error: Exception) -> bool:
    """Return True if litellm gives a failed connection the status 500."""
    return "litellm" in type(error).__module__ and any(map(is_lost, list(_chain(error))[1:]))


def _is_disconnected(error: Exception) -> bool:
    """Return True if a connection was refused or lost, which litellm's aiohttp client reports as a timeout."""
    causes = list(_chain(error))
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return False
    return any(cls.__name__ == "ClientConnectionError" for cause in causes for cls in type(cause).__mro__)


def _cleaned(error: BackendError) -> BackendError:
    text = clean(error.message)
    return BackendError(text, kind=error.kind, transient=error.transient, fatal=error.fatal)
