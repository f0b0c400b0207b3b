"""A turn to read what is stored, for tests that have no client."""

from gateway.http.request_bodies import ReadingTurn
from toolspecs.fairness.fair_threads import FairThreads
from toolspecs.fairness.thread_time import ThreadTime

TURN = ReadingTurn(FairThreads(1, "test"), "a", ThreadTime())
