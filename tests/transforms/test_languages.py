"""The language of texts by their function words."""

import pytest

from transforms.languages import function_words, language_names, language_of, language_of_most
from transforms.settings.search import SearchSettings

SENTENCES = {
    "english": "Why does the second replica not see the rows that we wrote on the first?",
    "german": "Kann mir jemand sagen, warum das bei mir nicht geht?",
    "french": "Je ne sais pas pourquoi la sauvegarde est plus lente que dans les autres cas.",
    "spanish": "No sé por qué la copia de seguridad es más lenta que en los otros casos.",
    "italian": "Non so perché la copia è più lenta che negli altri casi, ma con il disco nuovo va bene.",
    "portuguese": "Não sei por que a cópia é mais lenta do que nos outros casos, mas com o disco novo não há erro.",
    "catalan": "No sé per què la còpia és més lenta que en els altres casos, però amb el disc nou va bé.",
    "dutch": "Ik weet niet waarom de kopie op deze schijf zo langzaam is, maar het werkt wel met een andere.",
    "swedish": "Jag vet inte varför det är så långsamt, men med den nya disken går det bra för oss.",
    "danish": "Jeg ved ikke, hvorfor det er så langsomt, men med den nye disk går det godt for os efter en uge.",
    "norwegian": "Jeg vet ikke hvorfor det er så tregt, men noen av oss har det bra etter at disken ble byttet.",
    "finnish": "En tiedä miksi se on niin hidas, mutta uusi levy toimii ja kun se oli vanha niin ei.",
    "polish": "Nie wiem, dlaczego kopia jest tak wolna, ale na nowym dysku już się to nie zdarza.",
    "czech": "Nevím, proč je to tak pomalé, ale na novém disku se to už nestalo, když jsem ho vyměnil.",
    "hungarian": "Nem tudom, hogy miért lassú, de az új lemez már jó, és csak ez volt a baj.",
    "romanian": "Nu știu de ce este mai lent, dar pe discul nou nu sunt erori și merge din nou.",
    "turkish": "Neden bu kadar yavaş bilmiyorum, ama yeni disk çok daha iyi ve bir sorun yok.",
    "indonesian": "Saya tidak tahu mengapa ini lebih lambat, tetapi dengan cakram yang baru bisa.",
    "russian": "Я не знаю, почему это так медленно, но на новом диске все уже хорошо, как и было.",
    "greek": "Δεν ξέρω γιατί είναι τόσο αργό, αλλά με το νέο δίσκο όλα είναι καλά και δεν έχω λάθη.",
    "japanese": "新しいディスクに変えたのですが、なぜ遅いのかわかりません。",
    "chinese": "我不知道为什么这么慢，但是换了新的磁盘就没有问题了。",
}


def test_a_sentence_of_each_language_is_known():
    assert {name: language_of(text) for name, text in SENTENCES.items()} == {name: name for name in SENTENCES}
    assert set(SENTENCES) == set(language_names().values())


@pytest.mark.parametrize(
    "text", ["", "int main(void) { return 0; }", "Re: erofs_fill_super", "Vielen Dank!", "な"]
)
def test_code_and_short_texts_have_no_language(text: str):
    assert language_of(text) is None


def test_the_language_of_most_texts_is_counted_among_those_that_have_one():
    texts = [SENTENCES["german"], SENTENCES["english"], "x = 1", SENTENCES["german"]]
    assert language_of_most(texts) == ("german", 2, 3) and language_of_most(["x = 1"]) == (None, 0, 0)


def test_queries_in_english_leave_out_the_words_they_left_out_before():
    assert len(function_words("english")) == 49 and SearchSettings().stopwords == function_words("english")
