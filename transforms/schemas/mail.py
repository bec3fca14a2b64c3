"""The tables that a partition of mail becomes, up to its blocks."""

import pyarrow as pa

from transforms.schemas.table import (
    MESSAGE_ID,
    PARTITION,
    SOURCE,
    TEXT,
    TIME,
    Column,
    Table,
    required,
)

MESSAGES = Table(
    "messages",
    "One mail as stored in one archive.",
    ("message_id", "source"),
    (
        MESSAGE_ID,
        Column(
            "header_message_id",
            pa.string(),
            "Message-ID as the mail's header gives it; null if none",
        ),
        SOURCE,
        PARTITION,
        Column("list_id", pa.string(), "mailing list the mail was found in"),
        required("place", pa.string(), "file and byte offset of the mail in its archive"),
        required(
            "text_hash",
            pa.string(),
            "hash of author, date, subject and body without list footer; equal for copies of one mail",
        ),
        required(
            "part_hashes",
            pa.list_(pa.string()),
            "hash of the content of each attached part, sorted",
        ),
        required(
            "content_hash",
            pa.string(),
            "hash of text_hash and part_hashes; equal for copies of one mail that have the same parts",
        ),
        Column("in_reply_to", pa.string(), "last Message-ID in the In-Reply-To header"),
        required(
            "refs", pa.list_(pa.string()), "Message-IDs of the References header, oldest first"
        ),
        required("subject", pa.string(), "decoded Subject, unfolded"),
        required(
            "subject_norm", pa.string(), "subject without Re:, Fwd: and list tags, lower case"
        ),
        Column("from_name", pa.string(), "decoded display name of the author"),
        Column("from_addr", pa.string(), "address of the author, lower case"),
        required(
            "to_addrs", pa.list_(pa.string()), "addresses of the To headers, lower case, each once"
        ),
        required(
            "to_names", pa.list_(pa.string()), "display name beside each of to_addrs; empty if none"
        ),
        required(
            "cc_addrs", pa.list_(pa.string()), "addresses of the Cc headers, lower case, each once"
        ),
        required(
            "cc_names", pa.list_(pa.string()), "display name beside each of cc_addrs; empty if none"
        ),
        Column(
            "reply_to", pa.string(), "address to which the mail asks to be answered, lower case"
        ),
        Column(
            "header_list_id",
            pa.string(),
            "id of the list in the List-Id header (RFC 2919), lower case",
        ),
        required(
            "labels",
            pa.list_(pa.string()),
            "labels that Gmail gave the mail, and its flags on an IMAP server",
        ),
        Column("user_agent", pa.string(), "program that wrote the mail: User-Agent, else X-Mailer"),
        Column("sent_at", TIME, "time of the Date header"),
        Column(
            "sent_offset_minutes",
            pa.int64(),
            "minutes that the sender's clock is east of UTC; null if the Date header does not say it",
        ),
        Column("received_at", TIME, "first plausible time of the Received headers"),
        Column(
            "effective_at",
            TIME,
            "the time to sort by: sent if plausible, else received, else envelope (the time in the archive)",
        ),
        required(
            "date_quality",
            pa.string(),
            "where effective_at comes from: sent, sent_repaired, received, envelope or none",
        ),
        required("body", TEXT, "stored text of the mail; all offsets are UTF-8 bytes into it"),
        required(
            "body_format",
            pa.string(),
            "plain, flowed (RFC 3676, soft line breaks stay in the body), flowed_delsp (with DelSp=yes), "
            "html or none",
        ),
        required(
            "charset_outcome",
            pa.string(),
            "how the body was decoded: declared, alias, utf-8, detected:<name>, replaced or none",
        ),
        required("defects", pa.list_(pa.string()), "repaired faults, as short codes"),
        required("raw_bytes", pa.int64(), "size of the mail in the archive in bytes"),
    ),
)

ATTACHMENTS = Table(
    "attachments",
    "One attached part of a mail, or file that a message of a chat names, with its text or the reason why there is none.",
    ("attachment_id",),
    (
        required(
            "attachment_id",
            pa.string(),
            "hash of Message-ID, content of the mail, part index and content of the part; of a file of a chat of window, "
            "time, name and content",
        ),
        required(
            "message_id",
            pa.string(),
            "Message-ID of the mail; of a file of a chat the doc_id of the window",
        ),
        SOURCE,
        PARTITION,
        required(
            "part_index",
            pa.int64(),
            "position of the part in the mail's MIME tree, of the file in the window, from 0",
        ),
        Column("filename", pa.string(), "decoded file name, without any directory"),
        required("declared_type", pa.string(), "MIME type the mail declares"),
        required(
            "content_class",
            pa.string(),
            "class of the content: patch, code, log, text, archive or other",
        ),
        Column("text", TEXT, "text of the attachment, null where there is none"),
        Column(
            "page_starts",
            pa.list_(pa.int64()),
            "first byte of each page or slide in the text (bytes: use `slice_text`); null without pages",
        ),
        required("char_count", pa.int64(), "characters of the text, 0 where there is none"),
        required("byte_count", pa.int64(), "bytes of the decoded part"),
        Column("reason", pa.string(), "why the text is missing"),
        Column(
            "picture",
            TEXT,
            "of a picture with a vector: the picture, as in `documents`; null for others",
        ),
        required("lane", pa.string(), "fast, or slow for oversized text and giant logs"),
    ),
)

