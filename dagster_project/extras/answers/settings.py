"""The section `[answers]`."""

from pydantic import Field

from transforms.settings.base import StageSettings


class AnswerSettings(StageSettings):
    """Who writes the sentences of an answer, if it is asked for."""

    model: str | None = Field(
        None,
        description="language model of `weft ask --model`, as `gemini-3.5-flash` or `openai/llama3.1`; none: sentences "
        "of the sources alone",
    )
    output_tokens: int = Field(
        2048, gt=0, description="tokens of its answer, with those that it thinks in"
    )
