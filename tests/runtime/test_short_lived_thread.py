"""A thread that is gone when its work is done, and with it what torch gave it to compute with."""

import threading

import pytest

from runtime import embedded
from runtime.embedded import run_in_short_lived_thread


def test_the_result_comes_from_a_thread_that_has_ended():
    thread = run_in_short_lived_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_is_raised_there_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        run_in_short_lived_thread(lambda: 1 // 0)


def test_a_model_is_loaded_by_such_a_thread(make_runtime, monkeypatch):
    loaders = []
    load_model = embedded.load_model

    def noted(*arguments, **options):
        loaders.append(threading.current_thread())
        return load_model(*arguments, **options)

    monkeypatch.setattr(embedded, "load_model", noted)
    make_runtime()
    (loader,) = loaders
    assert loader is not threading.current_thread()
    assert not loader.is_alive()
