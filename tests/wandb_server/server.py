"""HTTP of the server: GraphQL, file_stream, uploads of files, exported files. Bound to loopback, port chosen by the system."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.wandb_server import graphql
from tests.wandb_server.faults import Close, Cut, Edit, Fault, Hang, Lose, Raw, Status
from tests.wandb_server.runs import Run

KEY = "0123456789abcdef0123456789abcdef01234567"
"""What the server takes for a key: 40 characters, as keys of accounts are."""


class WandbServer:
    """See the package. Everything may be changed while it runs.

    Attributes:
        runs: by entity/project/id.
        faults: the first that meets a request happens.
        log: (operation, variables) of every request, in order.
        keys: keys that are accepted.
    """

    def __init__(self, entity: str = "lab") -> None:
        self.entity = entity
        self.runs: dict[str, Run] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, Mapping[str, Any]]] = []
        self.keys = {KEY}
        self.closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.wandb = self
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def add_run(self, path: str, rows: Iterable[Mapping[str, Any]] = ()) -> Run:
        """A run entity/project/id with these rows."""
        entity, project, name = path.split("/")
        run = self.runs[path] = Run(entity, project, name)
        run.put(rows)
        return run

    def asked(self, op: str) -> list[Mapping[str, Any]]:
        """Variables of all requests of one operation."""
        return [variables for name, variables in self.log if name == op]

    def env(self, home: Path, key: str = KEY) -> dict[str, str]:
        """Environment of a client of this server that touches nothing outside `home`."""
        for name in ("cache", "config", "data", "artifacts"):
            (home / name).mkdir(parents=True, exist_ok=True)
        return {
            "WANDB_BASE_URL": self.url, "WANDB_API_KEY": key, "WANDB_ENTITY": self.entity,
            "HOME": str(home), "NETRC": str(home / "netrc"), "WANDB_DIR": str(home),
            "WANDB_CACHE_DIR": str(home / "cache"), "WANDB_CONFIG_DIR": str(home / "config"),
            "WANDB_DATA_DIR": str(home / "data"), "WANDB_ARTIFACT_DIR": str(home / "artifacts"),
            "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true", "WANDB_DISABLE_GIT": "true",
            "WANDB_DISABLE_CODE": "true", "WANDB__DISABLE_STATS": "true", "WANDB_CONSOLE": "off",
            "WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "1",  # whole seconds; a fraction is none
        }  # fmt: skip


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    wandb: WandbServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed in the middle of an answer is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        _, kind, *rest = self.path.split("?")[0].split("/")
        if kind != "parquet":
            self._send(404, b"{}")
            return
        variables = {"run": "/".join(rest[:3]), "number": int(rest[3])}
        fault = self._fault("parquet", variables)
        if not self._stopped_by(fault):
            body = self.server.wandb.runs[variables["run"]].exports[variables["number"]]
            self._send(200, body, "application/octet-stream", cut=fault)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self._body()
        if not self._stopped_by(self._fault("upload", {"path": self.path})):
            self._send(200, b"")

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/graphql":
            self._graphql(json.loads(body))
        elif self.path.startswith("/files/") and self.path.endswith("/file_stream"):
            self._file_stream("/".join(self.path.split("/")[2:5]), json.loads(body))
        else:
            self._send(404, b"{}")  # telemetry and the like

    def _graphql(self, request: Mapping[str, Any]) -> None:
        variables = request.get("variables") or {}
        op = graphql.operation(request["query"])
        fault = self._fault(op, variables)
        if self._stopped_by(fault):
            return
        if not self._authorized():
            self._send(401, b'{"errors": [{"message": "user is not logged in"}]}')
            return
        answer = graphql.answer(self.server.wandb, op, variables)
        if fault is not None and isinstance(fault.action, Edit):
            answer = fault.action.change(answer, variables)
        self._send(200, json.dumps(answer).encode(), cut=fault)

    def _file_stream(self, path: str, request: Mapping[str, Any]) -> None:
        fault = self._fault("file_stream", {"run": path, **request})
        if self._stopped_by(fault):
            return
        run = self.server.wandb.runs.get(path)
        if run is None:
            self._send(404, b'{"error": "run not found"}')
            return
        writer = self.headers.get("X-WANDB-ASYNC-CLIENT-ID", "")
        lost = fault is not None and isinstance(fault.action, Lose)
        run.stream(request, writer, lose_history=lost)
        self._send(200, b'{"exitcode": null, "limits": {}}', cut=fault)

    # --- the way -----------------------------------------------------------------------------------------------------

    def _fault(self, op: str, variables: Mapping[str, Any]) -> Fault | None:
        server = self.server.wandb
        server.log.append((op, variables))
        return next((fault for fault in server.faults if fault.meets(op, variables)), None)

    def _stopped_by(self, fault: Fault | None) -> bool:
        """Does what the fault says, if that leaves nothing to answer."""
        action = fault.action if fault is not None else None
        if isinstance(action, Status):
            self._send(action.code, action.body, headers=action.headers)
        elif isinstance(action, Raw):
            self._send(200, action.body, action.content_type)
        elif isinstance(action, Close):
            self.close_connection = True
        elif isinstance(action, Hang):
            if not self.server.wandb.closing.wait(action.seconds):
                return False
            self.close_connection = True
        else:
            return False
        return True

    def _authorized(self) -> bool:
        scheme, _, told = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic":
            return False
        with contextlib.suppress(ValueError):
            return base64.b64decode(told).decode().removeprefix("api:") in self.server.wandb.keys
        return False

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _send(
        self,
        code: int,
        body: bytes,
        content_type: str = "application/json",
        *,
        headers: Mapping[str, str] | None = None,
        cut: Fault | None = None,
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut is not None and isinstance(cut.action, Cut):
            body = body[: int(len(body) * cut.action.keep)]
            self.close_connection = True
        self.wfile.write(body)
