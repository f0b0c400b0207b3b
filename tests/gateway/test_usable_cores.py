"""How many cores a process may use, and how its threads wait."""

import os

import pytest

from compiler.isolation.pools import ThreadPool
from gateway.resources import open_compile_pool
from gateway.setting_sources import let_threads_wait
from gateway.settings import Settings
from gateway.usable_cores import num_usable_cores

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {}, ALL),
        ("0::/", {"cpu.max": "max 100000"}, ALL),
        ("0::/", {"cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "20000 100000"}, 1),
        ("0::/", {"cpu.max": "6400000 100000"}, ALL),
        ("0::/pod/container", {"pod/cpu.max": "100000 100000", "pod/container/cpu.max": "max 100000"}, 1),
        ("0::/of/the/host", {"cpu.max": "100000 100000"}, 1),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, ALL),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ("4:cpu:/pod", {"cpu/pod/cpu.cfs_quota_us": "50000", "cpu/pod/cpu.cfs_period_us": "100000"}, 1),
        ("4:memory:/pod", {"pod/cpu.max": "100000 100000"}, ALL),
        ("nonsense", {"cpu.max": "a b c"}, ALL),
    ],
)
def test_the_limit_of_a_container_is_read(tmp_path, own, files, expected):
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert num_usable_cores(tmp_path / "cgroup", tmp_path / "own") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"), ({"GOMP_SPINCOUNT": "9"}, "")],
)
def test_threads_wait_passively_unless_the_environment_says_otherwise(monkeypatch, given, expected):
    """In a new process, before it loads torch: `tests/gateway/test_cli.py` says that commands load none."""
    environment = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    monkeypatch.setattr(os, "environ", environment | given)
    let_threads_wait()
    assert os.environ.get("OMP_WAIT_POLICY", "") == expected


@pytest.mark.parametrize(("num_cores", "num_workers"), [(1, 2), (2, 3), (3, 4), (64, 4)])
def test_there_is_one_compile_worker_more_than_cores_and_at_most_four(monkeypatch, num_cores, num_workers):
    monkeypatch.setattr("gateway.resources.num_usable_cores", lambda: num_cores)
    assert open_compile_pool(Settings()).num_workers == num_workers


def test_a_setting_says_how_many_compile_workers_there_are():
    assert open_compile_pool(Settings(compile_workers=7)).num_workers == 7
    assert isinstance(open_compile_pool(Settings(compile_workers=0)), ThreadPool)
