"""Models of sentence-transformers that run on this machine: embedders, in PyTorch or ONNX, and
cross-encoders.
"""

from dagster_project.extensions import Extra, ModelService

_HERE = "dagster_project.extras.transformer"
_NEEDS = {"module": "sentence_transformers", "extra": "transformer"}
EXTRA = Extra(
    models={
        "transformer": ModelService(f"{_HERE}.embedder:TransformerEmbedder", **_NEEDS),
        "cross_encoder": ModelService(scorer=f"{_HERE}.embedder:CrossEncoderScorer", **_NEEDS),
    }
)
