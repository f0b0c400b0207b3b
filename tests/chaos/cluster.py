"""The cluster that is broken: gateways, engines and a Redis on loopback, in processes that can be killed and started."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from redis_server import RedisServer

from runtime.models import TINY_MODEL_FOLDER

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a secret of the chaos tests"
MODEL = "tiny"
START_S = 300.0
TOKEN_S = 0.01
REQUEST_S = 30.0
"""The gateways' deadline for an answer."""
GRAMMAR_CACHE_BYTES = 8 << 20
"""Small, so that a soak of minutes fills the gateways' cache."""
SMALL_RULE_CACHE = (
    "from compiler import prepared_vocabulary; prepared_vocabulary.CACHE_LIMIT_BYTES = 2 << 20; "
)
"""What makes xgrammar's cache of rules, which no setting bounds, as small."""
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
"""Moves the clock of a process (Debian: apt-get install faketime)."""
HAS_FAKETIME = FAKETIME.exists()
LATER_LOWERING = "from compiler.isolation import compile_job; compile_job.LOWERING_VERSION += 1; "
"""What makes a gateway one of a later version, which finds no grammar that this one has stored."""
LATER_MARK = "from runtime.engines import request_mark; request_mark.VERSION += 1; "
"""What makes a gateway or an engine one of a later version, whose marks those of this one do not read."""


