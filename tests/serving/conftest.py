"""A scripted LLM, an in-process client and a real server around any LLM."""

import asyncio
import itertools
import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from serving.app import create_app
from serving.cli import server_config
from serving.settings import Settings
from serving.worker import EngineWorker
from tandem_jax.engine.events import RoundEvent
from tandem_jax.text import ChatTemplate, Tokenizer
from tandem_jax.text.byte_level import BYTE_CHARACTERS

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
END = 256 + CONTROL.index("<|im_end|>")
VOCAB_SIZE = 264  # a few padding rows, as real heads have
ANSWER = "Größe 👩‍👩‍👧‍👦 is fine!"
BLOCKS = (3, 1, 4, 2)  # tokens the rounds commit, in turn; characters fall across them
TEMPLATE = r"""
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is false %}{{- '<think>\n\n</think>' }}{%- endif %}
{%- if reasoning_effort %}{{- reasoning_effort }}{%- endif %}
"""


def byte_tokenizer() -> Tokenizer:
    """One token for each byte, and the usual control tokens."""
    added = [
        {"id": 256 + k, "content": text, "special": text.startswith("<|"), "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for k, text in enumerate(CONTROL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    vocab = {char: byte for byte, char in enumerate(BYTE_CHARACTERS)}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    source = {"version": "1.0", "added_tokens": added, "model": model}
    source |= {"pre_tokenizer": byte_level | {"use_regex": False}}
    return Tokenizer(json.dumps(source | {"decoder": byte_level | {"use_regex": True}}))


class FakeLLM:
    """The surface of tandem_jax.LLM that the server uses, answering with a script."""

    def __init__(self, answer=ANSWER, *, max_context=4096):
        self.tokenizer = byte_tokenizer()
        self.chat = ChatTemplate(TEMPLATE, self.tokenizer)
        self.model_name, self.drafter_name = "fake", "lookup"
        self.max_context, self.vocab_size = max_context, VOCAB_SIZE
        self.script = [*answer.encode(), END]
        self.may_go = threading.Event()  # cleared: the engine stays inside its round ...
        self.may_go.set()
        self.hold_at = 0  # ... from this round on
        self.prefill_chunks = self.chunks = 0
        self.progress = None  # called after each chunk, as by the real one
        self.error = None  # raised once at the start of the next round
        self.seen = []  # (prompt ids, params) of each request, in order
        self.active = self.freed = self.rounds = self.closed = 0
        self.missing = 0  # buckets that idle moments compile

    def close(self):
        self.closed += 1

    def compile_one(self):
        had, self.missing = self.missing > 0, max(self.missing - 1, 0)
        return had

    def encode_chat(self, messages, **template_kwargs):
        return self.chat.encode(messages, **template_kwargs)

    def stream_ids(self, prompt_ids, params):
        assert threading.current_thread().name == "tandem-engine"
        self.seen.append((prompt_ids, params))
        self.active += 1
        try:
            for k in range(self.prefill_chunks):
                assert self.chunks < self.hold_at or self.may_go.wait(30)
                self.chunks += 1
                self.progress("prefill", k + 1, self.prefill_chunks)
            yield from self._rounds(params)
        finally:
            self.active -= 1
            self.freed += 1

    def _rounds(self, params):
        ends = {*params.stop_token_ids, *(() if params.ignore_eos else (END,))}
        tokens, left = itertools.cycle(self.script), params.max_tokens
        for size in itertools.chain([1], itertools.cycle(BLOCKS)):
            assert self.rounds < self.hold_at or self.may_go.wait(30)
            self.rounds += 1
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            block = list(itertools.islice(tokens, min(size, left)))
            stop = next((k for k, token in enumerate(block) if token in ends), None)
            block = block if stop is None else block[: stop + 1]
            left -= len(block)
            reason = "stop" if stop is not None else None if left else "length"
            rows = 0 if left + len(block) == params.max_tokens else 5
            sources = ("lookup",) * (len(block) - 1) + ("target",)
            yield RoundEvent(
                tokens=tuple(block),
                sources=sources,
                rows=rows,
                drafted=max(rows - 1, 0),
                accepted=len(block) - 1,
                finish_reason=reason,
                round_ms=0.1,
            )
            if reason:
                return


class InProcess:
    """An HTTP client that calls the app directly."""

    def __init__(self, app):
        self._app = app

    def request(self, method, path, **options):
        async def call():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://fake") as client:
                return await client.request(method, path, **options)

        return asyncio.run(call())

    def post(self, path, body=None, **options):
        return self.request("POST", path, **({"json": body} if body is not None else {}), **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def chat(self, text="hi", **fields):
        return self.post("/v1/chat/completions", {"messages": user(text)} | fields)

    def complete(self, prompt="hi", **fields):
        return self.post("/v1/completions", {"prompt": prompt} | fields)


def user(text):
    return [{"role": "user", "content": text}]


def parse_events(raw: bytes) -> list:
    """The JSON of each event; the end marker stays text, comments are left out."""
    blocks = [block for block in raw.decode().split("\n\n") if block]
    data = [block.removeprefix("data: ") for block in blocks if not block.startswith(":")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


@dataclass
class Served:
    """A server that listens."""

    url: str
    port: int
    worker: EngineWorker
    server: uvicorn.Server

    def connect(self) -> socket.socket:
        """A raw connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def exchange(self, raw: bytes) -> bytes:
        """Send bytes, read until the server closes."""
        with self.connect() as connection:
            connection.sendall(raw)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def _serve_llm(llm_factory, **settings):
    chosen = Settings(port=0, **settings)
    worker = EngineWorker(llm_factory, max_queue=chosen.max_queue)
    worker.start()
    worker.wait_until_loaded(300)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(server_config(worker, chosen))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{port}", port, worker, server)
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def serve_llm():
    """`with serve_llm(lambda: LLM(...)) as served:` runs a real server around any LLM."""
    return _serve_llm


@pytest.fixture(scope="session")
def fake_llm():
    """The scripted LLM's class."""
    return FakeLLM


@pytest.fixture(scope="session")
def events():
    """Parser of event streams."""
    return parse_events


@pytest.fixture
def llm():
    """A scripted LLM of one test."""
    return FakeLLM()


@pytest.fixture
def worker(llm):
    """An engine thread that owns `llm`."""
    worker = EngineWorker(lambda: llm, max_queue=2)
    worker.start()
    worker.wait_until_loaded(10)
    yield worker
    llm.may_go.set()
    worker.close()


@pytest.fixture
def client(worker):
    """An in-process client in front of `worker`."""
    return InProcess(create_app(worker, Settings(max_body_bytes=1 << 16)))


@pytest.fixture
def served(llm):
    """A real server in front of `llm`."""
    with _serve_llm(lambda: llm, max_queue=2, keep_alive_s=0.05) as served:
        yield served
        llm.may_go.set()
