"""A web server on this machine that serves bytes and misbehaves as told.

Used through the fixture `http_server`:

    http_server.files["/a.tar.gz"] = tar_gz({"inception_v3.ckpt": data})   # or add_archive
    http_server.faults["/a.tar.gz"] = [http_server.Fault(cut_at=500)]      # the first request only
    url = http_server.url("/a.tar.gz")
    ...
    http_server.requests    # what was asked: [(path, headers)]
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Fault:
    """How one request goes wrong.

    Attributes:
      status: answered instead of the file.
      headers: added to the answer.
      body: sent instead of the file.
      cut_at: bytes of the body after which the connection is closed.
      stall_at: bytes of the body after which nothing more comes.
      drip_at: bytes of the body after which one comes at a time, a hundred a second.
      chunked: whether the body is sent in chunks, its length untold.
      drop: the connection is closed without an answer.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut_at: int | None = None
    stall_at: int | None = None
    drip_at: int | None = None
    chunked: bool = False
    drop: bool = False


class Server:
    """The files it serves, the faults it will make, the requests it got.

    Attributes:
      files: path -> bytes.
      faults: path -> what the next requests for it meet, one each; then all is well.
      ranges: whether Range is understood.
      validators: whether ETag is sent and If-Range heeded.
      content_type: of every file.
      requests: (path, headers) in the order they came.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.ranges = True
        self.validators = True
        self.content_type = "application/octet-stream"
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.stopped = threading.Event()

    Fault = Fault

    def add_archive(self, path: str, members: dict[str, bytes]) -> bytes:
        """Serves a tar.gz of plain files; gives its bytes."""
        self.files[path] = tar_gz(members)
        return self.files[path]

    def url(self, path: str) -> str:
        """The address of a file."""
        return self.address + path

    def ranges_asked(self) -> list[str | None]:
        """The Range header of each request."""
        return [headers.get("range") for _, headers in self.requests]


def tar_gz(members: dict[str, bytes]) -> bytes:
    """A tar.gz of plain files, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), compresslevel=1, mtime=0)


@contextmanager
def serve() -> Iterator[Server]:
    """A server that runs until the block ends."""

    class Handler(_Handler):
        server_state: Server

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state = Handler.server_state = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        http.shutdown()
        thread.join()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    server_state: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        pass

    def do_GET(self):
        state = self.server_state
        path = self.path.partition("?")[0]
        state.requests.append((path, {name.lower(): value for name, value in self.headers.items()}))
        faults = state.faults.get(path, [])
        fault = faults.pop(0) if faults else Fault()
        self.close_connection = True
        if not fault.drop:
            self._answer(path, fault)

    def _answer(self, path, fault):
        state = self.server_state
        data = state.files.get(path)
        if fault.status is not None or fault.body is not None or data is None:
            body = b"no" if fault.body is None else fault.body
            self._send(fault.status or (200 if fault.body is not None else 404), {}, body, fault)
            return
        headers = {"Content-Type": state.content_type}
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        if state.validators:
            headers["ETag"] = tag
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", tag) == tag or not state.validators
        if not (state.ranges and asked and same):
            self._send(200, headers, data, fault)
            return
        start = int(asked[1])
        if start >= len(data):
            self._send(416, {"Content-Range": f"bytes */{len(data)}"}, b"", fault)
            return
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(206, headers, data[start:], fault)

    def _send(self, status, headers, body, fault):
        self.send_response(status)
        length = (
            {"Transfer-Encoding": "chunked"} if fault.chunked else {"Content-Length": len(body)}
        )
        closes = {"Connection": "close"}
        for name, value in {**length, **closes, **headers, **fault.headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        stop = fault.cut_at if fault.cut_at is not None else fault.stall_at
        if fault.drip_at is not None:
            stop = fault.drip_at
        self._write(body if stop is None else body[:stop], fault.chunked)
        if fault.drip_at is not None:
            for place in range(stop, len(body)):
                if self.server_state.stopped.wait(0.01):
                    return
                self._write(body[place : place + 1], fault.chunked)
        if fault.stall_at is not None:
            self.server_state.stopped.wait(30)

    def _write(self, data, chunked):
        with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked may have gone
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            self.wfile.flush()
