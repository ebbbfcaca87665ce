"""What the tests of several rooms share: lent data, a small tokenizer, and threads that fit.

Under pytest-xdist each worker computes with one thread, so that two workers on two cores do not
fight over them; a test that needs another number asks the fixture `threads` for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Read by torch and its libraries when they are first imported, and by sub-processes.
    for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

if TYPE_CHECKING:
    from bertkit.text.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = (
    "the a of and to in is was it he she man woman dog cat house river city day night "
    "went came saw ran sat read wrote good bad old new big small red green store milk bought "
    "##s ##ed ##ing ##er ##ly ##un un ##aff ##able want ##want run play "
    "我 你 他 是 的 不 好 书 店 人"
)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads compute, until the test ends."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def float32_unless_asked() -> Iterator[None]:
    """`--precision auto` is float32 on any processor: what tests expect does not depend on it."""
    from bertkit.training import precision

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "_processor_flags", frozenset)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The lent data sets beside the repository; a test that needs them is skipped without them."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the data sets of ../shared/data, which are not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def tiny_vocabulary() -> list[str]:
    """A WordPiece vocabulary of about a hundred entries: letters, a few words, some Chinese."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    entries = [*SPECIAL_TOKENS, *".,!?'\"-()", *"0123456789", *letters]
    entries += ["##" + letter for letter in letters] + WORDS.split()
    return list(dict.fromkeys(entries))


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_vocabulary: list[str]) -> Tokenizer:
    """A lower-casing tokenizer over `tiny_vocabulary`."""
    from bertkit.text.tokenizer import Tokenizer

    return Tokenizer(tiny_vocabulary, lower_case=True)
