"""Rules: what lines of quotes, headers, signatures, diffs, code, logs and sessions look like."""

from __future__ import annotations

import re

from transforms.mail.blocks.languages import LANGUAGES
from transforms.mail.blocks.lines import Rule, byte_table


def _words(field: str) -> str:
    """The alternatives of all languages for one field of the table, longest first."""
    alternatives = {word for language in LANGUAGES for word in _split(str(getattr(language, field)))}
    return "|".join(sorted(alternatives, key=lambda word: (-len(word), word)))


def _split(alternatives: str) -> list[str]:
    """Alternatives divided by `|`, but not within parentheses."""
    words, depth = [""], 0
    for char in alternatives:
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            words.append("")
        else:
            words[-1] += char
    return [word for word in words if word]


def _starts(field: str) -> str:
    """The first two bytes of every alternative, as `Rule` takes them."""
    return " ".join(word.replace(" ", "·") for word in _split(_words(field)))


WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
COLON = r"(?::|：)"

# Quotes
GNATS = Rule(
    r">(?:Submitter-Id|Originator|Organization|Confidential|Synopsis|Severity|Priority|Category|Class|Release|"
    r"Environment|Description|How-To-Repeat|Fix|Number|Responsible|State|Arrival-Date|Closed-Date|"
    r"Last-Modified|Release-Note|Audit-Trail|Unformatted|Quarter|Keywords|Date-Required):"
)
FROM_LINE = Rule(r">From ", ">F")
PYTHON_PROMPT = Rule(
    r">>> (?:import |from [\w.]+ import|print\b|[\w.\[\]]+ ?= ?|[\w.]+\(.*\)$|for .*:|def |class |with )",
    ">>",
)
CLOSED_TAG = Rule(r"></", "></")
SUPERCITE_HEADER = Rule(r'>{3,} ?"?[^>"]+"?.* (?:==|writes|wrote).*:', ">>")
INITIALS = re.compile(rb"([A-Z][A-Za-z]{0,3}|[a-z]{2,3})>+(?:[ \t]|$)")
PROMPT_NAMES = {
    b"SQL",
    b"sql",
    b"ftp",
    b"gdb",
    b"db",
    b"cmd",
    b"psql",
    b"sh",
    b"jdb",
    b"irb",
    b"sftp",
    b"lua",
}
QUOTE_MARKS = re.compile(rb"(?:>[ \t]{0,3})+")

# Reply headers. A folded one is read whole: its verb may stand in any line, or across two.
_VERBS = _words("verbs").replace(" ", r"\s")
_WROTE = (
    r"(?:^|[\s>)\]\"'.,;0-9]|»|，|、|さん|님|日|分)"
    rf"(?:{_VERBS})(?:[^:]|mailto:|:\s?\d)*{COLON}$"
)
_OPENED = rf"(?:(?:{_words('starts')}|{WEEKDAY}[a-z]*)[\s,.\d]|\*\s)"
_DATED = (
    rf"(?:{_OPENED}|[^\s\d]+,? \d\d?\.? [^\s\d]+ \d{{4}}|[^\s\d]{{2,6}},?\s\d\d?\.?\s|"
    r"\d{1,4}(?:[./-]|年|년| )\s?\S)"
)
_NAMED = r"[^:\n]+<[^<> \n]+@"
VERB = Rule(_WROTE, search=True)
OPENED_START = Rule(rf"{_OPENED}[^\n]*(?:\d|<|@)")
DATED_START = Rule(rf"(?:{_DATED})[^\n]*(?:\d|<|@)")
NAMED_START = Rule(_NAMED)
FOLDED_ATTRIBUTION = Rule(
    rf"(?s)(?:{_DATED}.*[\d<@]|[^:]+<[^<> ]+@).*{_WROTE}|"
    rf"[^:]+\s(?:{_VERBS})\s.*\d.*{COLON}$|"
    rf"{_DATED}.*<[^<> ]+@[^<>]+>{COLON}$"
)
# A sentence that ends above, so that the lines are not one attribution.
SENTENCE_BREAK = Rule(r"[A-Za-z)\"'][.!?]\s*\n\s*[A-Z(\"'*]", search=True)
ATTRIBUTION = Rule(
    r"(?:\* .+[>\])]?:$|(?i:quoting |citando |zitat von |cytowanie |quoth |according to |thus spake ).*:$|"
    r"\d{4}[./-]\d+[./-]\d+ .*:$|"
    rf".+<[^<> ]+@[^<> ]+>{COLON}$|\.\.\. .*:$|"
    r"(?:\[ ?)?[A-Z]\S*(?: [A-Z(<\[]\S*){0,4},? (?:said|says|sez|spake|stated|typed|scribbled|replied|asked)\b.*:$)"
)
NAMED_ATTRIBUTION = Rule(
    r"\d{4}[./-]\d+[./-]\d+ .*<[^<> ]+@[^<> ]+>$|"
    rf"(?:{_DATED}).*\d.*\s(?:{_VERBS})$"
)
NEWS_ATTRIBUTION = Rule(
    rf".*(?:{_VERBS}) (?:in (?:message|article|bericht)|im Newsbeitrag|dans le message|en el mensaje|"
    r"nel messaggio|i meddelandet|w wiadomości|news:).*(?:\.\.\.|>|:|\w)$"
)
ON_WEEKDAY = Rule(r"On " + WEEKDAY + r"[a-z]*\b", "On")

