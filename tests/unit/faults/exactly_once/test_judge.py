"""Each rule of the judge is broken by readings that it finds, and by none that it should not."""

from __future__ import annotations

from tests.faults.exactly_once.judge import Book, Leg, judge_bills


def test_each_order_has_one_bill() -> None:
    orders = [(0, 0), (0, 2), (1, 0)]
    assert judge_bills(orders, [(1, 0), (0, 0), (0, 2)]) == ([], [], [])
    assert judge_bills(orders, [(0, 0), (0, 0), (0, 1), (1, 0)]) == ([(0, 2)], [(0, 0)], [(0, 1)])


def moved(book: Book, transfer: str, *, branch: int = 0) -> None:
    book.read(branch, 0, Leg(transfer, -5))
    book.read(branch, 1, Leg(transfer, 5))


def test_a_sound_book_is_sound() -> None:
    book = Book("r")
    moved(book, "a")
    book.read(0, 2, Leg("b", -7, is_abroad=True))
    book.reached_end(0, 3)
    book.read(9, 0, Leg("b", 7, is_abroad=True))
    book.close(["a", "b"])
    assert book.failures == []
    assert (book.ends, book.transfers) == (1, {"a", "b"})


def test_half_a_transfer_at_the_end_of_a_branch_is_found_once() -> None:
    book = Book("r")
    book.read(0, 0, Leg("a", -5))
    book.reached_end(1, 0)
    assert book.failures == []
    book.reached_end(0, 1)
    book.reached_end(0, 1)
    assert book.failures == ["r at the end 1 of branch 0 -5 are missing"]


def test_a_torn_transfer_between_branches_is_found_at_the_end() -> None:
    book = Book("r")
    book.read(0, 2, Leg("b", -7, is_abroad=True))
    book.reached_end(0, 3)
    book.close([])
    assert book.failures == ["r 1 transfers between branches are torn: b"]


def test_what_was_aborted_doubled_or_lost_is_found() -> None:
    book = Book("r")
    book.read(0, 0, Leg("a", -5, is_doomed=True))
    moved(book, "b")
    book.read(0, 7, Leg("b", 5))
    book.close(["b", "c"])
    assert book.failures == [
        "r was given 0/0 of a, which was aborted",
        "r was given half of b again, at 0/7",
        "r 1 committed transfers are missing: c",
    ]
