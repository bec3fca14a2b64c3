"""Rules: the shapes of lines of quotes, headers, signatures, diffs, code, logs and sessions."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from transforms.mail.blocks.lines import Rule, byte_table
from transforms.toml_file import patterns, toml_file

LANGUAGES: Sequence[Mapping[str, Sequence[str]]] = toml_file(__name__, "languages.toml")["language"]
"""The words of each language for the rules; the file explains its fields."""
EXPRESSIONS = patterns(__name__, "patterns.toml")


def _alternatives(field: str) -> list[str]:
    """Those of all languages for one field, longest first."""
    alternatives = {word for language in LANGUAGES for word in language.get(field, ())}
    return sorted(alternatives, key=lambda word: (-len(word), word))


def _words(field: str) -> str:
    return "|".join(_alternatives(field))


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
    return " ".join(word.replace(" ", "·") for word in _alternatives(field))


def _openings(word: str) -> list[str]:
    """The beginnings of texts that match an alternative."""
    if word.startswith("(?:"):
        end = word.index(")")
        return [opening + " " * (word[end + 1] == " ") for opening in _split(word[3:end])]
    return [re.split(r"[(\[.]", word)[0]]


def _heads(words: Iterable[str], size: int) -> str:
    """The first characters of the words, as alternatives."""
    return "|".join(sorted({word[:size] for word in words}))


def _last_words(alternatives: Iterable[str]) -> str:
    """The last words of the alternatives that have several."""
    divided = [word.rsplit(" ", 1) for word in alternatives if " " in word]
    return "|".join(sorted({last for first, last in divided if "(" not in first}))


WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
COLON = "(?::|：)(?:\u202c)?"
"""A colon, behind which mail programs of languages that run from right to left end their direction.
"""
COLON_ENDS = np.frombuffer(b":\x9a\xac", dtype=np.uint8)
"""The last bytes of `COLON`."""

# Quotes
GNATS = Rule(rf">(?:{EXPRESSIONS['gnats']}):")
FROM_LINE = Rule(r">From ", ">F")
PYTHON_PROMPT = Rule(rf">>> (?:{EXPRESSIONS['python_prompt']})", ">>")
R_PROMPT = Rule(rf"> ?(?:{EXPRESSIONS['r_prompt']})$", ">")
R_OUTPUT = Rule(EXPRESSIONS["r_output"])
CLOSED_TAG = Rule(r"></", "></")
SUPERCITE_HEADER = Rule(r'>{3,} ?"?[^>"]+"?.* (?:==|writes|wrote).*:', ">>")
GROUPWISE = Rule(r">{3} [^>].*\d\d?[:.]\d\d(?: ?[AP]M)? ?>{3}$", ">>")
EMPTY_QUOTE = Rule(r"[> \t]+$", ">")
INITIALS = re.compile(rb"([A-Z][A-Za-z]{0,3}|[a-z]{2,3})>+(?:[ \t]|$)|\|(?=(?: [^|]*)?$)")
LONG_INITIALS = re.compile(rb"([A-Za-z][\w.-]{0,23})>+(?:[ \t]|$)|\|(?=(?: [^|]*)?$)")
"""The same in a mail whose first quote says `>>>>> "ann" == Ann writes`: the mark is the name that it gives."""
BAR_TEXT = re.compile(rb"\| (?:[A-Za-z\x80-\xff][\w'(),.\x80-\xff-]* ){3}")
INITIALS_TEXT = re.compile(
    rb"[A-Z]{2,3}>[ \t]+(?:[A-Za-z\x80-\xff][\w'(),.?\x80-\xff-]*(?: |$)){3}"
)
SENTENCE_REST = Rule(r"[a-z'-]+(?: [a-z'-]+)*[.?!)]+$")
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
LONE_VERB = Rule(rf"(?:{_last_words(_alternatives('verbs'))}) ?{COLON}$", needs=rf"^\S+ ?{COLON}$")
"""The rest of an attribution whose verb is folded."""
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
    r"\d{4}[./-]\d+[./-]\d+ .*:$|(?:On|At) .*\d.* (?:said|mentioned|stated|noted|asked|replied|spake):$|"
    rf".+<[^<> ]+@[^<> ]+>{COLON}$|\.\.\. .*:$|"
    r"(?:\[ ?)?[A-Z]\S*(?: [A-Z(<\[]\S*){0,4},? (?:said|says|sez|spake|stated|typed|scribbled|replied|asked)\b.*:$)"
)
NAMED_ATTRIBUTION = Rule(
    r"\d{4}[./-]\d+[./-]\d+ .*<[^<> ]+@[^<> ]+>$|[Tt]hus (?:spake|wrote|spoke) [A-Z].{2,60}$|"
    rf"(?:{_DATED}).*\d.*\s(?:{_VERBS})$",
    needs=r"^(?:\d{4}[./-]|[Tt]hus |.*\d.*\s\S*(?:[A-Za-z]|[\x80-\xff]\)?)$)",
)
ADDRESSED = Rule(
    rf"(?:{_DATED}).*(?:<[^<> ]+@[^<> ]+>|\d[:.h]\d\d [^\d\s]{{1,8}} [^<>()\s]+@[\w.-]+){COLON}$",
    needs=rf"@[^<>@ ]+>?{COLON}$",
)
"""A date and an address without any verb, which needs no quote below to be known."""
NEWS_ATTRIBUTION = Rule(
    rf".*(?:{_VERBS}) (?:in (?:message|article|bericht)|im Newsbeitrag|dans le message|en el mensaje|"
    r"nel messaggio|i meddelandet|w wiadomości|news:).*(?:\.\.\.|>|:|\w)$",
    needs=r"in (?:mes|art|ber)|im News|dans l|en el|nel m|i med|w wia|news:",
)
ON_WEEKDAY = Rule(r"On " + WEEKDAY + r"[a-z]*\b", "On")

# Header blocks
_BANNERS = _words("banners")
ORIGINAL = Rule(
    rf"(?i:[-_]{{2,}}[ \t]*(?:{_BANNERS})|inactive hide details for |"
    r"(?:begin forwarded message|anfang der weitergeleiteten nachricht|"
    r"début du message réexpédié|inizio messaggio inoltrato|inicio del mensaje reenviado):)",
    "-- __ Be be An D I",
    needs=rf"(?i)^(?:[-_]+[ \t]*(?:{_heads(_alternatives('banners'), 3)})|"
    r"begin f|anfang d|début d|inizio m|inicio d|inactive h)",
)
BANNER_MARKS = np.frombuffer(b"-_", dtype=np.uint8)
# A banner that a mail program folded: it begins with dashes, and they end it on the next line.
OPEN_BANNER = Rule(r"[-_]{2,}.*[^-_\s]$", "-- __")
BANNER_REST = Rule(r"[^-_\n]{0,60}[-_]{3,}$")
# Any words between dashes, and forms with the date or the name of the writer in the line.
TITLE = Rule(r"[-_]{3,} ?[^-_\n]{3,60} ?[-_]{3,}$", "-- __")
WROTE_BANNER = Rule(
    rf"-{{2,}} ?(?:On .*\d.*|[A-Z][^-]{{2,60}}) (?:{_VERBS}) ?:?-*$", "--", needs=r"^-+ ?[A-Z].* \S"
)
FORWARDED = Rule(rf"(?i:.*(?:{EXPRESSIONS['forwarded']}))")
_FIELDS = "|".join(_words(field) for field in ("sender", "sent", "to", "copy", "subject"))
FIELD = Rule(
    rf"[*_]{{0,2}}(?:{_FIELDS}|Reply-To|Newsgroups|Importance|Organization|Message-I[dD]|Attachments?|"
    rf"In-Reply-To|References|X-[A-Za-z-]+|User-Agent|Priority|{EXPRESSIONS['transport_field']})[*]?[ \t]?"
    + COLON,
    plain=True,
)
FIELD_TRANSPORT = Rule(rf"(?:{EXPRESSIONS['transport_field']}):")
"""A field that servers write: a header that begins with it was pasted whole."""
FIELD_FROM = Rule(
    rf"[*_]{{0,2}}(?:{_words('sender')})[*]?[ \t]?{COLON}", "* _ " + _starts("sender")
)
FIELD_RECEIVER = Rule(
    rf"[*_]{{0,2}}(?:{_words('to')}|{_words('copy')})[*]?[ \t]?{COLON}.*\S",
    "* _ " + _starts("to") + " " + _starts("copy"),
)
ADDRESS_LINE = Rule(r"(?:[^<>@:]{0,60}<?[\w.+-]+@[\w.-]+>?,? ?)+$", needs=r"@[\w.-]+>?,?$")
FIELD_SUBJECT = Rule(rf"[*_]{{0,2}}(?:{_words('subject')})[*]?[ \t]?{COLON}", plain=True)
# The whole block in one line, as some programs flatten it.
_AFTER_FIELD = rf"[*_]{{0,2}}[ \t]?{COLON}"
FIELDS_IN_LINE = Rule(
    rf"[*_]{{0,2}}(?:{_words('sender')}){_AFTER_FIELD}.*\s[*_]{{0,2}}(?:{_words('sent')}){_AFTER_FIELD}.*"
    rf"\s[*_]{{0,2}}(?:{_words('subject')}){_AFTER_FIELD}",
    "* _ " + _starts("sender"),
    needs=rf"(?:[^\s\d:][*_]?[ \t]?{COLON}.*){{3}}",
)
FIELD_TO = Rule(rf"[*_]{{0,2}}(?:{_words('to')}|{_words('sent')})[*]?[ \t]?{COLON}", plain=True)
GIT_FROM = Rule(r"From [0-9a-f]{7,40} " + WEEKDAY + " ", "Fr")
# Lotus Notes: a name, a date line, then fields that are indented or alone on their lines.
NOTES_DATE = Rule(
    r"(?:.*\s)?\d{1,4}[./-]\d\d?[./-]\d{2,4} \d\d?[:.]\d\d(?:[:.]\d\d)?(?: ?[AP]M)?(?: [A-Z]{2,4}(?:[+-]\d+)?)?$"
)
NOTES_TO = Rule(rf"(?:{_words('to')})(?:$|[ \t]*:)", _starts("to"))
NOTES_SUBJECT = Rule(rf"(?:{_words('subject')})(?:$|[ \t]*:)", _starts("subject"))
ADDRESSES = Rule(r"[@/]", search=True)
TRACKER = Rule(EXPRESSIONS["tracker"])
NEAR_RULE = Rule(r"[-=]{8,}|What +\||-{3,} (?:Additional )?Comment", "-- == Wh")
# A line to cut along, as git knows it: a blade between dashes, and perhaps a word on what to do.
SCISSORS = Rule(
    r"(?:[-=]+ ?(?:>8|8<|>%|%<)|8< ?[-=]+)[-=><8%* \t]*(?:(?i:cut|snip|tear)[\w ,.]*[-=><8%* \t]*)?$",
    "-- == 8<",
)
OTHER_MARK = Rule(r"[|:%](?: |$)")
SAID_ABOVE_MARK = Rule(
    rf"(?:\.{{3}} ?)?(?:and then )?\S[^\n]{{1,80}} (?:{_words('verbs')}|said|says)(?:\.\.\.|{COLON})$"
)
"""Who said the lines with such a mark that are right below."""

# Marks of a mail of a list: its footer, its address, its name in the subject.
LISTED = Rule(EXPRESSIONS["listed"], search=True)
OFFICE_TAG = Rule(rf"(?i:{EXPRESSIONS['office_tag']})", search=True)
"""Tags that programs of a company put before a subject, as those of lists do; a number is that of a
ticket.
"""
ABOVE_BLOCK = Rule(
    r"_{10,}[ \t]*$|.*\b(?:wrote|writes|schrieb|a écrit|escribió|scritto|schreef)\b.*\d.*:[ \t]*$"
)
"""Lines that programs put right above the header of the mail that they quote: a rule, or an
attribution of its own.
"""
ABOVE_ATTRIBUTION = Rule(r"[-_]{20,}$|[^<>:]{3,60}[<(][^ <>()]+@[^ <>()]+[>)] on$")
HELLO = Rule(rf"(?i:(?:{EXPRESSIONS['hello']})\b[^.?!]*[,.!:]?$)", plain=True)

NUMBERED = Rule(r"\[\d+/\d+\] ", "[")
"""A patch of a series."""

# Signatures and footers
DASHES = Rule(r"-- ?$", "--")
GIT_VERSION = Rule(r"\d+\.\d+[\w.+-]*(?: \([^)]*\))?$")
RULE_LINE = Rule(
    r"[-_=~*#]{8,}|--~--~|-~-----|-----+ ?[A-Z][^-]+-{3,}|={5,}.*={5,}", "-- -~ __ == ~~ ** ##"
)
NOTICE_TITLE = Rule(r"[-_=~*#+]{3}", "-- __ == ~~ ** ## ++")
SHORT_RULE = Rule(r"_{2,7}$", "__")
UNDERLINE = byte_table(b"-=~*#")
SPOKEN_END = byte_table(b".?!:;,")
FOOTER_WORDS = Rule(EXPRESSIONS["footer"], search=True, lower=True, plain=True)
DISCLAIMER = Rule(EXPRESSIONS["disclaimer"], search=True, lower=True)
# Who owns the company that sends, as law wants it below business mail.
LEGAL = Rule(EXPRESSIONS["legal"], search=True, plain=True)
AUTOMATIC = Rule(
    r"(?i:(?:automatically|auto-?) ?generated|do not reply|to reply, visit)", search=True
)
BROADCAST = Rule(r"-{5,}\((?:end of broadcast|fim da|fin de)", "--")
TIP = Rule(EXPRESSIONS["tip"], "TI ht To Yo")
_DEVICES = _alternatives("device")
_DEVICE_BEGUN = [word for word in _DEVICES if not word.startswith(".")]
_DEVICE_STARTS = [start for word in _DEVICE_BEGUN for start in _openings(word)]
_SHORT_STARTS = [word for word in _DEVICE_BEGUN if min(map(len, _openings(word))) < 4]
DEVICE = Rule(
    "|".join(_DEVICE_BEGUN),
    " ".join(start.replace(" ", "·") for start in _DEVICE_STARTS),
    needs=f"^(?:{_heads((s for s in _DEVICE_STARTS if len(s) > 3), 6)}|{'|'.join(_SHORT_STARTS)})",
    plain=True,
)
DEVICE_ENDED = Rule("|".join(word for word in _DEVICES if word.startswith(".")))
"""The same of languages that say it at the end of a line."""
DEVICE_BYTES = 110
# Links below a post of a web forum or a tracker, and the words before them.
FORUM_LINK = Rule(rf"(?i:(?:{EXPRESSIONS['forum_link']})\b[^:]{{0,40}}:\s*(?:https?://\S+)?$)")
LINK_BEHIND = Rule(r":\s*https?://", search=True)
LINK = Rule(r"<?https?://\S+>?$", "ht <h")
CUT = Rule(r"---$", "--")
LONE_RULE = Rule(r"[-_=~*#+. ]{3,}$", "-- -· __ == =· ~~ *· ** ## ++")
SHORT_MARK = Rule(
    r"[-_=*~+#.]{2,7}$|(?:[-=*_~] ){3,}[-=*_~]?$|-=-=?[-=]*$",
    "-- __ == ** ~~ ++ ## .. -· =· *· _· ~· -=",
)
COLUMN_MARK = Rule(r"[|]", search=True)
CONTACT = Rule(EXPRESSIONS["contact"], search=True)
# Ways to reach somebody that stand alone in their lines.
REACH = Rule(rf"(?i:{EXPRESSIONS['reach']})", plain=True)
SIGNED_LINE = Rule(EXPRESSIONS["signed_line"], needs=r"@|://|(?:[cdCGAVBHyb]|Labs|y|rch)\.?$")
# Names begin with a capital of the Latin, Greek or Cyrillic alphabet.
_CAPITAL = r"(?:[A-Z]|\xc3[\x80-\x9e]|[\xc4\xc5].|\xce[\x86-\xab]|\xd0[\x80-\xaf])"
_SMALL = r"[\w.'\x80-\xff-]*"
PERSON_NAME = Rule(
    rf"{_CAPITAL}{_SMALL}(?: (?:\(|{_CAPITAL})[\w.')\x80-\xff-]*){{0,3}}[,.]?(?:$|(?:  |\t)[^|]*$| \| {_CAPITAL})",
    plain=True,
)
FULL_NAME = Rule(
    rf"{_CAPITAL}{_SMALL}(?: {_CAPITAL}{_SMALL}){{1,3}}(?:, ?[A-Z][A-Za-z.]{{1,5}}){{0,4}}$"
)
"""A name, and behind it perhaps the letters of degrees."""
GREETING = Rule(rf"(?:{EXPRESSIONS['greeting']})[,.!]*$", lower=True, plain=True)
PGP = Rule(r"-----(?:BEGIN|END) PGP ", "--")
PGP_SIGNED = Rule(r"-----BEGIN PGP SIGNED MESSAGE-----", "--")
PGP_HASH = Rule(r"Hash: [A-Z0-9, -]+$", "Ha")
PGP_BEGIN = Rule(r"-----BEGIN PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")
PGP_END = Rule(r"-----END PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")
