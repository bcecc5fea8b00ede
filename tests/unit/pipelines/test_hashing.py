from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipelines.contribution import unit_words
from pipelines.hashing import hash_words, key_of
from tests.support import reference

KEY = bytes(range(16))


def test_text_hash_meets_the_test_vector_of_the_paper() -> None:
    # Aumasson and Bernstein (2012), appendix A: key 00 .. 0f, message 00 .. 0e.
    message = pa.array([bytes(range(15))], pa.large_binary()).view(pa.large_string())
    assert unit_words(message, KEY).tolist() == [0xA129CA6149BE45E5]
    assert reference.siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5


@given(
    key=st.binary(min_size=16, max_size=16), texts=st.lists(st.text(max_size=300), max_size=5), skip=st.integers(0, 3)
)
def test_text_hash_equals_the_reference_for_every_length(key: bytes, texts: list[str], skip: int) -> None:
    column = pa.array(texts, pa.large_string()).slice(skip)
    assert unit_words(column, key).tolist() == [reference.siphash(key, text.encode()) for text in texts[skip:]]


@given(
    key=st.binary(min_size=16, max_size=16),
    rows=st.integers(0, 5).flatmap(
        lambda length: st.lists(
            st.lists(st.integers(0, 2**64 - 1), min_size=length, max_size=length), min_size=1, max_size=4
        )
    ),
)
def test_word_hash_equals_the_reference(key: bytes, rows: list[list[int]]) -> None:
    words = np.array(rows, dtype=np.uint64).T.copy()
    wanted = [reference.siphash(key, b"".join(word.to_bytes(8, "little") for word in row)) for row in rows]
    assert hash_words(words, key_of(key)).tolist() == wanted


def test_word_hash_counts_its_length_modulo_256_bytes() -> None:
    words = np.zeros((33, 1), dtype=np.uint64)
    assert hash_words(words, key_of(KEY)).tolist() == [reference.siphash(KEY, bytes(33 * 8))]