class ServerProcess:
    """A program that serves a port of its own; `probe` is the path that it answers once it is ready.

    `version` is what runs before the program: nothing, or what makes the next start one of a later version.
    """

    def __init__(self, name: str, folder: Path, probe: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self._probe = probe
        self._process: subprocess.Popen[bytes] | None = None
        self.version = ""
        self.program = ""
        self.arguments: list[str] = []
        self.environment: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start; `ready` waits until it serves."""
        folders = [ROOT, *(ROOT / "tests" / name for name in ("", "gateway", "engines"))]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            **self.environment,
        }
        with self.log.open("ab") as log:
            command = [sys.executable, "-c", self.version + self.program, *self.arguments]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    async def ready(self) -> float:
        """Wait until it serves; the seconds that this took."""
        start = time.monotonic()
        async with httpx.AsyncClient(base_url=self.url, timeout=2) as client:
            while time.monotonic() - start < START_S:
                assert self.is_running, f"{self.name} has ended: {self.log.read_text()[-2000:]}"
                with suppress(httpx.TransportError):
                    if (await client.get(self._probe)).is_success:
                        return time.monotonic() - start
                await asyncio.sleep(0.05)
        raise AssertionError(f"{self.name} was not ready after {START_S} s: {self.log.read_text()[-2000:]}")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, paused or not."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def ended(self, timeout_s: float = 30.0) -> float:
        """Wait until it has ended by itself; the seconds that this took."""
        assert self._process is not None
        start = time.monotonic()
        await asyncio.to_thread(self._process.wait, timeout_s)
        return time.monotonic() - start

    @property
    def memory(self) -> int:
        """Bytes that are its own, without those of processes that it started."""
        return int(psutil.Process(self.pid).memory_full_info().uss)

    @property
    def workers_memory(self) -> int:
        """Bytes of the processes that it started, each without what it shares with others."""
        total = 0
        for child in psutil.Process(self.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                total += int(child.memory_full_info().uss)
        return total


class GatewayProcess(ServerProcess):
    """A gateway with a folder of its own; `models` are tables of its TOML file."""

    def __init__(
        self, name: str, folder: Path, *, store: str | None = None, models: str = "", **settings
    ) -> None:
        super().__init__(name, folder, "/readyz")
        self.folder = folder / name
        self.folder.mkdir()
        settings = {
            "data_dir": str(self.folder),
            "secret": SECRET,
            "request_seconds": REQUEST_S,
            "num_threads": 1,
            "drain_seconds": 50,
            "compile_workers": 2,
            "grammar_cache_bytes": GRAMMAR_CACHE_BYTES,
            "quota_toolsets": 100_000,
            "max_sequences_per_key": 256,
            **({"store": store} if store else {}),
            **settings,
        }
        lines = [f"{key} = {_toml(value)}" for key, value in settings.items()]
        config = self.folder / "callgate.toml"
        config.write_text("\n".join([*lines, models]))
        self.program = SMALL_RULE_CACHE + "from gateway.cli import main; main()"
        self.arguments = ["serve", "--config", str(config), "--port", str(self.port)]

    async def engines_ready(self) -> float:
        """Wait until all of its engines take requests; the seconds that this took."""
        start = time.monotonic()
        while not all((await self.used_engines()).values()):
            assert time.monotonic() - start < START_S, await self.used_engines()
            await asyncio.sleep(0.05)
        return time.monotonic() - start

    async def used_engines(self) -> dict[int, bool]:
        """Whether it uses each of its engines, by their ports."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            states = (await client.get("/v1/engines")).json()["data"]
        return {int(state["engine"].rpartition(":")[2]): state["circuit"] == "closed" for state in states}

    async def measures(self) -> dict[str, float]:
        """Its metrics: the sum of each over all labels but `callgate_state`, which is appended to the name."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            return read_measures((await client.get("/metrics")).text)


class EngineProcess(ServerProcess):
    """An engine over a store."""

    def __init__(self, name: str, folder: Path, store: str) -> None:
        super().__init__(name, folder, "/health")
        options = {"port": self.port, "store": store, "secret": SECRET, "token-seconds": TOKEN_S}
        words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
        self.program = "from chaos.engine_process import main; main()"
        self.arguments = words

    async def behave(self, **fields) -> None:
        """Set fields of its `StandIn`."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            (await client.post("/faults", json=fields)).raise_for_status()


@dataclass(frozen=True)
class Cluster:
    """Two gateways over two engines and a Redis that keeps what it has acknowledged."""

    folder: Path
    redis: RedisServer
    engines: tuple[EngineProcess, ...]
    gateways: tuple[GatewayProcess, ...]

    @property
    def clock(self) -> Path:
        """The file that says how far the clock of the first gateway is moved."""
        return self.folder / "clock"

    def gateway(self, name: str, **settings) -> GatewayProcess:
        """One more gateway with the tiny model in it; whoever asks starts and kills it."""
        model = {"model": str(TINY_MODEL_FOLDER), "model_name": MODEL}
        return GatewayProcess(name, self.folder, **{**model, **settings})

    async def engines_ready(self) -> float:
        """Wait until all gateways use all engines; the seconds that this took."""
        return max(await asyncio.gather(*(gateway.engines_ready() for gateway in self.gateways)))


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Cluster]:
    """A cluster, once its processes are ready."""
    redis_folder = folder / "redis"
    redis_folder.mkdir()
    async with AsyncExitStack() as stack:
        redis = RedisServer(str(redis_folder), keeps=True, **{"enable-debug-command": "local"})
        stack.callback(redis.kill)
        redis.start()
        engines = tuple(EngineProcess(f"engine-{i}", folder, redis.url) for i in range(2))
        urls = ", ".join(f'"{engine.url}"' for engine in engines)
        models = f"""
            [[models]]
            model = "{TINY_MODEL_FOLDER}"
            model_name = "{MODEL}"
            engine = "vllm"
            engine_url = [{urls}]
            prompt_tools = "none"
        """
        gateways = tuple(
            GatewayProcess(f"gateway-{i}", folder, store=redis.url, models=models) for i in range(2)
        )
        cluster = Cluster(folder, redis, engines, gateways)
        if HAS_FAKETIME:
            cluster.clock.write_text("+0")
            gateways[0].environment = moved_clock(cluster.clock)
        for process in (*engines, *gateways):
            stack.callback(process.kill)
            process.start()
        await asyncio.gather(*(process.ready() for process in (*engines, *gateways)))
        await cluster.engines_ready()
        yield cluster


def moved_clock(file: Path) -> dict[str, str]:
    """The variables by which a process takes its clock's offset from a file, and measures durations as before."""
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def read_measures(text: str) -> dict[str, float]:
    """See `GatewayProcess.measures`."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            state = labels.partition('callgate_state="')[2].partition('"')[0]
            key = f"{name} {state}".strip()
            found[key] = found.get(key, 0.0) + float(value)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _toml(value) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )
