"""What fork, exec, descriptors, signals and kills do to clients and to the server."""

import os
import signal

import pytest

GPU = ("--gpu", "gfx90a")


@pytest.mark.parametrize("client", ["fork", "descriptors", "sharing", "interrupt", "threads"])
def test_client(understudy, client):
    understudy.client(GPU, client)


def test_npu(understudy):
    understudy.client(("--npu", "npu4"), "npu")


def test_gpu_and_npu_on_one_machine(understudy):
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "npu")
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "fork")


def test_gpu_and_npu_share_memory(understudy):
    understudy.client(("--npu", "npu4", "--gpu", "gfx90a"), "exchange")


def test_unprivileged_user(understudy, unprivileged):
    os.chown(understudy.runtime_directory, unprivileged["user"], unprivileged["group"])
    if understudy.door == "fuse" and os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
        pytest.skip("/dev/fuse is root's alone on this host")
    understudy.client(GPU, "sharing", **unprivileged)


@pytest.mark.parametrize("command, status", [(["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42),
                                             (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
                                             (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL)])
def test_exit_status_is_the_commands(understudy, command, status):
    assert understudy.run(*GPU, "--", *command).returncode == status


def test_nothing_is_said_when_nothing_is_wrong(understudy):
    result = understudy.run(*GPU, "--", "sh", "-c", "echo out; echo err >&2")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_killed_client_leaves_no_memory_in_use(understudy):
    understudy.client(("--gpu", "gfx90a"), "kill")


def test_killed_server_fails_clients_and_leaves_nothing(understudy):
    from conftest import CLIENTS
    result = understudy.run(*GPU, "--", "/usr/bin/python3", CLIENTS / "orphan.py")
    assert result.stdout == "OK\n", result.stderr
    assert result.returncode == 125 and "server ended before its time" in result.stderr


def test_interrupted_run_leaves_nothing(understudy):
    from conftest import CLIENTS
    process = understudy.popen(*GPU, "--", "/usr/bin/python3", CLIENTS / "hold.py", start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) != 0


def test_many_clients_one_after_another(understudy):
    loop = "i=0; while [ $i -lt 200 ]; do cat /sys/class/kfd/kfd/topology/generation_id || exit 1; i=$((i+1)); done"
    result = understudy.run(*GPU, "--", "sh", "-c", loop)
    assert result.returncode == 0 and result.stdout.count("\n") == 200, result.stderr


def test_program_without_the_shim_uses_the_mount_and_is_named(understudy):
    if understudy.door != "fuse":
        pytest.skip("only the fuse door serves programs without the shim")
    client = "import os,fcntl; b=bytearray(8); f=os.open(os.environ['UNDERSTUDY']+'/fs/dev/kfd',2); " \
             "fcntl.ioctl(f,0x80084b01,b,True); print(b[0]); " \
             "print(open(os.environ['UNDERSTUDY']+'/fs/sys/class/kfd/kfd/topology/nodes/1/name').read())"
    result = understudy.run(*GPU, "--", "env", "-u", "LD_PRELOAD", "/usr/bin/python3", "-c", client)
    assert result.returncode == 0 and result.stdout.startswith("1\n"), result.stdout + result.stderr
    assert "without the shim" in result.stderr


@pytest.mark.parametrize("arguments, words", [
    (("--gpu", "gfx9000", "--", "true"), "gfx9000"),
    (("--gpu", "gfx90a"), "command to run is missing"),
    (("--machine", "/nonexistent.toml", "--", "true"), "/nonexistent.toml"),
    (("--set", "limits.nonsense=1", "--", "true"), "limits.nonsense"),
    (("--faults", "/nonexistent.toml", "--gpu", "gfx90a", "--", "true"), "/nonexistent.toml"),
    (("--fail-on", "nonsense", "--gpu", "gfx90a", "--", "true"), "nonsense"),
])
def test_wrong_use_is_one_clear_line(understudy, arguments, words):
    result = understudy.run(*arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and words in result.stderr, result.stderr
