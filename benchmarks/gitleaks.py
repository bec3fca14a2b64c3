"""Convert the rules of gitleaks to those that masks read.

    python benchmarks/gitleaks.py gitleaks.toml > transforms/text/finds/gitleaks.toml

The argument is config/gitleaks.toml of https://github.com/gitleaks/gitleaks (MIT License). A rule
is written with its words, its entropy, and its expression as Python reads one: a `(?i)` in the
middle becomes a group, and what may be before the word goes, since a rule is tried at its word
alone. Left out, with the reason on the error stream: rules for files, for names that are no secret,
those that Python does not read or that repeat a repeat without bounds, and tokens that the forms of
table.toml find, which also know broken lines and base64.
"""

import random
import re
import sys
import tomllib
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]

from printing import new_parser

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.transforms.text.pattern_samples import sample  # noqa: E402
from transforms.text.finds.forms import forms  # noqa: E402

BEFORE = r"[\w.-]{0,50}?"
OWN = {
    "generic-api-key": "named.py looks for such names",
    "curl-auth-header": "commands.py looks for headers",
    "curl-auth-user": "commands.py looks for users of curl",
    "hashicorp-tf-password": "named.py looks for such names",
    "kubernetes-secret-yaml": "named.py looks for such names",
    "nuget-config-password": "named.py looks for such names",
    "private-key": "private_keys.py looks for keys",
}
NO_SECRET = re.compile(r"client-id\Z|public-key\Z")
SAMPLES = 20
SHORTEST_WORD = 3
"""Letters by which the finder looks a word up."""
HEAD = """# Rules for tokens of services, converted from the rules of gitleaks (https://github.com/gitleaks/gitleaks)
# by benchmarks/gitleaks.py.
#
# MIT License, Copyright (c) 2019 Zachary Rice: the whole text is in NOTICE.
"""


def main() -> None:
    """Print the rules, and on the error stream each rule that is left out."""
    parser = new_parser(__doc__)
    parser.add_argument("rules", type=Path)
    arguments = parser.parse_args()
    print(HEAD)
    for rule in tomllib.loads(arguments.rules.read_text(encoding="utf-8"))["rules"]:
        pattern = converted(rule.get("regex", ""))
        reason = why_left_out(rule, pattern)
        if reason:
            print(f"{rule['id']}: {reason}", file=sys.stderr)
        else:
            print(as_toml(rule, pattern))


def converted(pattern: str) -> str:
    """An expression of Go (RE2) as one of Python, without what may be before its word."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    pattern = pattern.replace(BEFORE, "").replace("(?P<", "(?P<_")
    while (at := pattern.find("(?i)", 1)) > 0:
        end = end_of_group(pattern, at)
        pattern = f"{pattern[:at]}(?i:{pattern[at + 4 : end]}){pattern[end:]}"
    return pattern


def end_of_group(pattern: str, at: int) -> int:
    """Where the group that `at` is in ends."""
    depth, is_class, place = 0, False, at
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif is_class:
            is_class = letter != "]"
        elif letter == "[":
            is_class = True
        elif letter == "(":
            depth += 1
        elif letter == ")":
            if depth == 0:
                return place
            depth -= 1
        place += 1
    return place


def why_left_out(rule: dict, pattern: str) -> str | None:
    """The reason to leave a rule out; None if there is none."""
    name = rule["id"]
    if not pattern:
        return "it is for files"
    if not words_of(rule):
        return "its words are too short to look for; table.toml has its form"
    if name in OWN:
        return OWN[name]
    if NO_SECRET.search(name):
        return "a name is no secret"
    try:
        re.compile(pattern.encode())
    except re.error as error:
        return f"Python does not read it ({error})"
    if repeats_a_repeat(_parser.parse(pattern)):
        return "it repeats a repeat without bounds"
    lot = random.Random(name)
    texts = [sample(pattern, lot).strip() for _ in range(SAMPLES)]
    return "table.toml has it" if all(map(has_form, texts)) else None


def repeats_a_repeat(parts: object, is_within: bool = False) -> bool:
    """Whether an endless repeat is within another one."""
    for op, value in parts:  # type: ignore[attr-defined]
        is_endless = str(op).endswith("_REPEAT") and value[1] == _parser.MAXREPEAT
        if is_endless and is_within:
            return True
        inner = value if isinstance(value, (tuple, list)) else ()
        for part in inner:
            groups = part if isinstance(part, list) else [part]
            trees = [group for group in groups if isinstance(group, _parser.SubPattern)]
            if any(repeats_a_repeat(tree, is_within or is_endless) for tree in trees):
                return True
    return False


def has_form(text: str) -> bool:
    return any(
        text.startswith(prefix) and form.pattern.match(text.encode())
        for prefix, form in forms().items()
    )


def words_of(rule: dict) -> list[str]:
    return [word for word in rule["keywords"] if len(word) >= SHORTEST_WORD]


def as_toml(rule: dict, pattern: str) -> str:
    """A rule as a table; `is_first` if its text begins with a word, else it is searched around."""
    words = words_of(rule)
    lot = random.Random(rule["id"])
    texts = [sample(pattern, lot).lower().lstrip() for _ in range(SAMPLES)]
    is_first = all(text.startswith(tuple(words)) for text in texts)
    lines = [
        "[[rules]]",
        f'id = "{rule["id"]}"',
        f"words = {words}",
        f"is_first = {str(is_first).lower()}",
        f"entropy = {float(rule.get('entropy', 0))}",
        f"pattern = '''{pattern}'''",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
