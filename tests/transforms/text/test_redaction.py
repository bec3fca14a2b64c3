"""Redaction masks secrets before a text leaves this machine and leaves other text unchanged."""

import ibis
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.embedding.sent_texts import texts_sent
from transforms.hashing import text_hash
from transforms.settings.models import SafetySettings
from transforms.text.redaction import masked_in_place, screened

MASK = SafetySettings()
# Put together here, so that no scanner of repositories takes them for real ones.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GOOGLE = "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"
GITHUB = "ghp_" + "a1B2" * 9
SLACK = "xoxb-" + "123456789012-abcdefABCDEF"
STRIPE = "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"
OPENAI = "sk-" + "proj-abcdefghijklmnopqrst0123"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
LINE = "MIIEpAIBAAKCAQEA" * 4
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LINE}\n{LINE}\nabc=\n-----END RSA PRIVATE KEY-----"

MASKED = [
    (f"key {AWS}.", "key [cloud_key]."),
    (f"?key={GOOGLE}&x=1", "?key=[cloud_key]&x=1"),
    (f"+token: {GITHUB}\n", "+token: [access_token]\n"),
    (f"use {SLACK} here", "use [access_token] here"),
    (f"'{STRIPE}'", "'[access_token]'"),
    (f"{OPENAI}", "[access_token]"),
    (f"Cookie: s={JWT}; x", "Cookie: s=[jwt]; x"),
    (f"before\n{PEM}\nafter", "before\n[private_key]\nafter"),
    (f"> {PEM}".replace("\n", "\n> ") + "\nno", "> [private_key]\nno"),
    (f"cut\n{PEM[:100]}", "cut\n[private_key]"),
    (f"{LINE}\n{PEM[-80:]}\nafter", "[private_key]\nafter"),
    ("postgresql://app:hunter2@db/x", "postgresql://app:[url_password]@db/x"),
    ("git clone https://:tok3n@host.org/r", "git clone https://:[url_password]@host.org/r"),
    ("Authorization: Bearer abcdef123456", "Authorization: Bearer [authorization]"),
    ('password = "correct-horse"', 'password = "[password]"'),
    ("'api_key' => 'abcdef123'", "'api_key' => '[password]'"),
    ("export PGPASSWORD=s3cretword psql", "export PGPASSWORD=[password] psql"),
    ("Ann <ann.lee+x@mail.example.org> wrote", "Ann <[email]> wrote"),
    ("call +49 30 1234567 or (415) 555-2671", "call [phone] or [phone]"),
]
HARMLESS = [
    "commit 3f2504e04f8911d39a0c0305e82c3301aabbccdd",
    "-----BEGIN PUBLIC KEY-----",
    "a header -----BEGIN PRIVATE KEY----- without a key",
    "token = get_token(session)",
    "login(user, password=Passw0rd, x)",
    "the password is asked for by `password = getpass()`",
    "https://example.org:8080/path and http://[::1]:80/",
    "SELECT E'\\x' || md5(random()::text)",
    "@@ -120,7 +120,9 @@ static int f(void)",
    "+1234567890\n-1234567890",
    "2024-01-02 10:20:30 +0200, 192.168.100.200, 1.2.3-4567",
    "0000000000000000 ffffffff81234567 task-abcdefghijklmnopqrstuvwxyz0123456789",
]


@pytest.mark.parametrize(("text", "expected"), MASKED, ids=[m[1][:30] for m in MASKED])
def test_a_secret_is_masked_and_the_rest_stays(text: str, expected: str):
    result = screened(["nothing", text], MASK)
    assert result.texts == ["nothing", expected]
    assert sum(result.finds.values()) == expected.count("[")
    assert screened(result.texts, MASK).texts == result.texts


@pytest.mark.parametrize("text", HARMLESS)
def test_text_that_only_resembles_a_secret_is_unchanged(text: str):
    result = screened([text], MASK)
    assert (result.texts, result.finds) == ([text], {})


def test_the_whole_text_is_withheld_if_the_settings_say_so():
    result = screened(
        [f"the key is {AWS}", "ann@example.org", "fine"], SafetySettings(secrets="hold")
    )
    assert result.texts == ["[held back: cloud_key]", "[email]", "fine"]
    assert (result.withheld, dict(result.finds)) == (1, {"cloud_key": 1, "email": 1})


@pytest.mark.parametrize(
    "settings", [MASK, SafetySettings(secrets="send", emails="send", phones="send")]
)
def test_a_text_that_cannot_be_encoded_is_sent_all_the_same(settings: SafetySettings):
    assert screened(["a \ud800 b", "fine"], settings).texts == ["a ? b", "fine"]


def test_what_the_settings_let_through_is_sent():
    texts = [text for text, _ in MASKED]
    sent = screened(texts, SafetySettings(secrets="send", emails="send", phones="send"))
    assert (sent.texts, sent.finds) == (texts, {})
    without_emails = screened(["ann@example.org " + AWS], SafetySettings(emails="send"))
    assert without_emails.texts == ["ann@example.org [cloud_key]"]


@example([f"key {AWS}.", next(text for text, _ in MASKED if text.startswith("MII"))], "")
@given(
    st.lists(st.sampled_from([m[0] for m in MASKED] + HARMLESS), min_size=1, max_size=6), st.text()
)
def test_screening_twice_is_screening_once(parts: list[str], between: str):
    for screen in (
        lambda texts: screened(texts, MASK).texts,
        lambda texts: masked_in_place(texts, MASK)[0],
    ):
        assert screen(once := screen([between.join(parts)])) == once


def test_what_is_sent_goes_by_its_own_hash():
    texts = ["fine", f"one {AWS}", f"one {AWS[:-1]}X"]
    table = ibis.memtable(pa.table({"text_hash": [text_hash(t) for t in texts], "text": texts}))
    sent = texts_sent(table, MASK)
    rows = {r["text"]: r["text_hash"] for r in sent.texts.to_pyarrow().to_pylist()}
    assert rows == {t: text_hash(t) for t in ("fine", "one [cloud_key]")}
    assert sent.renamed == dict.fromkeys(
        (text_hash(t) for t in texts[1:]), text_hash("one [cloud_key]")
    )
    assert sent.finds == {"cloud_key": 2}
