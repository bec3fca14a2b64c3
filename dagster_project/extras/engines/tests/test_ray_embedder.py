"""Batches that actors of Ray embed have the vectors that this machine gives, on as many GPUs as
there are.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="the extra ray is not installed")

from dagster_project.composition.stores import on_engine  # noqa: E402
from dagster_project.extras.engines.ray import RayEmbedder, actors, connect  # noqa: E402
from dagster_project.models.embedders import make_embedder  # noqa: E402
from tests.archives import two_lists  # noqa: E402
from transforms.errors import EngineError  # noqa: E402
from transforms.settings.models import EmbeddingSettings  # noqa: E402
from transforms.settings.operations import EngineSettings  # noqa: E402

pytestmark = pytest.mark.exhaustive

SETTINGS = EmbeddingSettings()


def embedder(**engine: object) -> RayEmbedder:
    settings = EngineSettings.model_validate({"kind": "ray", **engine})
    return RayEmbedder(make_embedder(SETTINGS), SETTINGS, settings)


@pytest.mark.parametrize(
    ("resources", "tasks", "expected"),
    [
        ({"CPU": 64.0, "GPU": 4.0}, None, (4, {"num_gpus": 1})),
        ({"CPU": 64.0, "GPU": 4.0}, 2, (2, {"num_gpus": 1})),
        ({"CPU": 8.0}, None, (8, {"num_cpus": 1})),
        ({"CPU": 8.0, "GPU": 0.0}, 16, (8, {"num_cpus": 1})),
        ({}, None, (1, {"num_cpus": 1})),
    ],
)
def test_there_is_an_actor_for_each_gpu_or_else_core(
    resources: dict[str, float], tasks: int | None, expected: tuple[int, dict[str, int]]
):
    assert actors(resources, tasks) == expected


@pytest.mark.parametrize(
    ("faults", "tries"),
    [
        ([], 1),
        (["The current node timed out during startup."], 2),
        (["The current node timed out during startup."] * 2, 2),
        (["no such cluster"], 1),
    ],
)
def test_ray_begins_again_if_it_was_too_slow(
    faults: list[str], tries: int, monkeypatch: pytest.MonkeyPatch
):
    begun: list[dict[str, object]] = []

    def begin(**options: object) -> None:
        begun.append(options)
        if len(begun) <= len(faults):
            raise Exception(faults[len(begun) - 1])  # as Ray does

    monkeypatch.setattr(ray, "init", begin)
    is_lost = len(faults) == tries
    with pytest.raises(Exception, match=faults[-1]) if is_lost else nullcontext():
        connect(EngineSettings(tasks=2))
    assert len(begun) == tries


def test_few_texts_are_embedded_here():
    on_ray = embedder()
    much = 10 * on_ray.batch_texts
    assert on_ray.for_texts(much) is on_ray
    assert not isinstance(on_ray.for_texts(much - 1), RayEmbedder)


@pytest.mark.parametrize(
    ("engine", "model", "is_on_ray"),
    [("ray", "transformer", True), ("ray", "static", False), ("local", "transformer", False)],
)
def test_a_transformer_embeds_where_partitions_are_made(
    tmp_path: Path, engine: str, model: str, is_on_ray: bool
):
    work = two_lists(tmp_path, engine={"kind": engine}, embedding={"model": model})
    local = make_embedder(work.settings.embedding)
    assert isinstance(on_engine(work.settings, local), RayEmbedder) == is_on_ray


@pytest.fixture
def two_gpus() -> Iterator[None]:
    """A Ray of this machine that says it has two GPUs, which the static model does not look for."""
    ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_actors_give_the_vectors_of_this_machine_and_leave(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
):
    on_ray = embedder()
    batches = [[f"the log of run {number} and {n}" for n in range(50)] for number in range(7)]
    found = {done.batch: done for done in on_ray.embed_batches(batches)}
    assert sorted(found) == list(range(7))
    for number, texts in enumerate(batches):
        assert np.array_equal(found[number].vectors, on_ray.local.embed_documents(texts))
    with pytest.raises(EngineError, match="NoneType"):
        list(on_ray.embed_batches([[None]]))  # type: ignore[list-item]
