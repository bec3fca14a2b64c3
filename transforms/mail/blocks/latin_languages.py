"""Languages, as the mail programs of each write around a quote, and those in Latin script, an entry each.

To add a language, add one entry with an example: the tests read the examples.
"""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """What one language contributes to the rules; alternatives are divided by `|`.

    `verbs` stand in the line above a quote, `starts` open such a line when a date or an address
    follows. `sender` to `subject` are the field names of a pasted header block, `banners` the words
    between dashes above it, `device` begins a line that a phone or a mail program adds. The text is
    matched as bytes: a character outside ASCII may neither stand in brackets nor be repeated or optional
    without a group around it.
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
    device: str = ""


LATIN_LANGUAGES = (
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
        device=r"Sent from (?:my|Mail|an?|the|Yahoo|Outlook|Samsung|Gmail|AOL|Proton|BlackBerry|Windows|iPhone|iPad)\b|"
        "Sent (?:via|with|using|on|through) .*(?:mailing list|[Mm]ail|mobile|[Pp]hone|device|http|BlackBerry|wireless)|"
        "(?:Get|Download) (?:Outlook|BlueMail|Yahoo) for|Typed on (?:my|a)|Posted via http",
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
        device="Von (?:meinem|meiner|unterwegs) .*gesendet|Gesendet (?:von|mit|über|aus) |Diese Nachricht wurde von meinem|"
        "Holen Sie sich Outlook|Outlook für (?:iOS|Android)",
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
        "À|A",
        "Copie",
        "Objet",
        "message d'origine|message original|message transféré|message transmis",
        device="Envoyé (?:de|depuis|avec|à partir|via|par) |Envoyé d'|(?:Obtenez|Obtenir|Télécharger) Outlook",
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
        device="Enviado (?:desde|con|por) |Obtener Outlook",
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
        device="Inviato (?:da|dal|dalla|con|tramite) |(?:Scarica|Ottieni) Outlook",
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
        device="Enviado (?:do|da|a partir|pelo|via|de) |Obt(?:er|enha) (?:o )?Outlook",
    ),
    Language(
        "Dutch",
        (
            "Op 3 mei 2010 schreef Ann Example:",
            "Op vr 6 jul. 2018 om 10:00 schreef Ann Example <ann@example.org>:",
        ),
        "schreef|schreven|schrijft|het volgende geschreven",
        "Op",
        "Van",
        "Verzonden|Datum",
        "Aan",
        "CC",
        "Onderwerp",
        "oorspronkelijk bericht|doorgestuurd bericht",
        device="(?:Verzonden|Verstuurd) (?:vanaf|vanuit|met|via|door) |Outlook voor (?:iOS|Android)|Download Outlook",
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
        device="Skicka(?:t|des) (?:från|med|via) |Hämta Outlook",
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
        device="Sendt (?:fra|med|via) |(?:Hent|Få|Skaff) Outlook",
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
        device="Lähetetty |Hanki Outlook",
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
        device="Wysłan[eoy] (?:z|ze|przez) |Pobierz (?:aplikację )?Outlook",
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
        device="(?:Odesláno|Odeslané|Odoslané|Odoslaná) (?:z|ze|zo|pomocí|pomocou) ",
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
        device="Elküldve (?:a|az) |(?:A|Az) .+(?:ról|ről|ról|mról|mről) küldve|"
        "(?:iPhone|IPhone|iPad|IPad|Iphone|Ipad)-(?:ról|ről|omról) küldve",
    ),
    Language(
        "Lithuanian",
        ("2013.07.03 00:20, Ann Example rašė:",),
        "rašė|raštā|rakstīja",
        "",
        device="Išsiųsta iš |Nosūtīts no ",
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
        device="Trimis (?:de pe|din|cu) ",
    ),
    Language(
        "Turkish",
        ("Ann Example <ann@example.org>, 6 Tem 2018 Cum, 10:00 tarihinde şunu yazdı:",),
        "yazdı|yazdi",
        "",
        "Kimden|Gönderen",
        "Gönderil(?:me|di)(?: Tarihi)?|Tarih",
        "Kime",
        "Bilgi",
        "Konu",
        "özgün ileti|orijinal mesaj",
        device="(?:iPhone|iPad)'[^ ]+ gönderildi|.*(?:cihazımdan|telefonumdan|uygulamasından|'dan|'den) gönderildi",
    ),
    Language(
        "Lithuanian",
        ("2018-07-06, pn, 10:00 Ann Example <ann@example.org> rašė:",),
        "(?:pa)?rašė",
        "",
        "Nuo",
        "Išsiųsta|Data",
        "Kam",
        "Kopija",
        "Tema",
        "pradinis laiškas|persiųstas laiškas",
        device="Siųsta iš ",
    ),
    Language(
        "Latvian",
        ("piektd., 2018. g. 6. jūl., plkst. 10:00 — lietotājs Ann Example (<ann@example.org>) rakstīja:",),
        "rakstīja",
        "pirmd|otrd|trešd|ceturtd|piektd|sestd|svētd",
        "",
        "Nosūtīts",
        "Kam",
        "Kopija",
        "Temats|Tēma",
        "sākotnējais ziņojums|pārsūtīts ziņojums",
        device="Nosūtīts no ",
    ),
    Language(
        "Indonesian and Malay",
        (
            "Pada Jum, 6 Jul 2018 pukul 10.00 Ann Example <ann@example.org> menulis:",
            "Pada 6 Juli 2018 10:00, Ann Example <ann@example.org> menulis:",
        ),
        "menulis",
        "Pada",
        "Dari|Daripada",
        "Dikirim|Tanggal|Terkirim|Dihantar|Tarikh",
        "Kepada|Ke",
        "Tembusan|Cc",
        "Perihal|Subjek|Judul",
        "pesan asli|pesan yang diteruskan|pesan terusan|mesej asal",
        device="(?:Dikirim|Dihantar|Terkirim) (?:dari|daripada|melalui) ",
    ),
    Language(
        "Vietnamese",
        ("Vào 10:00 6 tháng 7, 2018, Ann Example <ann@example.org> đã viết:",),
        "đã viết",
        "Vào|Vào lúc",
        "Từ",
        "Đã gửi|Ngày",
        "Đến|Tới",
        "Cc",
        "Chủ đề|Tiêu đề",
        "thư gốc|thư đã chuyển tiếp",
        device="(?:Đã gửi|Được gửi) từ ",
    ),
    Language(
        "Catalan",
        ("El dia 6 juliol 2018 10:00, Ann Example <ann@example.org> va escriure:",),
        "va escriure|ha escrit",
        "El dia|El",
        "De",
        "Enviat(?: el)?|Data",
        "Per a|A",
        "Còpia",
        "Assumpte|Tema",
        "missatge original|missatge reenviat",
        device="Enviat (?:des|amb) ",
    ),
    Language(
        "Croatian, Serbian and Slovene",
        (
            "Dana 6. 7. 2018. u 10:00, Ann Example <ann@example.org> je napisala:",
            "V pet., 6. jul. 2018 ob 10:00 je oseba Ann Example <ann@example.org> napisala:",
        ),
        r"(?:je )?napisa(?:o|la|l)(?:\(la\)|/la)?|piše",
        "Dana|V|Dne",
        "Od|Šalje",
        "Poslano|Poslato|Datum",
        "Za|Prima",
        "Kopija",
        "Predmet|Zadeva|Naslov",
        "izvorna poruka|originalna poruka|izvirno sporočilo|proslijeđena poruka|posredovano sporočilo",
        device="Poslano (?:s|z|iz|sa) |Poslato (?:sa|iz) ",
    ),
    Language(
        "Estonian",
        ("Kuupäev 6. juuli 2018 10:00 kirjutas Ann Example <ann@example.org>:",),
        "kirjutas",
        "Kuupäev",
        "Saatja",
        "Saadetud|Kuupäev",
        "Adressaat",
        "Koopia",
        "Teema",
        "algne sõnum|edastatud sõnum",
        device="Saadetud (?:minu|rakendusest) ",
    ),
)