# Header blocks
_BANNERS = _words("banners")
ORIGINAL = Rule(
    rf"(?i:[-_]{{2,}}[ \t]*(?:{_BANNERS})|(?:begin forwarded message|anfang der weitergeleiteten nachricht|"
    r"début du message réexpédié|inizio messaggio inoltrato|inicio del mensaje reenviado):)",
    "-- __ Be be An D I",
)
_FIELDS = "|".join(_words(field) for field in ("sender", "sent", "to", "copy", "subject"))
FIELD = Rule(
    rf"[*]?(?:{_FIELDS}|Reply-To|Newsgroups|Importance|Organization|Message-I[dD]|Attachments?|"
    r"In-Reply-To|References|X-[A-Za-z-]+|User-Agent|Priority)[*]?[ \t]?" + COLON
)
FIELD_FROM = Rule(rf"[*]?(?:{_words('sender')})[*]?[ \t]?{COLON}", "* " + _starts("sender"))
FIELD_TO = Rule(rf"[*]?(?:{_words('to')}|{_words('sent')})[*]?[ \t]?{COLON}")
GIT_FROM = Rule(r"From [0-9a-f]{7,40} " + WEEKDAY + " ", "Fr")
# Lotus Notes: a name, a date line, then fields that are indented or alone on their lines.
NOTES_DATE = Rule(
    r"(?:.*\s)?\d{1,4}[./-]\d\d?[./-]\d{2,4} \d\d?[:.]\d\d(?:[:.]\d\d)?(?: ?[AP]M)?(?: [A-Z]{2,4}(?:[+-]\d+)?)?$"
)
NOTES_TO = Rule(rf"(?:{_words('to')})(?:$|[ \t]*:)", _starts("to"))
NOTES_SUBJECT = Rule(rf"(?:{_words('subject')})(?:$|[ \t]*:)", _starts("subject"))
TRACKER = Rule(
    r"-{3,} (?:Additional )?Comments? (?:#\d+ )?[Ff]rom .*|.+ (?:updated|commented on|changed|created|"
    r"resolved|reopened|closed)(?: [A-Z0-9]+-\d+)?:$|Comment at: \S+:\d+"
)
NEAR_RULE = Rule(r"[-=]{8,}|What +\||-{3,} (?:Additional )?Comment", "-- == Wh")
# A line to cut along, as git knows it: a blade between dashes, and perhaps a word on what to do.
SCISSORS = Rule(
    r"(?:[-=]+ ?(?:>8|8<|>%|%<)|8< ?[-=]+)[-=><8%* \t]*(?:(?i:cut|snip|tear)[\w ,.]*[-=><8%* \t]*)?$",
    "-- == 8<",
)
OTHER_MARK = Rule(r"[|:%](?: |$)")

