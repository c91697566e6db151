"""What libhsakmt and libdrm_amdgpu of the distribution see of each profile, also of those that its ROCR is too old for."""

import collections
import re

import pytest

from conftest import ROOT, build_directory

EXPECTED = ROOT / "tests" / "topology" / "expected"
PROFILES = ["gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx90a", "gfx942"]


def properties(profile):
    lines = (EXPECTED / f"{profile}.properties").read_text().splitlines()
    return {key: int(value) for key, value in (line.split() for line in lines)}


def snapshot(understudy, *machine):
    client = build_directory() / "tests" / "system" / "topology_snapshot"
    if not client.exists():
        pytest.skip("libhsakmt-dev or libdrm-dev is not installed")
    result = understudy.run(*machine, "--", client)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "OK", result.stdout
    return lines[:-1]


def facts(line):
    """{"node": "1", "simds": "416", ...} of a line of words and values."""
    words = line.split()
    return dict(zip(words[::2], words[1::2]))


def links(lines):
    """{(from, to): (type, weight)}"""
    pattern = re.compile(r"node (\d+) link to (\d+) type (\d+) weight (\d+)")
    found = [tuple(map(int, match.groups())) for match in map(pattern.fullmatch, lines) if match]
    return {(node, to): (kind, weight) for node, to, kind, weight in found}


@pytest.mark.parametrize("profile", PROFILES)
def test_libhsakmt_sees_the_gpu(understudy, profile):
    expected = properties(profile)
    lines = snapshot(understudy, "--gpu", profile)
    node = facts(next(line for line in lines if line.startswith("node 1 cpus")))
    version = expected["gfx_target_version"]
    assert int(node["simds"]) == expected["simd_count"]
    assert node["engine"] == f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    assert int(node["device"]) == expected["device_id"]
    assert int(node["waves"]) == expected["max_waves_per_simd"]
    assert node["minor"] == "128"
    caches = [facts(line.replace(" caches", "")) for line in lines if line.startswith("node 1 caches")]
    assert sum(int(cache["count"]) for cache in caches) == expected["caches_count"]


@pytest.mark.parametrize("profile", PROFILES)
def test_libdrm_sees_the_gpu(understudy, profile):
    expected = properties(profile)
    lines = snapshot(understudy, "--gpu", profile)
    render = facts(next(line for line in lines if line.startswith("render 128")))
    assert int(render["chip"]) == expected["device_id"]
    assert int(render["cus"]) == expected["simd_count"] // expected["simd_per_cu"]
    assert render["version"] == "3"


def test_a_hive_is_linked_by_xgmi(understudy):
    found = links(snapshot(understudy, "--gpu", "gfx942:8"))
    xgmi = {pair for pair, link in found.items() if link == (11, 15)}
    assert xgmi == {(a, b) for a in range(1, 9) for b in range(1, 9) if a != b}
    assert all(found[node, 0] == (2, 20) for node in range(1, 9))


def test_mixed_boards_reach_each_other_over_pcie(understudy):
    found = links(snapshot(understudy, "--gpu", "gfx90a,gfx1100"))
    assert found[1, 2] == found[2, 1] == (2, 40)


def test_two_sockets(understudy):
    lines = snapshot(understudy, "--gpu", "gfx90a:2", "--set", "cpu.nodes=2", "--set", "cpu.cores=8")
    cpus = [facts(line)["cpus"] for line in lines if re.match(r"node \d+ cpus", line)]
    assert cpus == ["4", "4", "0", "0"]


def test_sixty_four_gpus(understudy):
    lines = snapshot(understudy, "--gpu", "gfx90a:64")
    kinds = collections.Counter(line.split()[0] for line in lines)
    assert kinds["render"] == 64
    locations = {facts(line)["location"] for line in lines if re.match(r"node \d+ cpus 0", line)}
    assert len(locations) == 64


def test_cpus_alone(understudy):
    lines = snapshot(understudy, "--cpu-only")
    assert {line.split()[1] for line in lines} == {"0"}
