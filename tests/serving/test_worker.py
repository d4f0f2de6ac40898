"""The engine thread and its queue, without HTTP."""

import asyncio
import logging
import time

import pytest

from serving.errors import ApiError
from serving.jobs import Cancelled, Failed, Finished, Job, PromptTask, Round
from serving.worker import EngineWorker
from tandem_jax.errors import CheckpointError
from tandem_jax.sampling.params import SamplingParams


def task(prompt=(1,), max_tokens=5):
    return PromptTask(prompt, SamplingParams(max_tokens=max_tokens))


async def drain(job):
    items = []
    while not items or isinstance(items[-1], Round):
        items += await job.take(20)
    return items


def test_rounds_arrive_in_order_for_each_prompt(worker, llm):
    async def run():
        job = Job([task(), task(max_tokens=3)], asyncio.get_running_loop())
        worker.submit(job)
        return await drain(job)

    *rounds, last = asyncio.run(run())
    assert last == Finished()
    tokens = [[t for r in rounds if r.index == k for t in r.event.tokens] for k in (0, 1)]
    assert tokens == [llm.script[:5], llm.script[:3]]
    assert [r.event.finish_reason for r in rounds].count("length") == 2


def test_take_gives_nothing_after_its_timeout(worker, llm):
    async def run():
        llm.may_go.clear()
        job = Job([task()], asyncio.get_running_loop())
        worker.submit(job)
        before = await job.take(0.02)
        worker.cancel(job)
        llm.may_go.set()
        return before, await job.take(20)

    before, after = asyncio.run(run())
    assert before == []
    assert after[0] == Cancelled()


def test_queue_limit(worker, llm):
    async def run():
        llm.may_go.clear()
        jobs = [Job([task()], asyncio.get_running_loop()) for _ in range(4)]
        worker.submit(jobs[0])
        while worker.counts["running"] == 0:
            await asyncio.sleep(0.001)
        worker.submit(jobs[1])
        worker.submit(jobs[2])
        with pytest.raises(ApiError) as caught:
            worker.submit(jobs[3])
        worker.cancel(jobs[1])
        worker.submit(jobs[3])  # the place of the one that left is free at once
        llm.may_go.set()
        return caught.value, [(await drain(job))[-1] for job in jobs]

    error, lasts = asyncio.run(run())
    assert (error.status, error.headers) == (429, {"Retry-After": "1"})
    assert lasts == [Finished(), Cancelled(), Finished(), Finished()]
    assert len(llm.seen) == 3


def test_an_answer_without_a_reason_is_a_failure(worker, llm, caplog):
    llm.stream_ids = lambda ids, params: (_ for _ in ())

    async def run():
        job = Job([task()], asyncio.get_running_loop())
        worker.submit(job)
        return await drain(job)

    with caplog.at_level(logging.CRITICAL):
        (item,) = asyncio.run(run())
    assert isinstance(item, Failed)
    assert "finish reason" in str(item.error)


def test_loading_states(fake_llm):
    worker = EngineWorker(fake_llm)
    assert worker.state == "loading"
    with pytest.raises(ApiError) as caught:
        _ = worker.model
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "5"})
    with pytest.raises(TimeoutError):
        worker.wait_until_loaded(0.0)
    worker.start()
    worker.start()
    worker.wait_until_loaded(10)
    assert worker.state == "ready"
    assert worker.model.name == "fake"
    worker.close()
    assert worker.state == "stopped"


def test_a_model_that_cannot_be_loaded():
    def broken():
        raise CheckpointError("no such checkpoint", hint="look again")

    worker = EngineWorker(broken)
    worker.start()
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        worker.wait_until_loaded(10)
    assert worker.state == "failed"
    with pytest.raises(ApiError):
        _ = worker.model


def test_close_tells_everyone(worker, llm):
    async def run():
        llm.may_go.clear()
        jobs = [Job([task()], asyncio.get_running_loop()) for _ in range(2)]
        for job in jobs:
            worker.submit(job)
        while llm.active == 0:
            await asyncio.sleep(0.001)
        closing = asyncio.to_thread(worker.close)
        release = asyncio.get_running_loop().call_later(0.05, llm.may_go.set)
        await closing
        release.cancel()
        return [(await job.take(20))[0] for job in jobs]

    items = asyncio.run(run())
    assert [item.error.status for item in items] == [503, 503]
    assert (llm.active, len(llm.seen)) == (0, 1)


def test_idle_seconds_compile_what_is_missing(worker, llm, monkeypatch):
    """One bucket an idle moment; a request that comes is served first, and the end is clean."""
    monkeypatch.setattr("serving.worker._IDLE_S", 0.01)

    async def run():
        job = Job([task()], asyncio.get_running_loop())
        worker.submit(job)
        return await drain(job)

    llm.missing = 3
    asyncio.run(run())
    deadline = time.monotonic() + 20
    while llm.missing and time.monotonic() < deadline:
        time.sleep(0.01)
    assert llm.missing == 0
    assert asyncio.run(run())[-1] == Finished()
    worker.close()
    assert llm.closed == 1
