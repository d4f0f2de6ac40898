"""What `tandem serve` does before and around listening."""

import socket
import threading
import time

import httpx
import pytest
import uvicorn

import tandem_jax
from serving.cli import bind, serve
from serving.settings import Settings
from tandem_jax.errors import CheckpointError, ConfigError


def test_a_taken_port_is_a_user_error_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr(tandem_jax, "LLM", None, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}") as caught:
            serve(Settings(port=port))
    assert "--port" in caught.value.hint


def test_a_host_that_is_not_ours_is_a_user_error():
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1"):
        bind("192.0.2.1", 0)


def test_a_model_that_cannot_be_loaded_is_the_callers_error(monkeypatch):
    def broken(model, **options):
        raise CheckpointError(f"nothing called {model}")

    monkeypatch.setattr(tandem_jax, "LLM", broken, raising=False)
    with pytest.raises(CheckpointError, match="nothing called nowhere"):
        serve(Settings(model="nowhere", port=0))


def test_options_reach_the_model_and_the_server_answers(monkeypatch, fake_llm):
    seen, servers = {}, []

    def build(model, **options):
        options.pop("progress")("load", 7, 7)
        seen.update(options, model=model)
        return fake_llm()

    class Recorded(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    listeners = []
    run = Recorded.run

    def run_and_keep(self, sockets):
        listeners.extend(sockets)
        run(self, sockets=sockets)

    Recorded.run = run_and_keep
    monkeypatch.setattr(tandem_jax, "LLM", build, raising=False)
    monkeypatch.setattr(uvicorn, "Server", Recorded)
    settings = Settings(model="mini", port=0, drafter="none", served_name="shown")
    thread = threading.Thread(target=serve, args=[settings])
    thread.start()
    try:
        while not (servers and servers[0].started):
            assert thread.is_alive()
            time.sleep(0.01)
        url = f"http://127.0.0.1:{listeners[0].getsockname()[1]}"
        assert httpx.get(url + "/v1/models").json()["data"][0]["id"] == "shown"
    finally:
        servers[0].should_exit = True
        thread.join(30)
    assert seen == {
        "model": "mini",
        "drafter": "none",
        "draft_model": None,
        "tap": None,
        "max_context": None,
        "dtype": "auto",
        "node_budget": None,
        "policy": "auto",
        "prices": None,
        "corpus": None,
        "suffix_store": None,
        "suffix_store_readonly": False,
        "learned": None,
        "warmup": True,
    }


def test_a_directory_is_known_by_its_own_name(serve_llm, fake_llm, tmp_path):
    llm = fake_llm()
    llm.model_name = str(tmp_path / "My-Model")
    with serve_llm(lambda: llm) as served:
        text = httpx.get(served.url + "/v1/models").text
    assert '"id":"My-Model"' in text
    assert str(tmp_path) not in text
