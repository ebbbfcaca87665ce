"""Wikitext becomes running text: what a reader of the article reads as sentences, no more."""

from __future__ import annotations

import pytest

from bertkit.extraction.wikitext import wikitext_to_text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("'''Foo''' is a ''[[bar (thing)|bar]]'' in [[Baz]].", "Foo is a bar in Baz."),
        ("One.\n\nTwo\nlines.", "One.\n\nTwo lines."),
        ("A.<ref name=x>note {{cite|a}}</ref> B.<ref name=x/> C.<!-- no --> D.", "A. B. C. D."),
        ("== History ==\nIt began.\n=== More ===\nIt went on.", "It began.\n\nIt went on."),
        ("Text.\n* item one.\n# item two.\n: indented.\n; term", "Text."),
        ('Text.\n{| class="x"\n! head\n|-\n| cell.\n|}\nMore text.', "Text.\n\nMore text."),
        ("Text.\n{| class=x\n| never closed.\n| cell.\n\nMore.", "Text.\n\nMore."),
        ("{{Infobox town|name=X\n|y=[[Z]]}}\n'''X''' is a town.", "X is a town."),
        ("[[File:A.jpg|thumb|A ''[[caption]]'' with '''bold.]] It is.", "It is."),
        ("[[Picture:A.jpg|thumb|Cap.]]It is. [[Category:Towns]]\n[[de:Stadt]]", "It is."),
        (
            "See [http://x.org the page] and [[:Category:Towns]].",
            "See the page and Category:Towns.",
        ),
        (
            "About {{convert|10|mi|km}} or {{cvt|1234|sqmi|km2}}.",
            "About 10 miles or 1,234 square miles.",
        ),
        ("{{convert|5|to|7|kg|lb}} and {{convert|6|ft|2|in|m}}.", "5 to 7 kg and 6 feet 2 inches."),
        (
            "A {{convert|3|ft|m|adj=on}} wall, {{convert|50|koilbbl/d}}.",
            "A 3-foot wall, 50 thousand barrels per day.",
        ),
        ("Said {{lang|fr|oui}} {{circa|1900}}.", "Said oui c. 1900."),
        (
            "10<sup>7</sup> W m<sup>−2</sup>, H<sub>2</sub>O, 1<sup>st</sup>.",
            "10^7 W m^−2, H2O, 1st.",
        ),
        ("Caf&eacute;&nbsp;and &lt;b&gt;<nowiki>[[x]] ''y''</nowiki>.", "Café and x y."),
        (
            "It is.\n\n== See also ==\nFoo is here.\n=== Sub ===\nBar.\n== Life ==\nYes.",
            "It is.\n\nYes.",
        ),
        ("__NOTOC__ It is.<br/>And so.", "It is. And so."),
        ("It is.<gallery>\nA.jpg|Cap.\n</gallery>", "It is."),
        ("It is.\n code line.\nIt was.", "It is.\n\nIt was."),
        ("{{quote|To be.}} So he said.", "To be.\n\nSo he said."),
        ("他在-{zh-hans:计算机;zh-hant:電腦}-前。", "他在计算机前。"),
        ("[[维基|百科]]是一部百科全书。", "百科是一部百科全书。"),
        ("", ""),
        ("{{disambiguation}}", ""),
    ],
)
def test_what_a_reader_sees_as_sentences_is_kept(wikitext: str, text: str) -> None:
    assert wikitext_to_text(wikitext, ("picture",)) == text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("A (named {{IPAc-en|x}}, plural ''As'') is.", "A (plural As) is."),
        ("Foo ({{IPA-de|x}}; born 1950) is. Bar ({{unknown}}) is.", "Foo (born 1950) is. Bar is."),
        ("Foo (e.g.,<ref>x</ref>) is (a (b {{unknown}}) c).", "Foo is (a c)."),
        ("It is said.{{fact}} It weighs {{unknown|5}} and more. Yes.", "It is said. Yes."),
        (
            "Aikido {{IPA-ja|x}} is old. The vowel {{IPA|/a/}} is.",
            "Aikido is old. The vowel /a/ is.",
        ),
        ("Let <math>x</math> be one. We know.", "We know."),
        ("It holds (with <math>x</math> as one). We know.", "It holds. We know."),
        ("He knew. The members are:\n* A\n* B\nThat is all.", "He knew.\n\nThat is all."),
        (
            "It is given. By this:\n:<math>x</math>\nwhere x is one. So it is.",
            "It is given.\n\nSo it is.",
        ),
        ("So it is. The lists below are long. See the following.\n* A", "So it is."),
        (
            "He died the following year.\n* A\n\n== B ==\nIn the following.\n== C ==",
            "He died the following year.\n\nIn the following.",
        ),
        ("It walks (see the film at<ref>x</ref>).", "It walks."),
        ("So we have:\n<math>x</math>\n\nDone.", "Done."),
        ("It ends. The last has no end", "It ends."),
        ("{{Harvtxt|A|1999}} offer an idea. It is.", "It is."),
        ("Left: a caption", ""),
    ],
)
def test_what_removed_markup_leaves_is_mended(wikitext: str, text: str) -> None:
    assert wikitext_to_text(wikitext) == text


def test_broken_markup_leaves_no_brackets() -> None:
    text = wikitext_to_text("A [[b is. C {{d is. '''E is.\n\n<div>F is.</span> ]] }} G is.")
    assert not set(text) & set("[]{}<>")
    assert "G is." in text


def test_deep_nesting_ends() -> None:
    assert wikitext_to_text("{{a|" * 3000 + "x" + "}}" * 3000 + "\n\nIt is.").endswith("It is.")
    assert "It is." in wikitext_to_text("[[File:" * 2000 + "\n\nIt is.")
