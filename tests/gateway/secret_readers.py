"""Processes that read the secret of one folder at the same moment; this imports little, as each starts with it."""

import multiprocessing
import secrets
import time
from concurrent.futures import ProcessPoolExecutor
from threading import Barrier

from gateway.data_dir import read_secret
from gateway.settings import Settings


def secrets_of_processes(data_dir: str, num_processes: int) -> set[bytes]:
    """What so many processes read that begin together."""
    context = multiprocessing.get_context("spawn")
    started = {"initializer": _start_together, "initargs": (context.Barrier(num_processes),)}
    with ProcessPoolExecutor(num_processes, context, **started) as processes:
        return set(processes.map(_read_with_others, [data_dir] * num_processes))


def _start_together(barrier: Barrier) -> None:
    """Have this process wait for the others before it reads, and make its key slowly."""
    make_key = secrets.token_hex

    def slow(num_bytes):
        time.sleep(0.2)
        return make_key(num_bytes)

    secrets.token_hex = slow
    globals()["_wait_for_others"] = barrier.wait


def _read_with_others(data_dir: str) -> bytes:
    globals()["_wait_for_others"](60)
    return read_secret(Settings(data_dir=data_dir))
