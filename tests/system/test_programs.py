"""Unmodified ROCm programs of the distribution, on each machine they know."""

import re
import shutil

import pytest


def agents(output):
    return re.findall(r"^  Name: +(\S+)", output, re.MULTILINE)


@pytest.mark.skipif(not shutil.which("rocminfo"), reason="rocminfo is not installed")
@pytest.mark.parametrize("gpus, names", [
    ("gfx90a", ["gfx90a"]),
    ("gfx1030", ["gfx1030"]),
    ("gfx90a:4", ["gfx90a"] * 4),
    ("gfx1030,gfx90a", ["gfx1030", "gfx90a"]),
])
def test_rocminfo_lists_the_gpus(understudy, gpus, names):
    result = understudy.run("--gpu", gpus, "--", "rocminfo")
    assert result.returncode == 0, result.stdout + result.stderr
    assert agents(result.stdout)[1:] == names


@pytest.mark.skipif(not shutil.which("rocminfo"), reason="rocminfo is not installed")
def test_rocminfo_shows_the_gpus_properties(understudy):
    gpu = understudy.run("--gpu", "gfx90a", "--", "rocminfo").stdout.split("Agent 2")[1]
    assert re.search(r"Compute Unit: +104\b", gpu)
    assert re.search(r"Marketing Name: +AMD Instinct MI210\b", gpu)
    assert re.search(r"L2: +8192\(", gpu)
    assert re.search(r"Segment: +GLOBAL; FLAGS: COARSE GRAINED\s+Size: +6\d{7}\(", gpu), gpu
    assert "amdgcn-amd-amdhsa--gfx90a" in gpu


def test_gpus_of_a_hive_are_linked_to_each_other(understudy):
    links = understudy.run("--gpu", "gfx90a:4", "--", "sh", "-c",
                           "cat /sys/class/kfd/kfd/topology/nodes/1/io_links/*/properties").stdout
    # To the CPU by PCIe (2), to each of the others by xGMI (11).
    assert sorted(re.findall(r"^type (\d+)$", links, re.MULTILINE)) == ["11", "11", "11", "2"]


@pytest.mark.skipif(not shutil.which("rocminfo"), reason="rocminfo is not installed")
@pytest.mark.parametrize("gpu", ["gfx942", "gfx1100", "gfx1151", "gfx1201"])
def test_old_rocr_keeps_only_the_cpu_of_newer_gpus(understudy, gpu):
    result = understudy.run("--gpu", gpu, "--", "rocminfo")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(agents(result.stdout)) == 1


@pytest.mark.skipif(not shutil.which("rocm_agent_enumerator"), reason="rocminfo is not installed")
def test_agent_enumerator(understudy):
    result = understudy.run("--gpu", "gfx90a:2", "--", "rocm_agent_enumerator")
    assert result.stdout.split() == ["gfx000", "gfx90a", "gfx90a"]


@pytest.mark.skipif(not shutil.which("rocm-smi"), reason="rocm-smi is not installed")
def test_rocm_smi_shows_memory_and_ids(understudy):
    result = understudy.run("--gpu", "gfx90a:2", "--", "rocm-smi", "--showid", "--showmeminfo", "vram", "--showbus")
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"GPU ID: 0x740f", result.stdout)) == 2, result.stdout
    assert len(re.findall(r"VRAM Total Memory \(B\): 68702699520", result.stdout)) == 2, result.stdout
    assert len(set(re.findall(r"PCI Bus: (\S+)", result.stdout))) == 2, result.stdout


@pytest.mark.skipif(not shutil.which("drmdevice"), reason="libdrm-tests is not installed")
def test_drmdevice_finds_the_gpu(understudy):
    result = understudy.run("--gpu", "gfx90a", "--", "drmdevice")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "740f" in result.stdout, result.stdout
