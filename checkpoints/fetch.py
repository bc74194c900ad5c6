"""One file over HTTP: streamed to a partial file, resumed, retried. Knows nothing of its content."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from checkpoints.errors import DownloadError
from checkpoints.files import write_json, writing
from checkpoints.numbers import whole_number
from checkpoints.progress import SILENT, Progress

if TYPE_CHECKING:
    from requests import Response, Session

CHUNK_BYTES = 1 << 16
"""The most that is written at once."""

LARGEST_FILE = 4 << 30
"""Bytes; nothing that is fetched here is near it, and no server fills the disk."""

MOST_REDIRECTS = 10
WORTHWHILE_BYTES = 1 << 20
"""An attempt that brought so many new bytes starts the count of failures again."""


@dataclass(frozen=True)
class RetryPolicy:
    """How patient a download is. Times in seconds.

    Attributes:
      attempts: failures in a row before giving up.
      first_wait: before the second attempt; doubled each time.
      longest_wait: a server that asks for a longer one (Retry-After) is given up.
      connect_timeout: to reach the server.
      read_timeout: without a byte from it; and how long it may send slower than `slowest`.
      slowest: bytes a second; a server that sends fewer is taken for one that fell silent.
      sleep: waits.
    """

    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 300.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    slowest: float = 1000.0
    sleep: Callable[[float], None] = time.sleep


PATIENT = RetryPolicy()
"""What people get."""


@dataclass(frozen=True)
class Fetched:
    """A complete file.

    Attributes:
      size: its bytes.
      resumed: bytes that were there before the last connection and were not sent again.
    """

    size: int
    resumed: int


@dataclass(frozen=True)
class _Beginning:
    """What the first response said of the file; kept beside the partial file."""

    url: str
    validator: str | None
    total: int | None


class _FailedError(Exception):
    """One attempt failed in a way that another may not; `wait` is what the server asked for."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def checked_url(url: str, next_step: str | None = None) -> str:
    """Gives `url` back if it is an http or https address.

    Raises:
      DownloadError: it is a path, a file: address or of another kind.
    """
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        sound = False
    if not sound:
        raise DownloadError(
            "This is no address that can be downloaded from.",
            expected="an address that starts with https:// or http://",
            received=url,
            next_step=next_step,
        )
    return url


