from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mom_pipeline.core.threads import (
    available_cores,
    map_blocks,
    one_blas_thread,
    sum_blocks,
    using_cores,
)


@pytest.fixture
def blas():
    """Read the thread counts of all BLAS libraries, numpy's and scipy's; two during the test."""
    with threadpool_limits(2, user_api="blas"):
        yield lambda: {own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"}


def test_results_come_and_are_added_in_the_order_of_the_tasks():
    for n in (1, 2, 4):
        with using_cores(n):
            assert map_blocks(lambda i: i * i, range(50)) == [i * i for i in range(50)]
            assert sum_blocks(lambda i: [i], range(50)) == list(range(50))
    assert map_blocks(lambda i: i, []) == []


def test_what_is_granted_holds_in_the_threads_too():
    """Its share of the cores; a thread alone would start from all of them."""
    with using_cores(7):
        for tasks, cores in ((1, 7), (3, 2), (9, 1)):
            assert map_blocks(lambda _: available_cores(), range(tasks)) == [cores] * tasks
        assert sum_blocks(lambda _: [available_cores()], range(3)) == [2] * 3


def test_an_error_in_a_block_reaches_the_caller():
    for of_blocks in (map_blocks, sum_blocks):
        with using_cores(2), pytest.raises(ZeroDivisionError):
            of_blocks(lambda i: 1 / i, [1, 0, 2])


def test_blas_is_held_inside_and_restored_outside(blas):
    with using_cores(2):
        assert map_blocks(lambda _: blas(), range(3)) == [{1}] * 3
    assert map_blocks(lambda _: blas(), range(1)) == [{1}]
    assert blas() == {2}
    with pytest.raises(RuntimeError), one_blas_thread():
        raise RuntimeError
    assert blas() == {2}


def test_overlapping_holders_restore_when_the_last_one_ends(blas):
    both_in, first_out = Barrier(2), Barrier(2)
    seen = []

    def first():
        with one_blas_thread():
            both_in.wait()
        first_out.wait()

    def second():
        with one_blas_thread():
            both_in.wait()
            first_out.wait()
            seen.append(blas())

    workers = [Thread(target=work) for work in (first, second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [{1}]
    assert blas() == {2}
