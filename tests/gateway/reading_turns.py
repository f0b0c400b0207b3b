"""A turn to read what is stored, for tests that have no client."""

from gateway.http.client_pace import ReadingTime
from gateway.http.request_bodies import ReadingTurn
from runtime.fair_threads import FairThreads

TURN = ReadingTurn(FairThreads(1, "test"), "a", ReadingTime())
