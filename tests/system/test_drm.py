"""libdrm_amdgpu and its programs, unmodified: clients/drm/*.cpp and libdrm-tests, through both doors."""

import re
import shutil

import pytest

from conftest import build_directory

CLIENTS = build_directory() / "tests" / "system" / "drm"
GPUS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201"]

needs_clients = pytest.mark.skipif(not CLIENTS.exists(), reason="the clients were not built: no libdrm-dev")
needs_stress = pytest.mark.skipif(not shutil.which("amdgpu_stress"), reason="libdrm-tests is not installed")


def run(understudy, gpu, program):
    result = understudy.run("--gpu", gpu, "--", CLIENTS / program)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1:] == ["OK"], result.stdout + result.stderr
    assert "closed twice" not in result.stderr or program == "drm_memory", result.stderr


@needs_clients
@pytest.mark.parametrize("gpu", GPUS)
def test_memory(understudy, gpu):
    run(understudy, gpu, "drm_memory")


@needs_clients
@pytest.mark.parametrize("gpu", GPUS)
def test_submissions(understudy, gpu):
    run(understudy, gpu, "drm_submit")


@needs_stress
@pytest.mark.parametrize("gpu", GPUS)
def test_amdgpu_stress_copies_between_buffers(understudy, gpu):
    result = understudy.run("--gpu", gpu, "--", "amdgpu_stress", "-b", "v", "2097152", "-b", "g", "2097152",
                            "-c", "0", "1", "2097152", "10", "-c", "1", "0", "1048576", "10")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"^Submitted 10 IBs to copy", result.stdout, re.MULTILINE)) == 2, result.stdout
