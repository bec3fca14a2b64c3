"""Settings of mail: messages, blocks, chunks, threads."""

from typing import Literal

from pydantic import Field, field_validator

from transforms.settings.base import Internal, StageSettings


class MailSettings(StageSettings):
    """How raw mail becomes messages and attachments."""

    max_message_bytes: int = Field(64 << 20, gt=0, description="bytes; a larger mail is set aside")
    max_archive_bytes: int = Field(
        4 << 30, gt=0, description="bytes of one archive file after decompression"
    )
    max_attachment_bytes: Internal[int] = Field(64 << 20, gt=0)
    """Bytes of a compressed attachment after decompression."""


class BlockSettings(StageSettings):
    """How a body becomes blocks."""

    unmarked_history: Internal[Literal["unlisted", "always", "never"]] = "unlisted"
    """In which mails text below an Outlook, Gmail or mobile header is a quote without marks: those
    that name no list.
    """


class ChunkSettings(StageSettings):
    """How the blocks of mail become chunks."""

    policy: Literal["pairs", "message"] = Field(
        "pairs",
        description="pairs: a reply with the quote it answers is a chunk; message: a mail without its quotes, too",
    )
    message_chars: int = Field(2000, gt=0, description="characters; longer authored text is split")
    recursive_chars: int = Field(
        8000, gt=0, description="characters; longer text is split by sentences, too"
    )
    overlap_chars: int = Field(
        300, ge=0, description="characters that a piece repeats (pginbox: 200 to 400)"
    )
    anchor_chars: int = Field(
        800, gt=0, description="characters of the quote before a reply (pginbox)"
    )
    anchor_chars_short: int = Field(
        1500, gt=0, description="the same before a short reply (pginbox)"
    )
    short_reply_chars: int = Field(
        200, ge=0, description="a shorter reply needs its quote or parent (pginbox)"
    )
    attachment_chars: int = Field(8000, gt=0, description="a longer attachment is split (pginbox)")
    attachment_syntax_chars: int = Field(
        0,
        ge=0,
        description="characters; longer code and SQL are split at their syntax (pginbox: 32,000)",
    )
    slow_body_chars: int = Field(
        200_000, gt=0, description="characters; a longer body waits until the rest is published"
    )
    log_vector_chars: int | None = Field(
        None,
        ge=0,
        description="characters; longer logs have no vectors, their words find them; none: all have",
    )


class ThreadSettings(StageSettings):
    """How mails become threads."""

    subject_days: Internal[int] = Field(30, ge=0)
    """Days within which a reply that names no mail is linked by its subject; 0: never."""


class PeopleSettings(StageSettings):
    """Addresses that belong to one person although no mail says so."""

    aliases: dict[str, tuple[str, ...]] = Field(
        {},
        description='addresses of one person by name, as `"Ann Lee" = ["ann@example.org", "al@example.com"]`',
    )

    @field_validator("aliases")
    @classmethod
    def _of_one(cls, aliases: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """ValueError if something is not an address, or belongs to two."""
        owners: dict[str, str] = {}
        for name, addresses in aliases.items():
            for address in addresses:
                if "@" not in address:
                    raise ValueError(f"{name}: {address!r} is not an address")
                if owners.setdefault(address.lower(), name) != name:
                    raise ValueError(
                        f"{address} belongs to {owners[address.lower()]} and to {name}: name one"
                    )
        return aliases
