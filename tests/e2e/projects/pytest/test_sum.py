import pytest


def test_passes():
    assert 1 + 1 == 2


def test_fails():
    assert 1 + 1 == 3, "wrong & <odd>"


@pytest.mark.skip(reason="not now")
def test_is_skipped():
    pass


@pytest.fixture
def broken():
    raise RuntimeError("no fixture today")


def test_errors(broken):
    pass


@pytest.mark.slow
def test_marked():
    pass
