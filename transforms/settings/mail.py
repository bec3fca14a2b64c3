"""Settings of what mail becomes: messages, blocks, chunks, threads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from transforms.settings.base import StageSettings


class MailSettings(StageSettings):
    """How raw mail becomes messages and attachments."""

    max_message_bytes: int = Field(64 << 20, gt=0, description="bytes; a larger mail is set aside")
    max_mime_depth: int = Field(32, gt=0, description="nesting of MIME parts; deeper parts get no text")
    max_mime_parts: int = Field(1000, gt=0, description="parts of one mail that are looked at")
    max_archive_bytes: int = Field(4 << 30, gt=0, description="bytes of one archive file after decompression")
    max_compression_ratio: int = Field(
        250, gt=0, description="decompressed : stored above which an archive over 16 MiB is refused"
    )
    max_attachment_bytes: int = Field(
        64 << 20, gt=0, description="bytes of a compressed attachment after decompression; more is refused"
    )
    max_attachment_chars: int = Field(
        2_000_000,
        gt=0,
        description="characters; a longer attachment goes to the slow lane (of 78,842 on PostgreSQL's lists 99 % have "
        "fewer than 318,562, the longest 33,385,745)",
    )
    max_log_chars: int = Field(
        500_000,
        gt=0,
        description="characters; a longer log or build output goes to the slow lane: many chunks that "
        "few look for",
    )


class BlockSettings(StageSettings):
    """How a body becomes blocks."""

    min_code_lines: int = Field(2, gt=0, description="lines that look like code before a run counts as code")
    max_signature_lines: int = Field(
        12, gt=0, description="lines behind a signature mark; a longer tail is not a signature"
    )
    unmarked_history: bool = Field(
        False,
        description="text below an Outlook header counts as a quote though no line is marked "
        "(people who labelled list mails more often called it the sender's text)",
    )


class ChunkSettings(StageSettings):
    """How blocks become chunks (defaults: the pginbox design, seed 000)."""

    policy: Literal["pairs", "message"] = Field(
        "pairs",
        description="pairs: a reply with the quote it answers is a chunk; message: a mail without its quotes "
        "is one chunk up to recursive_chars, and the pairs are chunks besides",
    )
    message_chars: int = Field(2000, gt=0, description="characters; longer authored text is split")
    recursive_chars: int = Field(
        8000, gt=0, description="characters; longer text is split by sentences and lines too"
    )
    overlap_chars: int = Field(300, ge=0, description="characters repeated between neighbours (200 to 400)")
    anchor_chars: int = Field(800, ge=0, description="characters of a quote anchor")
    anchor_chars_short: int = Field(
        1500, ge=0, description="characters of a quote anchor under a very short reply"
    )
    short_reply_chars: int = Field(200, ge=0, description="authored characters below which a reply is short")
    min_authored_chars: int = Field(
        1, ge=0, description="authored letters or digits below which a mail makes no chunk"
    )
    attachment_chars: int = Field(8000, gt=0, description="characters; a longer attachment is split")
    patch_chars: int = Field(
        12_000, gt=0, description="characters; the longer diff of one file is split by hunks"
    )
    patch_hunks: int = Field(10, gt=0, description="hunks; the diff of one file with more is split by hunks")
    patch_files: int = Field(
        100,
        gt=0,
        description="files; a patch of more gets a chunk that names them all",
    )
    slow_patch_files: int = Field(
        100, gt=0, description="files; the parts of a patch of more go to the slow lane"
    )
    parent_chars: int = Field(
        800, ge=0, description="characters of the answered mail given to a short reply without anchor"
    )
    slow_body_chars: int = Field(
        200_000,
        gt=0,
        description="characters; a longer body goes to the slow lane (of 250,771 on PostgreSQL's lists 99 % have fewer than "
        "25,862, the longest 2,123,695)",
    )
    embed_subject: bool = Field(True, description="put the subject before the text that is embedded")


class ThreadSettings(StageSettings):
    """How mails become threads."""

    subject_days: int = Field(
        30,
        ge=0,
        description="days that a reply whose headers name no mail may be younger than the mail of its "
        "subject that it is taken to answer; 0 never links by subject",
    )


class FamilySettings(StageSettings):
    """How patch series become families of revisions."""

    revision_days: int = Field(
        365, gt=0, description="days between two postings of one title beyond which they are not revisions"
    )
    posting_minutes: int = Field(
        60, gt=0, description="minutes within which the parts of a series that are not threaded are sent"
    )


class InferredQuoteSettings(StageSettings):
    """How quotes without a mark are told from the author's own lines."""

    line_chars: int = Field(
        20, gt=0, description="characters below which a line of the answered mail may be there by chance"
    )
    min_lines: int = Field(
        2, gt=0, description="longer lines that a run of the answered mail's lines must have"
    )
    min_chars: int = Field(80, gt=0, description="characters that these lines must have together")
