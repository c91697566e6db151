"""`understudy serve` and its companions exec, ps and stop."""

import os
import signal

import pytest

from conftest import CLIENTS, PYTHON, assert_ok, assert_one_line, eventually, finish

GPU = ("--gpu", "gfx90a")


@pytest.fixture
def lab(understudy):
    assert understudy.call("serve", "lab", *GPU, "--background").returncode == 0
    yield understudy
    if "lab" in understudy.call("ps").stdout:
        assert understudy.call("stop", "lab").returncode == 0


def client(understudy, name):
    return understudy.call("exec", "lab", "--", PYTHON, CLIENTS / f"{name}.py")


def test_a_machine_serves_many_commands(lab):
    for name in ("fork", "sharing", "fork"):
        assert_ok(client(lab, name))
    assert lab.call("exec", "lab", "--", "sh", "-c", "exit 5").returncode == 5
    name, _, door, seed, devices, root = lab.call("ps").stdout.splitlines()[1].split()
    assert (name, door, seed, devices) == ("lab", lab.door, "1", "gfx90a")
    assert root.endswith("/lab")
    assert lab.call("stop", "lab").returncode == 0
    assert lab.call("ps").stdout == ""


def test_a_name_is_taken_once(lab):
    for flags in ([], ["--background"]):
        assert_one_line(lab.call("serve", "lab", "--cpu-only", *flags), "machine 'lab' is already up")
    assert lab.call("serve", "other", "--cpu-only", "--background").returncode == 0
    assert len(lab.call("ps").stdout.splitlines()) == 3
    assert lab.call("stop", "other").returncode == 0


def test_a_machine_that_does_not_start_says_why(understudy):
    for flags in ([], ["--background"]):
        assert_one_line(understudy.call("serve", "lab", "--gpu", "gfx999", *flags), "gfx999")


def test_serving_in_the_foreground_ends_with_ctrl_c(understudy):
    process = understudy.popen("lab", *GPU, subcommand="serve")
    assert eventually(lambda: "lab" in understudy.call("ps").stdout)
    assert_ok(client(understudy, "fork"))
    os.killpg(process.pid, signal.SIGINT)
    result = finish(process)
    assert result.returncode == 0 and "machine 'lab' is up" in result.stderr, result.stderr


def test_stop_prints_the_report(lab):
    assert_ok(client(lab, "descriptors"))
    assert "GEM handle 1 closed twice" in lab.call("stop", "lab").stderr


def test_stopping_under_a_client_fails_its_calls(lab):
    holder = lab.popen("lab", "--", PYTHON, CLIENTS / "hold.py", subcommand="exec")
    assert holder.stdout.readline() == "ready\n"
    assert "still used the machine when it ended; its calls fail from now on" in lab.call("stop", "lab").stderr
    holder.kill()
    finish(holder)


def test_a_killed_server_in_the_background_leaves_nothing(lab):
    supervisor = int(lab.call("ps").stdout.splitlines()[1].split()[1])
    server = int(open(f"/proc/{supervisor}/task/{supervisor}/children").read().split()[0])
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: lab.processes() == [])
    assert lab.call("ps").stdout == ""
