"""Requests of programs: what an address, a tool and a call from Python may ask for, and its bounds."""

from pydantic import BaseModel, Field

from transforms.settings.search import SearchOptions

MOST_MAILS = 500
"""Mails on one page of a thread."""


class SearchRequest(SearchOptions):
    """A query and how it is ranked; the filters stand beside it."""

    q: str = Field("", description="query, in the query language")
    limit: int | None = Field(None, description="hits")
    plain: bool = Field(False, description="take the query as words alone")


class AskRequest(BaseModel):
    """A question; sentences of the sources answer it."""

    q: str = Field("", max_length=20_000, description="question, in the query language")
    decisions: bool = Field(
        False, description="list what was decided in discussions on it, and what replaced that"
    )


class ReplyRequest(AskRequest):
    """A question to which the model `by` of the caller replied, for the check of its sentences."""

    reply: str
    by: str


class ModelRequest(AskRequest):
    """A question whose answer the model of the settings writes, for who pays for it."""


class GetRequest(BaseModel):
    """The part of a text that is wanted."""

    id: str = Field(description="Message-ID, citation, or id of a chunk, thread or document")
    byte_start: int = Field(0, ge=0, le=1 << 40, description="byte from which on")
    max_characters: int | None = Field(None, description="characters at most")


class ThreadRequest(BaseModel):
    """The page of a thread that is wanted."""

    id: str = Field(description="id of a thread, or a Message-ID in it")
    q: str = Field("", description="query whose evidence is shown")
    plain: bool = Field(False, description="take the query as words alone")
    start: int = Field(0, ge=0, le=1 << 31, description="mails to pass over")
    limit: int | None = Field(None, description=f"mails, {MOST_MAILS} at most")


class ContextRequest(BaseModel, extra="forbid"):
    """A text that wants context, and the tokens that it may have."""

    text: str = Field(max_length=1_000_000, description="text that wants context")
    budget_tokens: int | None = Field(
        None,
        ge=64,
        description="tokens of the block; default: `context.budget_tokens` of the settings",
    )
    where: str = Field(
        "", max_length=1_000, description="conditions of the query language that passages meet"
    )
    unmasked: bool = Field(False, description="show secrets and addresses as the pages do")
