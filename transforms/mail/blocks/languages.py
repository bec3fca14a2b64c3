"""Languages: how mail programs of each language introduce what a reply quotes.

To add a language, add one entry with an example: the tests read the examples of this table.
"""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """What one language contributes to the rules; alternatives are divided by `|`.

    `verbs` stand in the line above a quote, `starts` open such a line when a date or an address
    follows. `sender` to `subject` are the field names of a pasted header block, `banners` the words
    between dashes above it. The text is matched as bytes: a character outside ASCII may neither stand in
    brackets nor be repeated or optional without a group around it.
    """

    name: str
    examples: tuple[str, ...]
    verbs: str
    starts: str
    sender: str = ""
    sent: str = ""
    to: str = ""
    copy: str = ""
    subject: str = ""
    banners: str = ""


LANGUAGES = (
    Language(
        "English",
        (
            "On Tue, 3 Jul 2013 at 00:20, Ann Example <ann@example.org> wrote:",
            "On Mon, Jan 5, 2015 at 4:50 PM, Ann Example <ann@example.org> wrote:",
            "On 2018-07-06 10:00, Ann Example wrote:",
            "At 10:00 AM 7/6/98 -0400, Ann Example wrote:",
            "In article <4711@example.org> you write:",
            "In message <4711@example.org>, Ann Example writes:",
            "On Jul 6, 2018, at 10:00, Ann Example <ann@example.org> wrote:",
        ),
        "[Ww]rote|[Ww]rites?",
        "On|At|In|Begin|Quoting|--- In|From",
        "From",
        "Sent|Date|Sent by",
        "To",
        "Cc|CC|cc|Bcc",
        "Subject",
        "original message|original appointment|forwarded message|begin forwarded message|reply message|"
        "forwarded by|original email|original e-mail",
    ),
    Language(
        "German",
        (
            "Am 17.12.2014 um 17:16 schrieb Ann Example:",
            "Am Fr., 6. Juli 2018 um 10:00 Uhr schrieb Ann Example <ann@example.org>:",
            "Ann Example schrieb am 06.07.2018 um 10:00:",
        ),
        "schrieb(?:en)?|schreibt",
        "Am|Zitat von",
        "Von",
        "Gesendet|Datum",
        "An",
        "Kopie",
        "Betreff",
        "ursprüngliche nachricht|urspruengliche nachricht|ursprüngliche mail|original-nachricht|originalnachricht|"
        "weitergeleitete nachricht|anfang der weitergeleiteten nachricht",
    ),
    Language(
        "French",
        (
            "Le 02/05/2012 16:23, Ann Example a écrit :",
            "Le ven. 6 juil. 2018 à 10:00, Ann Example <ann@example.org> a écrit :",
        ),
        "a (?:é|e)crit",
        "Le",
        "De",
        "Envoyé|Date",
        "À",
        "Copie",
        "Objet",
        "message d'origine|message original|message transféré|message transmis",
    ),
    Language(
        "Spanish",
        (
            "El 15/07/07, Ann Example <ann@example.org> escribió:",
            "El vie., 6 jul. 2018 a las 10:00, Ann Example (<ann@example.org>) escribió:",
        ),
        "escribi(?:ó|o)",
        "El",
        "De",
        "Enviado(?: el)?|Fecha",
        "Para|A",
        "CC",
        "Asunto",
        "mensaje original|mensaje reenviado",
    ),
    Language(
        "Italian",
        (
            "Il 3 maggio 2010 10:00, Ann Example ha scritto:",
            "Il giorno ven 6 lug 2018 alle ore 10:00 Ann Example <ann@example.org> ha scritto:",
        ),
        "ha scritto|scrisse|scrive",
        "Il",
        "Da",
        "Inviato|Data",
        "A",
        "Cc",
        "Oggetto",
        "messaggio originale|messaggio inoltrato",
    ),
    Language(
        "Portuguese",
        (
            "Em 3 de maio de 2010, Ann Example escreveu:",
            "Ann Example <ann@example.org> escreveu no dia sexta, 6/07/2018 à(s) 10:00:",
        ),
        "escreveu",
        "Em|A",
        "De",
        "Enviada?(?: em)?|Data",
        "Para",
        "Cc",
        "Assunto",
        "mensagem original|mensagem encaminhada",
    ),
    Language(
        "Dutch",
        (
            "Op 3 mei 2010 schreef Ann Example:",
            "Op vr 6 jul. 2018 om 10:00 schreef Ann Example <ann@example.org>:",
        ),
        "schreef|schreven|schrijft",
        "Op",
        "Van",
        "Verzonden|Datum",
        "Aan",
        "CC",
        "Onderwerp",
        "oorspronkelijk bericht|doorgestuurd bericht",
    ),
    Language(
        "Swedish",
        (
            "Den 3 maj 2010 10:00 skrev Ann Example <ann@example.org>:",
            "fre 6 juli 2018 kl. 10:00 skrev Ann Example <ann@example.org>:",
        ),
        "skrev",
        "Den",
        "Från",
        "Skickat|Datum",
        "Till",
        "Kopia",
        "Ämne",
        "ursprungligt meddelande|originalmeddelande|vidarebefordrat meddelande",
    ),
    Language(
        "Danish and Norwegian",
        (
            "Den fre. 6. jul. 2018 kl. 10.00 skrev Ann Example <ann@example.org>:",
            "Den 06.07.2018 10:00, skreiv Ann Example:",
            "fre. 6. jul. 2018 kl. 10:00 skrev Ann Example <ann@example.org>:",
        ),
        "skrev|skreiv",
        "Den|På",
        "Fra",
        "Sendt|Dato",
        "Til",
        "Kopi",
        "Emne",
        "oprindelig meddelelse|opprinnelig melding|videresendt meddelelse|videresendt melding",
    ),
    Language(
        "Finnish",
        ("pe 6. heinäk. 2018 klo 10.00 Ann Example (ann@example.org) kirjoitti:",),
        "kirjoitti",
        "Ma|Ti|Ke|To|Pe|La|Su",
        "Lähettäjä",
        "Lähetetty|Päivämäärä",
        "Vastaanottaja",
        "Kopio",
        "Aihe",
        "alkuperäinen viesti|välitetty viesti",
    ),
    Language(
        "Polish",
        (
            "W dniu 03.05.2010, Ann Example napisał(a):",
            "Dnia 6 lipca 2018 10:00 Ann Example <ann@example.org> napisała:",
            "pt., 6 lip 2018 o 10:00 Ann Example <ann@example.org> napisał(a):",
        ),
        r"napisa(?:ł|l)(?:\(a\)|a)?|pisze",
        "W dniu|Dnia|Użytkownik",
        "Od",
        "Wysłano|Data",
        "Do",
        "DW",
        "Temat",
        "wiadomość oryginalna|oryginalna wiadomość|treść przekazanej wiadomości",
    ),
    Language(
        "Czech and Slovak",
        (
            "Dne 3.5.2010 Ann Example napsal:",
            "pá 6. 7. 2018 v 10:00 odesílatel Ann Example <ann@example.org> napsal:",
            "Dňa 6.7.2018 o 10:00 Ann Example napísal:",
        ),
        r"napsal(?:\(a\)|a)?|píše|napísal(?:\(a\)|a)?|(?:na)?pise",
        "Dne|Dňa",
        "Od",
        "Odesláno|Odoslané|Datum|Dátum",
        "Komu",
        "Kopie",
        "Předmět|Predmet",
        "původní zpráva|původní e-mail|přeposlaná zpráva|pôvodná správa",
    ),
    Language(
        "Hungarian",
        ("Ann Example <ann@example.org> ezt írta (időpont: 2018. júl. 6., P, 10:00):",),
        "írta",
        "Ekkor",
        "Feladó",
        "Elküldve|Dátum",
        "Címzett",
        "Másolatot kap",
        "Tárgy",
        "eredeti üzenet|továbbított üzenet",
    ),
    Language(
        "Lithuanian",
        ("2013.07.03 00:20, Ann Example rašė:",),
        "rašė|raštā|rakstīja",
        "",
    ),
    Language(
        "Romanian",
        ("În vin., 6 iul. 2018 la 10:00, Ann Example <ann@example.org> a scris:",),
        "a scris",
        "În|Pe",
        "De la",
        "Trimis|Data",
        "Către",
        "Cc",
        "Subiect",
        "mesaj original",
    ),
    Language(
        "Turkish",
        ("Ann Example <ann@example.org>, 6 Tem 2018 Cum, 10:00 tarihinde şunu yazdı:",),
        "yazdı|yazdi",
        "",
        "Kimden",
        "Gönderilme|Tarih",
        "Kime",
        "Bilgi",
        "Konu",
        "özgün ileti|orijinal mesaj",
    ),
    Language(
        "Russian",
        (
            "3 мая 2010 г. Анна Пример пишет:",
            "06.07.2018 10:00, Ann Example пишет:",
            "пт, 6 июл. 2018 г. в 10:00, Ann Example <ann@example.org>:",
            "Анна Пример писал(а) 6 июля 2018:",
        ),
        r"пишет|(?:на)?писал(?:а|\(а\))?",
        "В|Пн|Вт|Ср|Чт|Пт|Сб|Вс",
        "От",
        "Отправлено|Дата",
        "Кому",
        "Копия",
        "Тема",
        "исходное сообщение|Исходное сообщение|Пересылаемое сообщение|Пересланное сообщение",
    ),
    Language(
        "Ukrainian",
        ("пт, 6 лип. 2018 р. о 10:00 Ann Example <ann@example.org> пише:",),
        r"пише|писав|написав(?:\(ла\))?",
        "У",
        "Від",
        "Надіслано|Дата",
        "Кому",
        "Копія",
        "Тема",
        "Вихідне повідомлення",
    ),
    Language(
        "Greek",
        ("Στις Παρ, 6 Ιουλ 2018 στις 10:00, ο χρήστης Ann Example <ann@example.org> έγραψε:",),
        "έγραψε",
        "Στις",
        "Από",
        "Εστάλη|Ημερομηνία",
        "Προς",
        "Κοιν",
        "Θέμα",
        "Αρχικό μήνυμα",
    ),
    Language(
        "Japanese",
        (
            "2018年7月6日(金) 10:00 Ann Example <ann@example.org>:",
            "Ann Example さんは書きました:",
            "2018/07/06 10:00、Ann Example <ann@example.org>のメール:",
            "On Fri, 6 Jul 2018 10:00:00 +0900, Ann Example さん wrote:",
        ),
        "の発言|は書きました|さん wrote|のメール|の投稿|は言いました",
        "",
        "差出人|送信者",
        "送信日時|日時|日付",
        "宛先",
        "Cc",
        "件名",
        "元のメッセージ|転送メッセージ|Original Message",
    ),
    Language(
        "Chinese",
        (
            "在 2018年7月6日，Ann Example 写道：",
            "Ann Example <ann@example.org> 于2018年7月6日周五 上午10:00写道：",
            "Ann Example <ann@example.org> 於 2018年7月6日 週五 上午10:00寫道：",
            "At 2018-07-06 10:00:00, Ann Example wrote:",
        ),
        "写道|寫道|说道|說道|写到",
        "在",
        "发件人|寄件者|寄件人|發件人",
        "发送时间|发送日期|日期|寄件日期|發送時間",
        "收件人|收件者",
        "抄送|副本",
        "主题|主旨|主題",
        "邮件原件|原始邮件|原邮件|原始郵件|转发邮件|转发的邮件",
    ),
    Language(
        "Korean",
        ("2018년 7월 6일 (금) 오전 10:00, Ann Example <ann@example.org>님이 작성:",),
        "님이 작성|님의 말|작성",
        "",
        "보낸 사람|보낸사람|보낸이",
        "보낸 날짜|보낸 시간|날짜",
        "받는 사람|받는사람|받는이",
        "참조",
        "제목",
        "원본 메시지|원본메시지|전달된 메시지",
    ),
)