# Signatures and footers
DASHES = Rule(r"-- ?$", "--")
GIT_VERSION = Rule(r"\d+\.\d+[\w.+-]*(?: \([^)]*\))?$")
RULE_LINE = Rule(r"[-_=~*#]{8,}|--~--~|-~-----|-----+ ?[A-Z][^-]+-{3,}|={5,}.*={5,}", "-- -~ __ == ~~ ** ##")
SHORT_RULE = Rule(r"_{2,7}$", "__")
UNDERLINE = byte_table(b"-=~*#")
SPOKEN_END = byte_table(b".?!:;,")
FOOTER_WORDS = Rule(
    r"(?i:mailing[ -]?list|unsubscribe|listinfo|p\.sf\.net|sourceforge\.net/lists|groups\.google|"
    r"yahoo.{0,12}groups|groups\.yahoo|majordomo|list archive|archives? (?:at|and|is)|archives?: +http|listserv|"
    r"automatically generated|do you yahoo|never miss a thing|mail\.yahoo|hotmail|msn\.com|"
    r"view this thread|pipermail|mail-archive\.com|d(?:é|e)sabonn|currently subscribed|receiv(?:ed|"
    r"ing) this (?:message|mail|e-?mail)|intended only for|abmelden|afmelden|info/terms)",
    search=True,
)
DISCLAIMER = Rule(
    r"(?i:(?:this|the|any) (?:e-?mail|message|communication|information|transmission|document)\b.*"
    r"(?:confidential|privileged|intended (?:only|solely|for)|addressee)|intended recipient|"
    r"confidentiality notice|diese e-?mail enth(?:ä|ae)lt vertrauliche|ce message .*confidentiel|"
    r"este (?:mensaje|correo) .*confidencial|esta mensagem .*confidencial|"
    r"questo messaggio .*(?:riservat|confidenzial))",
    search=True,
)
AUTOMATIC = Rule(r"(?i:(?:automatically|auto-?) ?generated|do not reply|to reply, visit)", search=True)
BROADCAST = Rule(r"-{5,}\((?:end of broadcast|fim da|fin de)", "--")
TIP = Rule(r"TIP \d+: |http://(?:www|archives)\.postgresql\.org/(?:docs/faqs|users-lounge/docs/faq)", "TI ht")
DEVICE = Rule(
    r"To unsubscribe (?:from|send|e-?mail)|You (?:have )?received this message because you are|"
    r"Sent from (?:my|Mail|a|Yahoo|Outlook)\b|Sent (?:via|with) .*(?:mailing list|mail|mobile|phone|device|http)|"
    r"Sendt fra min|Von meinem .+ gesendet|"
    r"Envoyé de(?:puis)? mon|Enviado desde mi|Enviado do meu|Get Outlook for|Inviato da |Verzonden vanaf|"
    r"Skickat från|Lähetetty |Wysłane z |Отправлено (?:с|из) |从我的|发自我的|iPhoneから送信",
    "To Yo Se Vo En Ge In Ve Sk Lä Wy От 从 发 iP",
)
CUT = Rule(r"---$", "--")
COLUMN_MARK = Rule(r"[|]", search=True)
CONTACT = Rule(
    r"https?://|www\.|\S@\S|(?i:\b(?:phone|tel|fax|mobile|cell|voice|telefon|handy|office|ext)\b[^a-z]{0,4}[:.+(]? ?[\d(+])",
    search=True,
)
NAME = Rule(r"[A-Z][\w.'-]*(?: [A-Z(][\w.')-]*){0,3}[,.]?$")
FULL_NAME = Rule(r"(?:[A-Z]|[\xc3][\x80-\x9e])[\w.'-]*(?: [A-Z][\w.'-]*\.?){1,3}$")
GREETING = Rule(
    r"(?i:(?:(?:best|kind|warm|many|with|mit|viele|sch(?:ö|oe)ne|freundlichen|freundliche|liebe|best[ae]s?|"
    r"cordial(?:es|i)?|thank|thanks|sincerely|yours|s pozdravem|med) ?[^.,]*|regards|cheers|greetings|hth|"
    r"ciao|saluti|saludos|cordialement|gr(?:ü|ue)(?:ß|ss)e|gru(?:ß|ss)|mvh|groeten|pozdrawiam|bye|love|rgds|br|"
    r"hi|hello|dear|hey)[,.!]*$)"
)
PGP = Rule(r"-----(?:BEGIN|END) PGP ", "--")
PGP_SIGNED = Rule(r"-----BEGIN PGP SIGNED MESSAGE-----", "--")
PGP_HASH = Rule(r"Hash: [A-Z0-9, -]+$", "Ha")
PGP_BEGIN = Rule(r"-----BEGIN PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")
PGP_END = Rule(r"-----END PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")

