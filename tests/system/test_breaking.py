"""Fault plans, traces and findings, as a user of the command line sees them."""

import json

import pytest

GPU = ("--gpu", "gfx90a")
ALLOCATE = ("/usr/bin/python3", "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); import kfd; r = kfd.open_render();\n"
            "for i in range(4):\n"
            "  try: print(kfd.gem_create(r))\n"
            "  except OSError as e: print(e.errno)\n")


def allocate():
    from conftest import CLIENTS
    return (*ALLOCATE, str(CLIENTS))


@pytest.fixture
def plan(tmp_path):
    def write(text):
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return path
    return write


def test_third_allocation_fails(understudy, plan):
    path = plan('[[fault]]\ncall = "GEM_CREATE"\nwhen = 3\nerrno = "ENOMEM"\n')
    result = understudy.run(*GPU, "--faults", path, "--", *allocate())
    assert result.stdout.split() == ["1", "2", "12", "3"], result.stderr


def test_open_can_be_made_to_fail(understudy, plan):
    path = plan('[[fault]]\ncall = "open"\nerrno = "EMFILE"\n')
    result = understudy.run(*GPU, "--faults", path, "--", "/usr/bin/python3", "-c", "import os; os.open('/dev/kfd', 2)")
    assert "Errno 24" in result.stderr


def test_same_seed_same_faults(understudy, plan):
    path = plan('seed = 5\n[[fault]]\ncall = "GEM_CREATE"\nprobability = 0.5\nerrno = "ENOMEM"\n')
    first = understudy.run(*GPU, "--faults", path, "--", *allocate()).stdout
    assert first == understudy.run(*GPU, "--faults", path, "--", *allocate()).stdout


def test_malformed_plan_names_its_line(understudy, plan):
    result = understudy.run(*GPU, "--faults", plan('[[fault]]\nerrno = "ENOMEM"\nwen = 3\n'), "--", "true")
    assert result.returncode == 2 and "plan.toml:3: unknown key 'wen'" in result.stderr


def test_text_trace_decodes_calls(understudy, tmp_path):
    trace = tmp_path / "trace.txt"
    understudy.run(*GPU, "--trace", trace, "--", *allocate())
    line = next(line for line in trace.read_text().splitlines() if "GEM_CREATE" in line)
    assert "bo_size=" in line and "= 0" in line


def test_perfetto_trace_is_well_formed(understudy, tmp_path):
    trace = tmp_path / "trace.json"
    understudy.run(*GPU, "--trace", trace, "--", *allocate())
    events = json.loads(trace.read_text())["traceEvents"]
    calls = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in calls].count("DRM_IOCTL_AMDGPU_GEM_CREATE") == 4
    assert all({"ts", "dur", "pid", "tid"} <= event.keys() for event in calls)


def test_leak_fails_the_run_when_asked(understudy):
    result = understudy.run(*GPU, "--fail-on", "leak", "--leaks", "--", *allocate())
    assert result.returncode == 3
    assert "GEM handle 1 on dri/renderD128" in result.stderr


def test_double_close_is_named_with_both_calls(understudy):
    from conftest import CLIENTS
    program = "import sys; sys.path.insert(0, sys.argv[1]); import kfd; r = kfd.open_render(); " \
              "h = kfd.gem_create(r); kfd.gem_close(r, h); kfd.gem_close(r, h)"
    result = understudy.run(*GPU, "--fail-on", "double-destroy", "--", "/usr/bin/python3", "-c", program, CLIENTS)
    assert result.returncode == 3
    assert "GEM handle 1 closed twice on dri/renderD128" in result.stderr
    assert result.stderr.count("DRM_IOCTL_GEM_CLOSE") == 2
