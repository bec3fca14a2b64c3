"""The settings that declare the stages."""

from collections.abc import Mapping
from typing import Protocol

from transforms.settings.conversations import ContextSettings, ConversationSettings
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings
from transforms.settings.mail import (
    BlockSettings,
    ChunkSettings,
    MailSettings,
    PeopleSettings,
    ThreadSettings,
)
from transforms.settings.models import SafetySettings, SentenceSettings
from transforms.settings.search import TermSettings


class PipelineSettings(Protocol):
    """The sections of a settings file by which stages make tables."""

    @property
    def mail(self) -> MailSettings: ...

    @property
    def blocks(self) -> BlockSettings: ...

    @property
    def chunks(self) -> ChunkSettings: ...

    @property
    def documents(self) -> DocumentSettings: ...

    @property
    def conversations(self) -> ConversationSettings: ...

    @property
    def terms(self) -> TermSettings: ...

    @property
    def threads(self) -> ThreadSettings: ...

    @property
    def people(self) -> PeopleSettings: ...

    @property
    def sentences(self) -> SentenceSettings: ...

    @property
    def safety(self) -> SafetySettings: ...

    @property
    def context(self) -> ContextSettings: ...

    def chunkers(self) -> Mapping[str, DocumentChunkSettings]:
        """How the documents of each source become chunks; the default under `""`."""
        ...

    def sentence_kinds(self) -> Mapping[str, str]:
        """Which sentence the chunks of each source get."""
        ...
