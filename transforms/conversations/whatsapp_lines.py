"""What WhatsApp itself writes into exports: media, deletions and lines about members, in the languages of the phone.

What is here: patterns and whom a line names. Forms that hold in any language stand before the words of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARKS = "\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"

# `<Media omitted>` and `<attached: 1.jpg>` have two words or letters outside ASCII, as tags that people type have not.
MEDIA = re.compile(
    rf"[{_MARKS}]*(?:<[^<>\n/=]{{1,40}} [^<>\n/=]{{1,40}}>|<[^<>\n\x00-\x7f]{{2,40}}>"
    r"|<[^<>:\n]{2,24} ?: [^<>\n]+\.\w{2,5}>"
    r"|[^\n]{1,200}\.\w{2,5} \([^()\n]{4,40}\)|null"
    r"|(?:image|video|audio|sticker|GIF|document|Contact card|[Vv]ideo note) omitted"
    r"|(?:Bild|Video|Audio|Sticker|GIF|Dokument|Kontaktkarte|Videonachricht) (?:weg|aus)gelassen"
    r"|(?:imagen|[Vv]ideo|audio|sticker|GIF|documento|Tarjeta de contacto) omitid[oa]"
    r"|(?:imagem|vídeo|áudio|figurinha|GIF|documento|[Cc]artão do contato) (?:ocultad|omitid)[oa]"
    r"|(?:image|vidéo|audio|sticker|GIF|document|[Ff]iche contact) (?:absente?|omise?|retirée?|manquante?)"
    r"|(?:immagine|video|audio|sticker|GIF|documento|[Ss]cheda contatto) (?:omess[oa]|esclus[oa]|non inclus[oa])"
    r"|(?:afbeelding|video|audio|sticker|GIF|document|[Cc]ontactkaart) weggelaten"
    r")[ \t]*"
)
ATTACHED_BELOW = re.compile(rf"[{_MARKS} ]*<[^<>:\n]{{2,24}} ?: [^<>\n]+\.\w{{2,5}}>[ \t]*\Z")
_FILE = re.compile(
    rf"[{_MARKS} ]*(?:<[^<>:\n]{{2,24}} ?: (?P<a>[^<>\n/]+\.\w{{2,5}})>"
    r"|(?P<b>[^\n/]{1,200}\.\w{2,5}) \([^()\n]{4,40}\))[ \t]*\Z"
)
DELETED = re.compile(
    rf"[{_MARKS}]*(?:This message was deleted|You deleted this message"
    r"|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht"
    r"|Se eliminó este mensaje|Eliminaste este mensaje|Este mensaje fue eliminado"
    r"|(?:Essa |Esta )?[Mm]ensagem (?:foi )?(?:apagada|eliminada)|Você apagou (?:esta|essa) mensagem"
    r"|Ce message a été supprimé|Vous avez supprimé ce message"
    r"|Questo messaggio è stato eliminato|Hai eliminato questo messaggio"
    r"|Dit bericht (?:is|werd) verwijderd|(?:Je|U) hebt dit bericht verwijderd"
    r"|Bu mesaj silindi|Bu mesajı sildiniz|Ta wiadomość została usunięta"
    r"|Данное сообщение удалено"
    r"|Pesan ini (?:telah )?dihapus|Anda menghapus pesan ini|Det här meddelandet raderades)\.?[ \t]*"
)
EDITED = re.compile(
    rf"[{_MARKS} ]*<[^<>\n]{{0,40}}(?:edited|bearbeitet|editó|editad[oa]|modifié|modificato|bewerkt|düzenlendi|"
    r"edytowan|измен|diedit|redigera)[^<>\n]{0,20}>[ \t]*\Z"
)
# What a user shares that iOS marks as its own words: polls and places are messages.
SHARED = re.compile(rf"[{_MARKS}]*(?:\w{{3,12}} ?:\n|[^\n:]{{3,24}} ?: https?://)")

_DOES = (
    # who does what to nobody in particular, a language a line
    r"created|left|joined|changed|pinned|was added|was removed|is now|requested|turned (?:on|off)|reset|started|updated|set",
    r"hat (?:die|den|das|der|diese[rn]?)|ist (?:der|dieser|jetzt|nun)|hat seine|hat ihre|wurde|verwendet jetzt|wechselte",
    r"salió|creó|cambió|se unió|fijó|ahora es|abandonó|activó|desactivó|modificó",
    r"saiu|criou|mudou|alterou|entrou|fixou|agora é|foi (?:adicionad|removid)[oa]|ativou|desativou",
    r"a quitté|a créé|a changé|a modifié|a rejoint|est parti|est désormais|a été|a épinglé|a activé",
    r"ha abbandonato|è uscit[oa]|ha creato|ha cambiato|ha modificato|si è unit[oa]|è entrat[oa]|ora è|è stat[oa]",
    r"heeft (?:de|het|deze)|neemt|is nu|is toegevoegd|is verwijderd|nam deel",
    r"ayrıldı|grubu oluşturdu|değiştirdi|katıldı",
    r"opuścił\(?a?\)?|utworzył\(?a?\)?|zmienił\(?a?\)?|dołączył\(?a?\)?",
    r"покинул|вышел|вышла|создал|изменил|присоединил",
    r"keluar|membuat grup|mengubah|bergabung",
    r"lämnade|skapade|ändrade|gick med",
)
_ADDS = (
    # who adds, removes or invites whom; the second group is whom
    r"(?:added|removed|invited) (?P<b>[^\n]+)",
    r"(?:hat|hast|haben) (?P<b>[^\n]+?) (?:hinzugefügt|entfernt|eingeladen)",
    r"(?:añadió|añadiste|agregó|agregaste|eliminó|eliminaste|invitó) a (?P<b>[^\n]+)",
    r"(?:adicionou|removeu|convidou) (?P<b>[^\n]+)",
    r"(?:a|avez) (?:ajouté|retiré|supprimé|exclu|invité) (?P<b>[^\n]+)",
    r"(?:ha|hai) (?:aggiunto|rimosso|invitato) (?P<b>[^\n]+)",
    r"(?:heeft|hebt) (?P<b>[^\n]+?) (?:toegevoegd|verwijderd|uitgenodigd)",
    r"(?P<b>[^\n]+?) kişi(?:sini|lerini) (?:ekledi|çıkardı)",
    r"(?:dodał|usunął|usunęła|zaprosił)(?:\(a\)|a)? (?P<b>[^\n]+)",
    r"(?:добавил|удалил|пригласил)(?:\(-?а\)|а)? (?P<b>[^\n]+)",
    r"(?:menambahkan|mengeluarkan) (?P<b>[^\n]+)",
    r"(?:lade till|tog bort) (?P<b>[^\n]+)",
)
_WITH = re.compile(
    r"(?:code with|Sicherheitsnummer (?:für|von|mit)|código de seguridad con|código de segurança com|"
    r"code de sécurité avec|codice di sicurezza con|beveiligingscode met|call from|Sprachanruf von|Videoanruf von) "
    r"(?P<b>[^\n]+?)(?: (?:has|have|changed|hat|haben|wurde|cambi|mudou|a chang|è cambiat|is gewijzigd|at|um)\b|[.,]|$)"
)
_NOTICE = re.compile(
    r"(?i:end-to-end|verschlüsselt|cifrad|criptografad|chiffr|crittograf|versleuteld|şifre|szyfrow|шифр|"
    r"enkripsi|krypter|missed|verpasst|perdida|manqu|persa|gemist|cevapsız|disappear|verschwind|temporales|éphém|"
    r"effimer|verdwijn|waiting for this|security code|business)"
)
_PEOPLE_DO = [re.compile(rf"(?P<a>[^\n\"„“«]{{1,80}}?),? (?:{verbs})(?![a-z])") for verbs in _DOES]
_PEOPLE_ADD = [re.compile(rf"(?:(?P<a>[^\n\"„“«]{{1,80}}?),? )?{verbs}") for verbs in _ADDS]
ACTION = re.compile("|".join([r"[\"„“«]", *(rf"\b(?:{verbs})(?![a-z])" for verbs in _DOES)]))
"""What stands in a line of the program before a colon, as in `Maud changed the subject to "Gauges: new"`."""
_AND = re.compile(r", | (?:and|und|y|e|et|en|ve|i|и|dan|och|&) ")
_GROUP = re.compile(
    r" (?:to|from|zur|aus|al|del|ao|do|da|au|du|à|de|nel|al|aan|uit|van|z|в|из|ke|dari|i|från|using|via|über) "
    r"?(?:[\w']+ )?(?:group|Gruppe|grupo|groupe|gruppo|groep|grup|групп|gruppen|this|link)\w*.*$"
)
_NOBODY = re.compile(
    r"(?:you|your|this|the|du|sie|ihr|dich|das|die|den|der|diese\w*|el|la|los|las|usted|te|se|você|o|a|vous|le|les|l'.*|cette|ce|"
    r"il|lo|hai|ti|je|jij|u|de|het|deze|вы|вас|anda|ty|siz|sizi|jou|dig)\b.*",
    re.I,
)
_PHONE = re.compile(r"\+\d[\d ().\u00a0\u202f-]{6,}\d")


def members(line: str) -> Iterator[str]:
    """The people whom a line of the program names, and the telephone numbers in it.

    >>> sorted(set(members("Maud hat Jo Pires und +49 170 1234567 hinzugefügt")))
    ['+49 170 1234567', 'Jo Pires', 'Maud']
    """
    text = line.strip(_MARKS_ALONE)
    yield from _PHONE.findall(text)
    for pattern in (*_PEOPLE_ADD, _WITH):
        if match := pattern.search(text):
            yield from (name for group in match.groups() if group for name in _people(group))
            return
    for pattern in _PEOPLE_DO:
        if match := pattern.match(text):
            yield from _people(match["a"])
            return


_MARKS_ALONE = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff \t"


def _people(group: str) -> Iterator[str]:
    """The names in one place of a line, without the group they join and without pronouns."""
    for name in _AND.split(_GROUP.sub("", group)):
        bare = name.strip(_MARKS_ALONE + ".")
        if bare and not _NOBODY.fullmatch(bare) and not _PHONE.fullmatch(bare):
            yield bare


def attached_file(line: str) -> str | None:
    """The name of the file that a line attaches, as `1.pdf (file attached)` does; None if it names none.

    >>> attached_file("Plan.pdf \u2022 2 pages <attached: 00000012-Plan.pdf>"), attached_file("<Media omitted>")
    ('00000012-Plan.pdf', None)
    """
    below = ATTACHED_BELOW.search(line)
    match = _FILE.match(line, below.start() if below else 0)
    return (match["a"] or match["b"]).strip(_MARKS_ALONE) if match else None


def is_understood(line: str) -> bool:
    """True if a line of the program says something that is known, so that the people in it are."""
    text = line.strip(_MARKS_ALONE)
    patterns = (*_PEOPLE_ADD, _WITH, _NOTICE, ACTION)
    return any(pattern.search(text) for pattern in patterns)