def shown_url(url: str) -> str:
    """The address without a user name and password, for messages and notes."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def megabytes(size: int) -> str:
    """A number of bytes as people read it."""
    return f"{size / 1e6:.1f} MB"


def fetch(
    url: str,
    partial: Path,
    *,
    description: str,
    next_step: str | None = None,
    progress: Progress = SILENT,
    policy: RetryPolicy = PATIENT,
) -> Fetched:
    """Fetches `url` into `partial`, from where an earlier call stopped if the file is the same.

    The same file: the server's strong ETag, else its Last-Modified, is sent as If-Range; the
    total length must agree in any case. Cut connections, time-outs, 408, 429 and 5xx are
    tried again after a wait that doubles; Retry-After is heeded. Redirects lead to https, or
    to http where `url` itself is http or the address is this machine's.

    Args:
      url: http or https.
      partial: where the bytes go; `partial` + ".json" notes what they are of. Complete when
        this returns: the caller renames it.
      description: what the messages call the file.
      next_step: of the errors this raises.
      progress: gets a task in bytes, and a line for each retry.
      policy: attempts, waits and time-outs.

    Raises:
      DownloadError: the server cannot be reached, refuses, or keeps failing.
      OutputError: `partial` cannot be written.
    """
    import requests

    transfer = _Transfer(
        checked_url(url, next_step), partial, description, next_step, progress, policy
    )
    furthest = transfer.offset()
    failures = 0
    with requests.Session() as session:
        while True:
            try:
                resumed = transfer.attempt(session)
                return Fetched(partial.stat().st_size, resumed)
            except _FailedError as failed:
                reached = transfer.offset()
                failures = 1 if reached >= furthest + WORTHWHILE_BYTES else failures + 1
                furthest = max(furthest, reached)
                if failures >= policy.attempts:
                    raise transfer.error(f"{failed}; given up at attempt {failures}") from failed
                wait = max(failed.wait, policy.first_wait * 2 ** (failures - 1))
                if wait > policy.longest_wait:
                    raise transfer.error(f"{failed} and asks to wait {wait:.0f} s") from failed
                progress.say(f"{description}: {failed}; trying again in {wait:g} s.")
                policy.sleep(wait)


class _Transfer:
    """The attempts for one file."""

    def __init__(
        self,
        url: str,
        partial: Path,
        description: str,
        next_step: str | None,
        progress: Progress,
        policy: RetryPolicy,
    ) -> None:
        self._url = url
        self._partial = partial
        self._beginning_path = partial.with_name(partial.name + ".json")
        self._description = description
        self._next_step = next_step
        self._progress = progress
        self._policy = policy
        self._reached_server = False

    def offset(self) -> int:
        """Bytes there already that may be continued."""
        return self._partial.stat().st_size if self._beginning() is not None else 0

    def error(self, reason: str) -> DownloadError:
        """The error that ends the download."""
        return DownloadError(
            f"{self._description}: {shown_url(self._url)}: {reason}.", next_step=self._next_step
        )

    def attempt(self, session: Session) -> int:
        """One request, to the end of the file; gives the byte it began at."""
        beginning = self._beginning()
        offset = self.offset()
        headers = {"Accept-Encoding": "identity", "User-Agent": "slimtune"}
        if beginning is not None:
            headers["Range"] = f"bytes={offset}-"
            if beginning.validator is not None:
                headers["If-Range"] = beginning.validator
        with self._network(), self._open(session, headers) as response:
            if response.status_code == 416 and beginning is not None:
                self._complete_or_discard(response, offset, beginning)
            elif response.status_code == 206 and beginning is not None:
                total = self._continued(response, offset, beginning)
                self._progress.say(f"{self._description}: resuming at {megabytes(offset)}.")
                self._receive(response, offset, total)
            else:
                self._refuse_status(response)
                if beginning is not None:
                    self._progress.say(
                        f"{self._description}: the server starts from the beginning."
                    )
                offset, total = 0, _content_length(response)
                self._begin(_Beginning(shown_url(self._url), _validator(response), total))
                self._receive(response, offset, total)
        return offset

    def _receive(self, response: Response, offset: int, total: int | None) -> None:
        with (
            writing(self._partial),
            self._partial.open("ab" if offset else "wb") as file,
            self._progress.task(self._description, total, "bytes") as task,
        ):
            task.advance(offset)
            self._refuse_size(total or 0)
            size = offset
            for chunk in self._chunks(response):
                size += len(chunk)
                self._refuse_size(size)
                file.write(chunk)
                task.advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if total is not None and size < total:
            raise _FailedError(f"the connection ended at {size} of {total} bytes")

    def _chunks(self, response: Response) -> Iterator[bytes]:
        """The body, each piece as soon as it has come.

        Undecoded: what lies on the server, also where it is called Content-Encoding: gzip.
        """
        began, received = time.monotonic(), 0
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=False):
            yield chunk
            received += len(chunk)
            seconds = time.monotonic() - began
            if seconds < self._policy.read_timeout:
                continue
            if received < self._policy.slowest * seconds:
                raise _FailedError(f"the server sent {received} bytes in {seconds:.0f} s")
            began, received = time.monotonic(), 0

    def _refuse_size(self, size: int) -> None:
        if size > LARGEST_FILE:
            raise self.error(f"larger than {megabytes(LARGEST_FILE)}, the most that is fetched")

    def _continued(self, response: Response, offset: int, beginning: _Beginning) -> int | None:
        """Total length, after checking that this answer continues the partial file."""
        text = response.headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", text)
        length = _content_length(response)
        if match is not None:
            first, last = int(match[1]), int(match[2])
            total = beginning.total if match[3] == "*" else int(match[3])
            if (
                first == offset
                and total in (beginning.total, None)
                and length in (last + 1 - first, None)
            ):
                return total
        self._discard()
        raise _FailedError(f"the server answered with another range (Content-Range: {text!r})")

    def _complete_or_discard(self, response: Response, offset: int, beginning: _Beginning) -> None:
        """416: nothing follows our last byte, because the file is complete or is another one."""
        total = response.headers.get("Content-Range", "").removeprefix("bytes */")
        if total == str(offset) and beginning.total in (offset, None):
            return
        self._discard()
        raise _FailedError("the file on the server is not the one that was begun")

    def _refuse_status(self, response: Response) -> None:
        status = response.status_code
        if status == 200:
            return
        said = f"the server answered {status} {response.reason or ''}".rstrip()
        if status in (408, 429) or status >= 500:
            raise _FailedError(said, _retry_after(response))
        raise self.error(said)

    def _open(self, session: Session, headers: dict[str, str]) -> Response:
        """The response behind the redirects, each checked before it is followed."""
        url = self._url
        timeouts = (self._policy.connect_timeout, self._policy.read_timeout)
        for _ in range(MOST_REDIRECTS):
            response = session.get(
                url, headers=headers, stream=True, allow_redirects=False, timeout=timeouts
            )
            self._reached_server = True
            if not response.is_redirect:
                return response
            response.close()
            url = self._redirected(url, response.headers["Location"])
        raise self.error(f"more than {MOST_REDIRECTS} redirects")

    def _redirected(self, url: str, location: str) -> str:
        """The address a redirect leads to, if it may be followed."""
        target = urljoin(url, location)
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") and not (parts.hostname and parts.port != 0):
            raise ValueError(f"{shown_url(target)} names no server")
        plain = self._url.startswith("http:") or parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme == "https" or (parts.scheme == "http" and plain):
            return target
        raise self.error(f"redirected to {shown_url(target)}, which is not followed: not https")

    @contextmanager
    def _network(self) -> Iterator[None]:
        """Sorts what can go wrong on the line: worth another attempt, or not."""
        import requests
        import urllib3

        try:
            yield
        except ValueError as error:  # requests' errors of addresses too
            raise self.error(f"is, or leads to, what is no address: {error}") from error
        except (requests.exceptions.SSLError, urllib3.exceptions.SSLError) as error:
            raise self.error(f"no trusted connection: {_innermost(error)}") from error
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
            # A machine without a network says so at once: waiting would not give it one.
            if not self._reached_server and not _was_cut(error):
                raise self.error(f"cannot be reached: {_innermost(error)}") from error
            raise _FailedError(f"the connection was cut: {_innermost(error)}") from error

    def _beginning(self) -> _Beginning | None:
        """What the partial file is of; None where there is nothing to continue."""
        try:
            note = json.loads(self._beginning_path.read_text(encoding="utf-8"))
            beginning = _Beginning(**note)
            empty = self._partial.stat().st_size == 0
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return None if empty or beginning.url != shown_url(self._url) else beginning

    def _begin(self, beginning: _Beginning) -> None:
        self._discard()
        write_json(self._beginning_path, asdict(beginning))

    def _discard(self) -> None:
        discard(self._partial)


def discard(partial: Path) -> None:
    """Removes a partial file and the note beside it."""
    partial.unlink(missing_ok=True)
    partial.with_name(partial.name + ".json").unlink(missing_ok=True)


def _validator(response: Response) -> str | None:
    """What If-Range may hold: a strong ETag, else the date (RFC 9110, section 13.1.5)."""
    tag = response.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _content_length(response: Response) -> int | None:
    return whole_number(response.headers.get("Content-Length", ""))


def _retry_after(response: Response) -> float:
    """Seconds the server asks to wait: a number or a date (RFC 9110, section 10.2.3)."""
    from email.utils import parsedate_to_datetime

    text = response.headers.get("Retry-After", "")
    seconds = whole_number(text)
    if seconds is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


def _was_cut(error: BaseException) -> bool:
    """Whether a connection was made and then lost or silent."""
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    return any(isinstance(cause, (ProtocolError, ReadTimeoutError)) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those it wraps, outermost first (in `reason` or among `args`)."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        inside = (getattr(cause, "reason", None), *cause.args)
        cause = next((value for value in inside if isinstance(value, BaseException)), None)


def _innermost(error: BaseException) -> str:
    """The cause as the system put it, without the name of the connection's class."""
    *_, last = _causes(error)
    return re.sub(r"^\w+\(.*?\): ", "", str(last)) or type(last).__name__
