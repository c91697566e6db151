"""`understudy run`: exit status, streams, signals, environment, endings and reports."""

import json
import os
import signal
import subprocess

import pytest

from conftest import assert_one_line, finish

CPU = ("--cpu-only",)


@pytest.mark.parametrize("command, status", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42),
    (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV), (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL)])
def test_exit_status_is_the_commands(understudy, command, status):
    assert understudy.run(*CPU, "--", *command).returncode == status


def test_a_cmd_that_is_not_there_is_127_and_one_that_may_not_be_executed_126(understudy, tmp_path):
    assert_one_line(understudy.run(*CPU, "--", "no-such-program"), "cannot run 'no-such-program': No such file", 127)
    assert_one_line(understudy.run(*CPU, "--", "/etc/passwd"), "cannot run '/etc/passwd': Permission denied", 126)


def test_nothing_is_said_when_nothing_is_wrong(understudy):
    result = understudy.run("--gpu", "gfx90a", "--", "sh", "-c", "echo out; echo err >&2")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_standard_input_is_the_commands(understudy):
    process = understudy.popen(*CPU, "--", "cat", stdin=subprocess.PIPE)
    assert process.communicate("text\n", timeout=60) == ("text\n", "")


def test_inherited_descriptors_reach_the_command_and_nobody_else(understudy):
    reader, writer = os.pipe()
    result = understudy.run(*CPU, "--", "bash", "-c", f"echo through >&{writer}", pass_fds=[writer])
    os.close(writer)
    assert result.returncode == 0 and os.read(reader, 100) == b"through\n"
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_a_program_that_touches_no_device_has_no_descriptor_of_ours(understudy):
    result = understudy.run("--gpu", "gfx90a", "--", "ls", "/proc/self/fd")
    assert result.stdout.split() == ["0", "1", "2", "3"], result.stdout


def test_a_preload_of_the_users_stays_behind_ours(understudy):
    result = understudy.run(*CPU, "--", "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
    ours, users = result.stdout.strip().split(":")
    assert ours.endswith("/libunderstudy-shim.so") and users == "libm.so.6"


def test_ctrl_c_ends_command_and_machine(understudy):
    process = understudy.popen("--gpu", "gfx90a", "--", "sh", "-c", "echo up; exec sleep 100")
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGINT)
    assert finish(process).returncode == 128 + signal.SIGINT


def test_a_command_that_handles_ctrl_c_keeps_its_machine(understudy):
    script = "trap 'echo caught; c=1' INT; echo up; while [ -z \"$c\" ]; do sleep 0.01; done; " \
             "cat /sys/class/kfd/kfd/topology/generation_id"
    process = understudy.popen(*CPU, "--", "sh", "-c", script)
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGINT)
    result = finish(process)
    assert result.returncode == 0 and result.stdout.split()[0] == "caught"
    assert result.stdout.split()[1].isdigit(), result.stderr


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1"])
def test_a_signal_to_understudy_alone_is_passed_on(understudy, name):
    script = f"trap 'echo caught; exit 7' {name}; echo up; while :; do sleep 0.01; done"
    process = understudy.popen(*CPU, "--", "sh", "-c", script)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.Signals[f"SIG{name}"])
    result = finish(process)
    assert (result.returncode, result.stdout) == (7, "caught\n"), result.stderr


def test_what_a_kill_of_everything_leaves_is_cleared_away_by_the_next_run(understudy):
    process = understudy.popen(*CPU, "--", "sh", "-c", "echo up; exec sleep 100")
    assert process.stdout.readline() == "up\n"
    # The server first: it would clear away after its supervisor.
    for pid in sorted(understudy.processes(), key=lambda pid: pid == process.pid):
        os.kill(pid, signal.SIGKILL)
    finish(process)
    assert understudy.run(*CPU, "--", "true").returncode == 0


def test_verbose_says_which_door_was_taken(understudy):
    result = understudy.run("-v", *CPU, "--", "true")
    assert f"door: {understudy.door}" in result.stderr and "seed 1" in result.stderr


def test_json_report_is_written_also_when_there_is_nothing_to_say(understudy):
    report = understudy.runtime_directory / "report.json"
    assert understudy.run(*CPU, "--json", "--report", report, "--", "true").returncode == 0
    content = json.loads(report.read_text())
    report.unlink()
    assert content["version"] == 1 and content["findings"] == []


def test_without_fuse_the_socket_door_is_taken_or_the_requirement_refused(understudy, identity):
    """A process that may gain no privileges cannot mount."""
    if os.geteuid() != 0 or identity:
        pytest.skip("needs root, to give privileges up")
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", understudy.program]

    def run(*arguments):
        return subprocess.run([*drop, "run", *arguments, *CPU, "--", "true"], env=understudy.environment, text=True,
                              capture_output=True, timeout=60)

    fallen_back = run("-v")
    assert fallen_back.returncode == 0 and "door: socket (no fuse: " in fallen_back.stderr, fallen_back.stderr
    assert_one_line(run("--require", "fuse"), "--require fuse: ")
    assert_one_line(run("--door", "fuse"), "the fuse door does not open: ")
