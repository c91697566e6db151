"""What fork, exec, descriptors, signals and kills do to clients and to the server."""

import os
import signal

import pytest

from conftest import CLIENTS, PYTHON, assert_ok, eventually, finish

GPU = ("--gpu", "gfx90a")


@pytest.mark.parametrize("client", ["fork", "exec", "descriptors", "sharing", "interrupt", "threads"])
def test_client(understudy, client):
    understudy.client(GPU, client)


def test_npu(understudy):
    understudy.client(("--npu", "npu4"), "npu")


def test_npu_program(understudy):
    understudy.client(("--npu", "npu4"), "npu_program")


def test_client_killed_in_the_middle_of_a_chain(understudy):
    understudy.client(("--npu", "npu4"), "npu_kill")


def test_gpu_and_npu_on_one_machine(understudy):
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "npu")
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "fork")


def test_gpu_and_npu_share_memory(understudy):
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "exchange")


def test_killed_client_leaves_no_memory_in_use_and_is_reported(understudy):
    result = understudy.client(("--gpu", "gfx90a", "--leaks"), "kill")
    assert "was killed, crashed or called exec while it held" in result.stderr, result.stderr
    # What the render node's file held may be gone with the file by then; what the process held is not.
    assert "made:   AMDKFD_IOC_CREATE_EVENT" in result.stderr, result.stderr


def test_killed_server_fails_clients_and_leaves_nothing(understudy):
    result = understudy.run(*GPU, "--", PYTHON, CLIENTS / "orphan.py")
    assert result.stdout == "OK\n", result.stderr
    assert result.returncode == 125 and "server ended before its time" in result.stderr


def test_killed_supervisor_takes_cmd_and_machine_with_it(understudy):
    process = understudy.popen(*GPU, "--", PYTHON, CLIENTS / "hold.py")
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGKILL)
    # CMD holds our pipe: this ends when it does.
    finish(process)


def test_a_waiting_client_is_not_left_hanging(understudy):
    """The server is killed while a call of the client is pending."""
    result = understudy.run(*GPU, "--", PYTHON, CLIENTS / "wait_until_lost.py")
    assert result.stdout == "OK\n" and result.returncode == 125, result.stderr


def test_clients_left_behind_are_ended_and_named(understudy):
    hold = f"{PYTHON} {CLIENTS / 'hold.py'} > {understudy.runtime_directory}/held & " \
           f"until grep -q ready {understudy.runtime_directory}/held; do sleep 0.01; done; " \
           f"rm {understudy.runtime_directory}/held"
    result = understudy.run(*GPU, "--", "sh", "-c", hold)
    assert result.returncode == 0, result.stderr
    assert "still used the machine when it ended, and was ended with it" in result.stderr


def test_500_clients_leave_no_trace_in_the_server(understudy):
    """Descriptors and memory of the server after 500 clients are what they were after 100."""
    def measured(server):
        status = open(f"/proc/{server}/status").read()
        return len(os.listdir(f"/proc/{server}/fd")), int(status.split("VmRSS:")[1].split()[0])

    assert understudy.call("serve", "lab", *GPU, "--background").returncode == 0
    try:
        supervisor = int(understudy.call("ps").stdout.splitlines()[1].split()[1])
        server = int(open(f"/proc/{supervisor}/task/{supervisor}/children").read().split()[0])
        assert_ok(understudy.call("exec", "lab", "--", PYTHON, CLIENTS / "crowd.py", "100"))
        fds_before, kb_before = measured(server)
        assert_ok(understudy.call("exec", "lab", "--", PYTHON, CLIENTS / "crowd.py", "400"))
        assert eventually(lambda: measured(server)[0] <= fds_before), measured(server)
        assert measured(server)[1] <= kb_before + 2048
    finally:
        assert understudy.call("stop", "lab").returncode == 0
