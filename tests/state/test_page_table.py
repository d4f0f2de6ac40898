"""Handing out pages: none lost, none shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_jax.state.pages import PageTable


def test_pages_are_given_as_a_slot_grows():
    table = PageTable(slots=2, pages_per_slot=3, n_pages=6)
    assert table.grow(0, 1).tolist() == [0, 0, 0]
    assert table.grow(1, 2).tolist() == [1, 2, 0]
    assert table.grow(0, 2).tolist() == [0, 3, 0]
    assert table.grow(0, 1).tolist() == [0, 3, 0]
    assert (table.held, table.n_free) == ([2, 2], 2)


def test_released_pages_are_given_again():
    table = PageTable(slots=2, pages_per_slot=2, n_pages=3)
    table.grow(0, 2)
    table.release(0)
    assert (table.held, table.n_free) == ([0, 0], 3)
    assert table.table.tolist() == [[0, 0], [0, 0]]
    assert table.grow(1, 2).tolist() == [0, 1]
    table.release(0)
    assert table.n_free == 1


def test_an_exhausted_pool_is_an_error():
    table = PageTable(slots=2, pages_per_slot=2, n_pages=3)
    table.grow(0, 2)
    with pytest.raises(RuntimeError, match="no free KV page for slot 1"):
        table.grow(1, 2)


steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=30)


@given(steps)
def test_no_page_is_lost_or_held_twice(steps):
    table = PageTable(slots=3, pages_per_slot=4, n_pages=12)
    for slot, pages in steps:
        before = table.table[slot, : table.held[slot]].tolist()
        if pages == 0:
            table.release(slot)
        else:
            table.grow(slot, pages)
            assert table.table[slot, : len(before)].tolist() == before
        held = [table.table[s, : table.held[s]].tolist() for s in range(3)]
        pages_held = [page for pages in held for page in pages]
        assert len(pages_held) == len(set(pages_held)) == 12 - table.n_free
        assert set(pages_held) <= set(range(12))
