"""What the routes share: settings, the worker, and the way from checked fields to a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from serving.answers import AnswerFormat, fingerprint
from serving.body import read_json
from serving.errors import ApiError, bad_request
from serving.jobs import Job, PromptTask
from serving.schemas import GenerationRequest, parse_request
from serving.settings import Settings
from serving.stream import Answer
from serving.worker import EngineWorker, ModelInfo
from tandem_jax.errors import ContextLengthError, EmptyPromptError


@dataclass(frozen=True, slots=True)
class Front:
    """The state of the app."""

    settings: Settings
    worker: EngineWorker
    started_at: int  # seconds since 1970

    @property
    def model_name(self) -> str:
        """The name clients know the model by."""
        return self.settings.served_name or self.worker.model.name

    def check_model(self, name: str | None) -> None:
        """Only the exact name is served; it is never read as a path. Raises ApiError 404."""
        if name is not None and name != self.model_name:
            raise ApiError(
                404,
                f"no such model; this server has {self.model_name!r}",
                param="model",
                code="model_not_found",
            )

    async def read(
        self, request: Request, route: str, model: type[GenerationRequest]
    ) -> GenerationRequest:
        """The checked body of a request; raises ApiError."""
        raw = await read_json(request, self.settings.max_body_bytes)
        is_strict = request.headers.get("x-strict") == "1"
        fields = parse_request(model, route, raw, is_strict=is_strict)
        self.check_model(fields.model)
        return fields

    def answer(
        self,
        shape: type[AnswerFormat],
        fields: GenerationRequest,
        prompts: Sequence[Sequence[int]],
        *,
        param: str,
    ) -> Answer:
        """Queue a request with its prompts' ids; raises ApiError and RequestError."""
        model = self.worker.model
        tasks = build_tasks(model, fields, prompts, param)
        job = Job(tasks, asyncio.get_running_loop())
        self.worker.submit(job)
        return Answer(
            job,
            self.worker,
            shape=shape(self.model_name, fingerprint(model), bool(fields.return_token_ids)),
            request=fields,
            settings=self.settings,
        )


def build_tasks(
    model: ModelInfo, fields: GenerationRequest, prompts: Sequence[Sequence[int]], param: str
) -> list[PromptTask]:
    """Check ids [T] against vocabulary and context before any device work."""
    if max(fields.stop_token_ids or (), default=0) >= model.vocab_size:
        raise bad_request(f"ids must be below {model.vocab_size}", "stop_token_ids")
    tasks = []
    for ids in prompts:
        if not ids:
            raise EmptyPromptError(param=param)
        if max(ids) >= model.vocab_size:
            raise bad_request(f"token ids must be below {model.vocab_size}", param)
        room = model.max_context - len(ids)
        if room < 1:
            raise ContextLengthError(len(ids), model.max_context, param=param)
        tasks.append(PromptTask(tuple(ids), fields.sampling_params(room)))
    return tasks
