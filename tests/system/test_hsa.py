"""HSA programs on Debian's unmodified runtime: clients/hsa/*.cpp, run on simulated GPUs through both doors."""

import pathlib

import pytest

from conftest import build_directory

CLIENTS = build_directory() / "tests" / "system" / "hsa"

pytestmark = pytest.mark.skipif(not CLIENTS.exists(), reason="the HSA clients were not built: no libhsa-runtime-dev")


def run(understudy, machine, program, *arguments):
    result = understudy.run(*machine, "--", CLIENTS / program, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1:] == ["OK"], result.stdout + result.stderr
    return result


# Not gfx1030 with gfx90a: ROCR maps device memory to both, and MAP_MEMORY_TO_GPU answers EINVAL.
@pytest.mark.parametrize("gpu", ["gfx90a:2", "gfx1030"])
def test_copies_between_host_and_gpus(understudy, gpu):
    run(understudy, ["--gpu", gpu], "hsa_copy", 16 * 1024 * 1024 + 5)


def test_copies_a_gigabyte(understudy):
    run(understudy, ["--gpu", "gfx90a"], "hsa_copy", 1 << 30)


@pytest.mark.parametrize("gpu", ["gfx90a:2", "gfx1030"])
def test_pools_and_locked_memory(understudy, gpu):
    run(understudy, ["--gpu", gpu], "hsa_memory")


def test_memory_goes_to_another_process(understudy):
    run(understudy, ["--gpu", "gfx90a"], "hsa_ipc")


def test_barriers_handlers_and_queues_in_a_loop(understudy):
    run(understudy, ["--gpu", "gfx90a:2"], "hsa_queues", 10000)
