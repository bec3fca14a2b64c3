"""The tables of relations between mails and documents: threads, patch series, quotes, links."""

import pyarrow as pa

from transforms.schemas.table import MESSAGE_ID, PARTITION, SOURCE, TIME, Column, Table, required

THREADS = Table(
    "threads",
    "One discussion.",
    ("thread_id",),
    (
        required(
            "thread_id",
            pa.string(),
            "hash of the oldest Message-ID that the earliest mail refers to; stays while the thread grows",
        ),
        required("root_id", pa.string(), "Message-ID of the root, which may be a ghost"),
        required("subject", pa.string(), "subject of the earliest mail"),
        required("message_count", pa.int64(), "mails, without ghosts"),
        required("ghost_count", pa.int64(), "mails that others refer to and no archive holds"),
        Column("first_at", TIME, "effective time of the earliest mail"),
        Column("last_at", TIME, "effective time of the latest mail"),
    ),
)

THREAD_TREE = Table(
    "thread_tree",
    "The place of one mail, or of one ghost, in its thread.",
    ("message_id",),
    (
        MESSAGE_ID,
        required("thread_id", pa.string(), "the thread"),
        Column(
            "parent_id",
            pa.string(),
            "Message-ID it answers, of a patch its cover letter; null for the root",
        ),
        required("depth", pa.int64(), "steps from the root"),
        required("position", pa.int64(), "place in the thread read depth first, from 0"),
        required(
            "link_method",
            pa.string(),
            "how the parent was found: in_reply_to, references, subject, or inferred (of a ghost, from the "
            "References of others); root if there is none",
        ),
        required("is_ghost", pa.bool_(), "true if no archive holds the mail"),
    ),
)

PATCH_SERIES = Table(
    "patch_series",
    "One patch mail, or one mail of the discussion below it, with all revisions of its patch series.",
    ("message_id",),
    (
        MESSAGE_ID,
        required(
            "series_id",
            pa.string(),
            "all revisions together: hash of the Message-ID of its earliest patch; stays while revisions come",
        ),
        required(
            "posting_id", pa.string(), "one posting: hash of the Message-ID of its earliest patch"
        ),
        required(
            "patch_id",
            pa.string(),
            "Message-ID of the patch or cover letter; for others the one they discuss",
        ),
        required("version", pa.int64(), "version that the subject of the patch names, 1 if none"),
        Column(
            "part",
            pa.int64(),
            "part of the series, 0 for a cover letter; null for a patch that is alone",
        ),
        Column(
            "parts",
            pa.int64(),
            "parts of the series, the cover letter not counted; null for a patch alone",
        ),
        required("title", pa.string(), "title of the patch, lower case, without tags and version"),
        required("is_cover", pa.bool_(), "true for the cover letter and its discussion"),
        required(
            "is_reply", pa.bool_(), "true for a mail of the discussion, false for the patch itself"
        ),
        Column(
            "previous_id",
            pa.string(),
            "Message-ID of the patch or cover letter in the revision before; null for replies and new patches",
        ),
        required(
            "is_latest",
            pa.bool_(),
            "true in the latest posting of the highest version of the patch series",
        ),
    ),
)

PEOPLE = Table(
    "people",
    "One address of a person; all with one person_id are those that evidence in mails, or an alias, says are one person's.",
    ("addr",),
    (
        required("person_id", pa.string(), "the person: the address under which they wrote first"),
        required(
            "name",
            pa.string(),
            "name of the person: that of the alias, else the most used, else that of signatures and salutations, else the "
            "address",
        ),
        required("addr", pa.string(), "the address, lower case"),
        required(
            "names", pa.list_(pa.string()), "names used with the address, the most used first"
        ),
        required(
            "evidence",
            pa.string(),
            "why the address is the person's: alias (of the settings), named (a mail names both addresses beside the same "
            "full name), signature (the same name with the same signature), address for person_id itself",
        ),
        Column("evidence_addr", pa.string(), "the person's other address by which that is known"),
        required(
            "is_shared",
            pa.bool_(),
            "true for the address of a list, of a program or of many people; it is joined to none",
        ),
        required(
            "mail_count", pa.int64(), "mails from the address, copies in several lists each counted"
        ),
        required("mention_count", pa.int64(), "mails to it, in copy, or with it in a trailer"),
        Column("first_at", TIME, "effective time of the earliest mail from it"),
        Column("last_at", TIME, "effective time of the latest"),
    ),
)

INFERRED_QUOTES = Table(
    "inferred_quotes",
    "Lines of a mail that look like its author's and are another mail's, without a quote mark.",
    ("message_id", "byte_start"),
    (
        MESSAGE_ID,
        required("byte_start", pa.int64(), "first byte in the body (bytes: use `slice_text`)"),
        required("byte_end", pa.int64(), "byte behind the last (bytes: use `slice_text`)"),
        required(
            "parent_id",
            pa.string(),
            "mail that the lines are found in; this one if only the header above them says that they are another mail's",
        ),
        required(
            "line_count",
            pa.int64(),
            "lines that are long enough to count; all below a pasted header",
        ),
        required("char_count", pa.int64(), "characters of these lines"),
    ),
)

COMPARED_REPLIES = Table(
    "compared_replies",
    "A mail that was compared with the one it answers, for inferred_quotes, and a hash of what both were then.",
    ("message_id",),
    (
        MESSAGE_ID,
        required("parent_id", pa.string(), "Message-ID of the mail that it answers"),
        required(
            "checksum",
            pa.string(),
            "hash of both mails, of the reply's chunks and of how they were compared",
        ),
    ),
)

MEMBERSHIPS = Table(
    "memberships",
    "One mail in one list of an archive: a cross-post or a mail with several labels has several rows, one canonical.",
    ("message_id", "source", "partition", "list_id"),
    (
        MESSAGE_ID,
        Column(
            "list_id",
            pa.string(),
            "mailing list or mail folder that the mail was found in, or its label",
        ),
        SOURCE,
        PARTITION,
        required("stored_message_id", pa.string(), "message_id in the archive's own tables"),
        required(
            "is_canonical",
            pa.bool_(),
            "true for the copy that is published: of those with the most parts the first",
        ),
    ),
)

MAIL_BUCKETS = Table(
    "mail_buckets",
    "A mail in the bucket in which all mails are that can belong together with it.",
    ("message_id",),
    (
        MESSAGE_ID,
        required(
            "bucket",
            pa.string(),
            "the bucket, after the time at which the earliest of these was sent",
        ),
    ),
)

LINKS = Table(
    "links",
    "One reference from a place in a text to another mail, document or node.",
    ("from_id", "byte_start"),
    (
        required("from_id", pa.string(), "Message-ID, document or node that holds the reference"),
        required("source_kind", pa.string(), "message or document"),
        required(
            "byte_start",
            pa.int64(),
            "first byte of the reference in the stored text (bytes: use `slice_text`)",
        ),
        required("byte_end", pa.int64(), "byte behind it (bytes: use `slice_text`)"),
        Column(
            "to_id",
            pa.string(),
            "Message-ID, document or node it leads to; null if nothing is there",
        ),
        required(
            "target",
            pa.string(),
            "text of the reference, as written: of a commit its hash, often with its title",
        ),
        required(
            "kind",
            pa.string(),
            "kind of reference: of mail the trailer's name in lower case, url (one that names a mail), commit, mention or "
            "quoted; of documents wiki, embed, markdown, image or url",
        ),
        required("text", pa.string(), "text shown for the reference; empty if none"),
    ),
)
