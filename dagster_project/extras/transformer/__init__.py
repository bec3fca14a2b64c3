"""Models of sentence-transformers that run on this machine: embedders, in PyTorch or ONNX, and cross-encoders."""

from dagster_project.extras.registry import Extra, ModelService

_HERE = "dagster_project.extras.transformer"
EXTRA = Extra(
    models={
        "transformer": ModelService(f"{_HERE}.embedder:TransformerEmbedder"),
        "cross_encoder": ModelService(scorer=f"{_HERE}.embedder:CrossEncoderScorer"),
    }
)