# Diffs
HUNK = r"^@@ -\d+(?:,(?P<old>\d{1,9}))? \+\d+(?:,(?P<new>\d{1,9}))? @@"
DIFF = Rule(
    r"diff (?:-|a/|\w)|Index: \S+|index [0-9a-f]{4,}|--- (?:a/|/dev/null|\S+\t|\S+[./]\S* +\S)|"
    r"--- [\w./-]+/[\w.-]+$|\+\+\+ (?:b/|\S)|@@ -|@@@ |RCS file: |retrieving revision|Binary files? |"
    r"(?:new|deleted) file mode |old mode |new mode |(?:dis)?similarity index |(?:rename|copy) (?:from|to) |"
    r"GIT binary patch|\*{15}|\*\*\* [\w./-]+(?:,\d+ \*{4}|\s+(?:"
    + WEEKDAY
    + r"|\d{4}[-/]))|--- \d+,\d+ ----|"
    r"\*\*\* \d+,\d+ \*{4}|(?:create|delete) mode \d{6}|\\ No newline at end|"
    r"(?:Modified|Added|Deleted): \S+/\S+$",
    r"di In in -- ++ @@ == RC re Bi ne de ol si co GI ** cr \· Mo Ad De",
)
DIFFSTAT = Rule(
    r"\S[^|]*\|  *(?:\d+ [+-]*|Bin(?: .*)?|\d+ \+*-*|\d+)$|\d+ files? changed|rename .*\(\d+%\)|"
    r"(?:create|delete) mode \d{6}"
)
DOUBLE_RULE = Rule(r"={8,}$", "==")
SHORTLOG = Rule(r"[A-Z].+ \(\d+\):$")
CONTEXT_HUNK = Rule(r"\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|--- \d+(?:,\d+)? ----", "** --")
BINARY_PATCH = Rule(r"GIT binary patch", "GI")
BINARY_LINE = Rule(r"(?:literal|delta) \d+|[A-Za-z][!-~]{5,}$")

