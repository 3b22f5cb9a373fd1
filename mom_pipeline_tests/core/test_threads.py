from threading import Barrier, Thread

import pytest

from mom_pipeline.core import threads
from mom_pipeline.core.threads import map_blocks, one_blas_thread


@pytest.fixture
def blas():
    """Read and set the thread count of numpy's BLAS; two threads during the test."""
    control = threads._openblas_control()
    if control is None:
        pytest.skip("this numpy is not built on OpenBLAS")
    get_threads, set_threads = control
    before = get_threads()
    set_threads(2)
    yield get_threads
    set_threads(before)


def test_results_come_in_the_order_of_the_tasks():
    assert map_blocks(lambda i: i * i, range(50), n_threads=4) == [i * i for i in range(50)]
    assert map_blocks(lambda i: i, []) == []


def test_an_error_in_a_block_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda i: 1 / i, [1, 0, 2], n_threads=2)


def test_blas_is_held_inside_and_restored_outside(blas):
    assert map_blocks(lambda _: blas(), range(3), n_threads=2) == [1, 1, 1]
    assert blas() == 2
    with pytest.raises(RuntimeError), one_blas_thread():
        raise RuntimeError
    assert blas() == 2


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
    assert seen == [1]
    assert blas() == 2
