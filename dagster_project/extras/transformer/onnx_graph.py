"""A transformer run by ONNX Runtime in place of PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transforms.errors import SettingsError, not_installed
from transforms.settings.models import EmbeddingSettings

_OUTPUTS = ("last_hidden_state", "token_embeddings")


def run_by_onnx(model: Any, settings: EmbeddingSettings) -> None:
    """Have the transformer inside a sentence-transformers model run by the graph
    `settings.onnx_file`.

    Tokenizer, pooling and all that follows stay as the model's files say. The library's own way
    asks for packages that stop at older versions of transformers. SettingsError if the runtime or
    the file is missing, or the graph gives no vectors of tokens.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as faults
    except ImportError as error:
        raise not_installed(error, "onnx") from error
    path = graph_file(settings)
    options = onnxruntime.SessionOptions()
    # Otherwise the runtime takes one thread on machines whose cores it cannot count.
    options.intra_op_num_threads = _threads()
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except (
        faults.Fail,
        faults.InvalidGraph,
        faults.InvalidProtobuf,
        faults.NotImplemented,
    ) as error:
        raise SettingsError(
            f"embedding.onnx_file = {settings.onnx_file!r} cannot be opened as an ONNX graph "
            f"({str(error).splitlines()[0]})"
        ) from error
    output = token_output([o.name for o in session.get_outputs()], path)
    model[0].model = _module(session, output, model[0].model.config)


def graph_file(settings: EmbeddingSettings) -> Path:
    """The file `onnx_file` of the model's folder, fetched from the hub where the model is one of
    it.
    """
    assert settings.name and settings.onnx_file
    if settings.names_folder:
        path = Path(settings.name).expanduser() / settings.onnx_file
        if not path.is_file():
            raise SettingsError(f"embedding.onnx_file: there is no file {path}")
        return path
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        file = hf_hub_download(settings.name, settings.onnx_file, revision=settings.revision)
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise SettingsError(
            f"embedding.onnx_file = {settings.onnx_file!r} is not to be had of {settings.name} "
            f"({str(error).splitlines()[0]})"
        ) from error
    return Path(file)


def token_output(names: Sequence[str], path: Path) -> str:
    """The name of the graph's output that holds a vector per token."""
    for name in _OUTPUTS:
        if name in names:
            return name
    raise SettingsError(
        f"{path} gives {', '.join(names)}; one output must be {' or '.join(_OUTPUTS)}: a vector per token"
    )


def _module(session: Any, output: str, config: Any) -> Any:
    """A module that sentence-transformers may call like the transformer it has loaded."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    names = {node.name for node in session.get_inputs()}

    class Graph(torch.nn.Module):
        """Tensors of token ids in, vectors of tokens out."""

        def forward(self, **tensors: Any) -> Any:
            """The vectors of the tokens as transformers gives them."""
            fed = {name: value.numpy() for name, value in tensors.items() if name in names}
            (vectors,) = session.run([output], fed)
            return BaseModelOutput(last_hidden_state=torch.from_numpy(vectors))

    graph = Graph()
    graph.config = config
    return graph


def _threads() -> int:
    """Threads that PyTorch would take."""
    import torch

    return int(torch.get_num_threads())