MESSAGE_BLOCKS = Table(
    "message_blocks",
    "One run of lines of one kind in a mail's body; the blocks in order are the body.",
    ("message_id", "block_index"),
    (
        MESSAGE_ID,
        required("block_index", pa.int64(), "position in the mail, from 0"),
        required("kind", pa.string(), "header, quote, author, patch_or_code, signature or blank"),
        required("quote_depth", pa.int64(), "depth of a quote, 0 outside of quotes"),
        required("char_length", pa.int64(), "characters, line ends included"),
        required("line_count", pa.int64(), "lines"),
        required("start_line", pa.int64(), "first line, from 0"),
        required("end_line", pa.int64(), "line behind the last"),
        required("byte_start", pa.int64(), "first byte in the body (bytes: use `slice_text`)"),
        required("byte_end", pa.int64(), "byte behind the last (bytes: use `slice_text`)"),
        required("inferred", pa.bool_(), "true where no mark in the text says the kind"),
    ),
)

MESSAGE_TRAILERS = Table(
    "message_trailers",
    "A person or a commit that a trailer of a mail names, as in `Acked-by: Ann <ann@example.org>`; new versions repeat it.",
    ("message_id", "byte_start", "name", "addr"),
    (
        MESSAGE_ID,
        SOURCE,
        PARTITION,
        required(
            "byte_start",
            pa.int64(),
            "first byte of the trailer in the body (bytes: use `slice_text`)",
        ),
        required("byte_end", pa.int64(), "byte behind it (bytes: use `slice_text`)"),
        required(
            "kind",
            pa.string(),
            "name of the trailer, lower case: whatever ends with -by, such as signed-off-by or reviewed-by; cc, "
            "author; fixes, closes, link, discussion",
        ),
        required("value", pa.string(), "value of the trailer, as written"),
        Column("name", pa.string(), "name of the person; null if none"),
        Column("addr", pa.string(), "address of the person, lower case; null if none"),
        Column("commit_id", pa.string(), "hash of the commit, as written; null if none"),
        Column("commit_title", pa.string(), "title of the commit; null if none"),
    ),
)

ADDRESS_USES = Table(
    "address_uses",
    "How the mails of a partition name somebody: one row for each name, address and role, and for each thing that shows "
    "who it is.",
    ("addr", "name", "role", "also"),
    (
        SOURCE,
        PARTITION,
        required("addr", pa.string(), "the address, lower case"),
        required("name", pa.string(), "the display name; empty if none"),
        required(
            "role",
            pa.string(),
            "from, to, cc, or trailer (a From line of the body, too); of what shows who somebody is: named (another "
            "address beside the same full name in one mail), signature, or list (the address of the mail's list); of "
            "addresses without a name: signed (the name below a text), greeted (of the only recipient)",
        ),
        required(
            "also",
            pa.string(),
            "the other address, or the hash of the signature; empty for other roles",
        ),
        required("mail_count", pa.int64(), "mails"),
        Column("first_at", TIME, "effective time of the earliest of these mails"),
        Column("last_at", TIME, "effective time of the latest"),
    ),
)

MESSAGE_REFERENCES = Table(
    "message_references",
    "One place in a mail that names another mail, by its Message-ID or by the title of its patch.",
    ("message_id", "byte_start"),
    (
        MESSAGE_ID,
        SOURCE,
        PARTITION,
        required(
            "byte_start",
            pa.int64(),
            "first byte of the reference in the body (bytes: use `slice_text`)",
        ),
        required("byte_end", pa.int64(), "byte behind it (bytes: use `slice_text`)"),
        required(
            "kind",
            pa.string(),
            "name of the trailer in lower case, such as link or fixes; url, commit or mention outside of "
            "trailers; quoted in a marked quote",
        ),
        required("target", pa.string(), "text of the reference, as written"),
        Column("named_id", pa.string(), "Message-ID it names, decoded; null if it names a title"),
        Column("named_title", pa.string(), "title of the patch it names, lower case"),
        required("text", pa.string(), "title of the patch as written; empty for others"),
        required(
            "is_explicit",
            pa.bool_(),
            "true if a trailer or an archive's URL says that a mail is meant; false where that is known "
            "only when such a mail is found",
        ),
    ),
)
