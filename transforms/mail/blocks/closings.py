"""Closings: words that stand, alone in their line, between a text and the name of who wrote it, in many languages."""

from __future__ import annotations

_MOST_WORDS = 6
_SIGNS = " \t,.!/~*_-\u3002\uff0c\u3001\uff01"
# What a closing begins with, folded; most languages add few words of their own.
_BEGINNINGS = (
    "all the best", "best", "cheers", "faithfully", "kind regards", "kind wishes", "kindest", "many thanks", "regards",
    "respectfully", "rgds", "sincerely", "thank you", "thanking you", "thanks", "thx", "warm", "with best", "with kind",
    "with regards", "yours",
    "beste gr", "bester gr", "freundliche gr", "grüsse", "gruss", "herzliche", "hochachtungsvoll", "lg", "liebe gr",
    "lieben gruss", "mfg", "mit besten", "mit bestem", "mit den besten", "mit freundliche", "mit herzliche",
    "mit kollegiale", "mit lieben", "schöne gr", "schönen gruss", "vg", "viele gr",
    "amicalement", "bien à", "bien cordialement", "bien sincèrement", "cordialement", "meilleures salutations",
    "respectueusement", "salutations", "sincères salutations", "très cordialement",
    "atentamente", "atte", "cordial saludo", "cordiales saludos", "muchas gracias", "reciba", "saludos", "un abrazo",
    "un cordial", "un saludo",
    "buona giornata", "cari saluti", "cordiali", "cordialmente", "distinti saluti", "grazie", "saluti", "un saluto",
    "abraço", "abs", "att", "atenciosamente", "com os melhores", "cordialmente", "cumprimentos", "melhores cumprimentos",
    "obrigad", "um abraço",
    "groet", "hartelijke groet", "met hartelijke", "met vriendelijke", "mvg", "vriendelijke groet",
    "bästa hälsning", "hilsen", "hälsning", "med vennlig", "med venlig", "med vänlig", "mvh", "venlig hilsen",
    "vennlig hilsen", "vänlig", "kveðja", "með kveðju",
    "parhain terveisin", "terveisin", "ystävällisin", "lugupidamisega", "ar cieņu", "pagarbiai",
    "łączę", "pozdrawiam", "z poważaniem", "z wyrazami", "s pozdravem", "s pozdravom", "s úctou", "lep pozdrav",
    "srdačan pozdrav", "s poštovanjem", "tisztelettel", "üdvözlettel", "cu respect", "cu stimă", "me respekt",
    "saygılar", "iyi çalışmalar", "hormat kami", "salam", "terima kasih", "trân trọng",
    "с уважением", "с наилучшими", "з повагою", "с уважение", "με εκτίμηση", "με φιλικούς", "με χαιρετισμούς",
    "よろしくお願い", "宜しくお願い", "どうぞよろしく", "何卒よろしく", "以上", "敬具", "此致", "敬礼", "祝好", "顺颂商祺",
    "謝謝", "谢谢", "감사합니다", "בברכה", "בכבוד רב", "مع التحي", "مع أطيب", "وتفضلوا", "ขอแสดงความนับถือ",
)  # fmt: skip
_NO_CLOSINGS = (
    "best case",
    "best effort",
    "best way",
    "thanks to",
    "thank you to",
    "warm up",
    "reciba el",
    "att:",
)


def closes(line: str) -> bool:
    """True if a line is nothing but a closing.

    >>> closes("Kind regards,"), closes("Με εκτίμηση"), closes("Thanks to everybody who came.")
    (True, True, False)
    """
    text = line.strip(_SIGNS).casefold()
    return (
        text.startswith(_BEGINNINGS)
        and len(text.split()) <= _MOST_WORDS
        and "?" not in text
        and not text.startswith(_NO_CLOSINGS)
    )