# What code, logs and sessions look like, by the bytes that lines of that shape begin with.
CODE_SIGNS = Rule(
    r"#[ \t]*(?:include|define|ifdef|ifndef|endif|undef|pragma)\b|/\*|\*/|//|\} ?(?:else|while|catch|;)|"
    r"[,`]-{4}|<[/!?]?[A-Za-z][A-Za-z0-9_:.-]*(?:/?>| [^<>:@]*/?>| [A-Za-z0-9_:-]+=)|"
    r"\[[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,20}\] {1,4}\S|[-=]{2,}\+[-=+]+|\+[-=]{2,}|\|.*\|$|->  ?[A-Za-z0-9_]|"
    r"\([0-9]+ rows?\)|\.\.\. [0-9]+ more|\[ *[0-9]+\.[0-9]{3,}\]|\[<[0-9a-f]+>\]|\^[ \t~]*$|"
    r"[$%] [A-Za-z0-9_]|#[0-9]+ +(?:0x|[A-Za-z0-9_]+ \()|[=\-(*'\"^!][#>] |# [A-Za-z0-9_][A-Za-z0-9_./-]* |"
    r"\[[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*\]?[$#] |[{}]$|[+-]\t|[+-] {2,}\S|[+-][#}{/*]|[+-]$",
    "# / * } , ` < [ - = + | ( . ^ $ % { \" ' !",
)
REFERENCE = Rule(r"\[\w{1,4}\]:?[ \t]+(?:https?:|ftp:|<http|www[.])", "[")
CODE_WORDS = Rule(
    # statements, declarations, assignments, attributes, lists of files, pairs of words
    r"(?:if|for|while|switch|foreach|elif|elsif) ?\(.*[){;]|else\b ?[{:]?$|return\b[^.]*;|"
    r"(?:static|struct|const|unsigned|typedef|enum|extern|public|private|protected|virtual|inline)\b.*[;{(,)=]$|"
    r"(?:void|int|char|bool|long|float|double|size_t)[ *]+[A-Za-z0-9_]+[^.]*[;{(,)=]$|"
    r"(?:def|class) [A-Za-z0-9_]+.*:$|from [A-Za-z0-9_.]+ import |import [A-Za-z0-9_.]+;?$|"
    r"[a-z][A-Za-z0-9_]*[ \t]*\([^)]*\);?[ \t]*\{?$|[A-Za-z0-9_.>\[\]-]+[ \t]*[-+*/|&:]?=[ \t]*[^= ].*[;,]$|"
    r"[A-Za-z0-9_:.-]+=\"[^\"]*\"|(?:[A-Za-z0-9_+-]+\.(?:o|c|h|so|a|lo) ?){3,}|"
    # SQL and what a database server says
    r"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER|EXPLAIN|ORDER BY|GROUP BY|VALUES ?\(|"
    r"WHERE|BEGIN;|COMMIT;) ?[A-Za-z0-9_*(]|QUERY PLAN|Total runtime: |"
    r"(?:select|insert into|delete from|create (?:table|index|function|unique|view)|drop table|alter table|"
    r"explain|grant) .*[;,(*]|"
    r"(?:NOTICE|ERROR|WARNING|LOG|DEBUG|FATAL|HINT|DETAIL|CONTEXT|STATEMENT|PANIC|INFO):  ?\S|"
    # stack traces, dumps, time stamps, prompts, compilers
    r"[A-Za-z0-9_.$]+(?:Error|Exception)(?::|$)|at [A-Za-z0-9_.$<>/]+\(|Caused by: |Traceback \(most|"
    r"File \".*\", line [0-9]+|(?:0x)?[0-9a-f]{4,16}:? (?:[0-9a-f]{2,8} ){3}|"
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]|"
    r"[A-Z][a-z]{2} +[0-9]+ [0-9][0-9]:[0-9][0-9]:[0-9][0-9] |[0-9][0-9]:[0-9][0-9]:[0-9][0-9][.,][0-9]|"
    r"[A-Za-z0-9_]+[=\-(*'\"^!][#>] |[A-Za-z0-9_.-]{2,12}> (?:select|insert|update|create|ls|cd|make|"
    r"SELECT|\\)|"
    r"[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*[$#] |"
    r"[A-Za-z0-9_./+-]+\.(?:c|h|cc|cpp|y|l|java|py|pl|go|rs|sh|S):[0-9]+[:,]|"
    r"(?:cd|ls|cat|mkdir|rm|cp|mv|chmod|chown|sudo|tar|mount|apt-get|yum|make|svn|git|cvs|ssh|scp|wget|curl) "
    r"(?:-|[~/.]|[A-Za-z0-9_-]+[/:]|install$|clean$|update$|upgrade$)|"
    # calls of names with dots or underscores
    r"[A-Za-z_][A-Za-z0-9_]*(?:[._][A-Za-z0-9_]+)+ ?\(.*[,;)]$|"
    r"make(?:\[[0-9]+\])?: |(?:gcc|cc|g\+\+|ld|ar) .*-|In file included|[bcdl-][rwxsStT-]{9}[ +.@]"
)
WORD_PAIR = Rule(r"\S+\t\S+$")
TAIL = Rule(
    r"(?:[\w)\]\"'}>*][ \t]*;|[){=,][ \t]*\{|\{|\}[;,]?|&&|\|\||\\|\*/)[ \t]*(?:/[/*].*)?$", search=True
)
BULLET = Rule(r"(?:[-*+o]|•|\d+[.)])[ \t]+[A-Za-z]")
PROMPT = Rule(r"[$#%] [a-z./~][A-Za-z0-9_./-]*(?: |$)|[A-Za-z0-9_]*[=\-(*'^!][#>] ")
