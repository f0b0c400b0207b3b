"""The engine thread: owns an engine, takes jobs from any thread, and sends events to their event loops."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import torch

from runtime.decoding.token_writer import Output
from runtime.device import use_device
from runtime.engine import Engine
from runtime.errors import EngineStopped, GenerationFailed, RuntimeFault, Unforeseen
from runtime.event_queue import Delivery, EventQueue, deliver
from runtime.events import Event
from runtime.scheduling.sequence import Sequence
from runtime.transcript import Transcript

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class EngineJob:
    """A request as the engine thread sees it: one sequence and one transcript per choice."""

    request_id: str
    choices: tuple[tuple[Sequence, Transcript], ...]
    queue: EventQueue


class EngineThread:
    """Runs an engine until `stop`, or until a step raises. Then every job fails, new ones too.

    Everything but `submit`, `abort` and `stop` runs in the thread.
    """

    def __init__(self, engine: Engine, *, num_threads: int | None, device: torch.device) -> None:
        self.engine = engine
        self.failure: str | None = None
        self._fault: Callable[[], GenerationFailed] = EngineStopped
        self._num_threads = num_threads
        self._device = device
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._is_stopping = False
        self._jobs: dict[str, EngineJob] = {}
        self._by_sequence: dict[Sequence, tuple[EngineJob, Transcript]] = {}
        self._outputs: list[Output] = []
        self._outgoing: list[tuple[EventQueue, Delivery]] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="callgate-engine", daemon=True)
        self._thread.start()

    def submit(self, job: EngineJob) -> None:
        """Queue a job; errors arrive in its queue of events.

        Raises:
            GenerationFailed: the engine has stopped.
        """
        with self._lock:
            if self.failure is not None:
                raise self._fault()
            self._inbox.put(lambda: self._start(job))

    def abort(self, request_id: str) -> None:
        """End a job within a step; its queue of events gets GenerationFailed."""
        self._inbox.put(lambda: self._abort(request_id))

    def stop(self) -> None:
        """Stop the engine and wait for the thread to end; running jobs fail."""
        self._inbox.put(self._request_stop)
        self._thread.join()

    def _run(self) -> None:
        fault: Callable[[], GenerationFailed] = EngineStopped
        try:
            if self._num_threads is not None:
                torch.set_num_threads(self._num_threads)
            use_device(self._device)
            while not self._is_stopping:
                self._take_commands()
                if self.engine.has_work:
                    outputs = self.engine.step(meanwhile=self._hand_over_all)
                    self._outputs += outputs  # not earlier: during the step, `_hand_over_all` empties it
                if not (self.engine.has_work and self.engine.runner.is_async):
                    self._hand_over_all()
                self._flush()
        except BaseException:
            logger.exception("the engine failed")
            fault = partial(GenerationFailed, "the engine failed; the gateway's log says why")
            raise
        finally:
            self._fail_all(fault)

    def _take_commands(self) -> None:
        """Run the commands in the inbox; wait for one if the engine has no work."""
        try:
            while not self._is_stopping:
                is_idle = not (self.engine.has_work or self._outputs or self._outgoing)
                self._inbox.get(block=is_idle)()
        except Empty:
            return

    def _request_stop(self) -> None:
        self._is_stopping = True

    def _start(self, job: EngineJob) -> None:
        self._jobs[job.request_id] = job
        for sequence, transcript in job.choices:
            self._by_sequence[sequence] = (job, transcript)
        try:
            for sequence, _ in job.choices:
                self.engine.add(sequence)
        except RuntimeFault as fault:
            self._end(job, fault)
        except Exception:  # only this job fails, and no other
            logger.exception("request %s could not be started", job.request_id)
            self._end(job, Unforeseen())

    def _abort(self, request_id: str) -> None:
        if job := self._jobs.get(request_id):
            self._end(job, GenerationFailed("the request was aborted"))

    def _end(self, job: EngineJob, fault: RuntimeFault) -> None:
        """Stop all sequences of a job, and send the reason."""
        for sequence, _ in job.choices:
            self.engine.stop(sequence)
            sequence.release()
            self._by_sequence.pop(sequence, None)
        self._jobs.pop(job.request_id, None)
        self._outgoing.append((job.queue, fault))

    def _hand_over_all(self) -> None:
        """Send the outputs of the last step. Meanwhile, an accelerator computes the next one."""
        outputs, self._outputs = self._outputs, []
        for output in outputs:
            self._hand_over(output)
        self._flush()

    def _hand_over(self, output: Output) -> None:
        try:
            self._deliver(output)
        except Exception:  # an output that the transcript cannot read ends its own job
            logger.exception("the output of sequence %s could not be read", output.sequence.sequence_id)
            if entry := self._by_sequence.get(output.sequence.first):
                self._end(entry[0], Unforeseen())

    def _deliver(self, output: Output) -> None:
        """Turn the tokens that a step added to a sequence into events; a stop string ends the sequence."""
        entry = self._by_sequence.get(output.sequence.first)
        if entry is None:  # its job has failed in this step
            return
        job, transcript = entry
        if output.error is not None:
            self._end(job, output.error)
            return
        events: list[Event] = []
        for token in output.tokens:
            events += transcript.feed(token)
        if transcript.is_stopped:
            self.engine.stop(output.sequence)
        if output.is_last or transcript.is_stopped:
            events += self._finish(job, output.sequence, transcript)
        if events:
            self._outgoing.append((job.queue, events))

    def _finish(self, job: EngineJob, sequence: Sequence, transcript: Transcript) -> list[Event]:
        matcher = sequence.matcher
        del self._by_sequence[sequence.first]
        if not any(other in self._by_sequence for other, _ in job.choices):
            del self._jobs[job.request_id]
        pending = matcher.pending_parts() if matcher is not None else ()
        sequence.release()
        return transcript.end(
            sequence.finish_reason, sequence.stats, pending=pending, closed_by=sequence.closed_by
        )

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        deliver(outgoing)

    def _fail_all(self, fault: Callable[[], GenerationFailed]) -> None:
        with suppress(Exception):  # whatever state the engine was left in
            self._hand_over_all()
        with self._lock:
            self._fault = fault
            self.failure = str(fault())
        while not self._inbox.empty():  # starts the last jobs, so that they fail below
            with suppress(Exception):  # whatever state the engine was left in
                self._inbox.get()()
        for job in list(self._jobs.values()):
            self._outgoing.append((job.queue, fault()))
        self._jobs.clear()
        self._by_sequence.clear()
        self._flush()
