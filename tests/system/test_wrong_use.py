"""Wrong use: one clear line each, exit status 2, and nothing left behind."""

import subprocess

import pytest

from conftest import assert_one_line

TRUE = ["--", "true"]
WRONG_RUNS = {
    "missing CMD": (["--gpu", "gfx90a"], "the command to run is missing"),
    "missing CMD after --": (["--gpu", "gfx90a", "--"], "the command to run is missing"),
    "unknown flag": (["--gpux", "gfx90a", *TRUE], "--gpux"),
    "unknown profile": (["--gpu", "gfx9000", *TRUE], "gfx9000"),
    "unknown NPU": (["--npu", "npu99", *TRUE], "npu99"),
    "count that is none": (["--gpu", "gfx90a:many", *TRUE], "gfx90a:many"),
    "count of zero": (["--gpu", "gfx90a:0", *TRUE], "gfx90a:0"),
    "contradiction": (["--gpu", "gfx90a", "--cpu-only", *TRUE], "exclude each other"),
    "unknown setting": (["--set", "limits.nonsense=1", *TRUE], "limits.nonsense"),
    "setting without value": (["--set", "limits.events", *TRUE], "KEY=VALUE"),
    "setting of another type": (["--set", "limits.events=many", *TRUE], "a number"),
    "bad size": (["--set", "limits.vram=8 quarts", *TRUE], "a size"),
    "bad choice": (["--dispatch", "perhaps", *TRUE], "perhaps"),
    "unknown requirement": (["--require", "luck", *TRUE], "luck"),
    "missing machine file": (["--machine", "/nonexistent.toml", *TRUE], "/nonexistent.toml"),
    "missing fault plan": (["--faults", "/nonexistent.toml", "--gpu", "gfx90a", *TRUE], "/nonexistent.toml"),
    "unknown finding": (["--fail-on", "nonsense", "--gpu", "gfx90a", *TRUE], "nonsense"),
    "mount point that is busy": (["--mount", "/proc", *TRUE], "it is busy"),
    "mount point that is full": (["--mount", "/etc", *TRUE], "not empty"),
    "mount point that is a file": (["--mount", "/etc/passwd", *TRUE], "not a directory"),
    "mount point that is not there": (["--mount", "/nonexistent", *TRUE], "No such file"),
}
OTHERS = {
    "no command": ([], "subcommand"),
    "unknown command": (["walk"], "walk"),
    "unknown door": (["run", "--door", "cat-flap", *TRUE], "cat-flap"),
    "unknown machine": (["exec", "nowhere", *TRUE], "no machine 'nowhere' is up"),
    "exec without CMD": (["exec", "nowhere"], "the command to run is missing"),
    "stopping nothing": (["stop", "nowhere"], "no machine 'nowhere' is up"),
    "a name that leads elsewhere": (["serve", "../escape"], "../escape"),
    "showing an unknown profile": (["profiles", "gfx9000"], "gfx9000"),
}


@pytest.mark.parametrize("arguments, words", WRONG_RUNS.values(), ids=WRONG_RUNS.keys())
def test_wrong_run(understudy, arguments, words):
    assert_one_line(understudy.run(*arguments), words)


@pytest.mark.parametrize("arguments, words", OTHERS.values(), ids=OTHERS.keys())
def test_wrong_command(understudy, arguments, words):
    assert_one_line(understudy.run(*arguments, subcommand=None), words)


MALFORMED_FILES = {
    'gpu = "gfx90a"\n': ":1:7: gpu is a list of tables",
    "seed = 1\nseeds = 2\n": ":2:9: unknown setting 'seeds'",
    "[limits]\nevents = -1\n": ":2:10: limits.events = -1 is not accepted",
    '[[gpu]]\nprofile = "gfx90a"\ncount = 0\n': ":3:9: [[gpu]] takes",
    "[[gpu]]\ncount = 1\n": ":1:1: [[gpu]] needs profile",
    "seed = \n": ":1:",
    'cpu_only = "yes"\n': ":1:12: cpu_only takes true or false",
}


@pytest.mark.parametrize("text, complaint", MALFORMED_FILES.items())
def test_malformed_machine_file(understudy, text, complaint):
    path = understudy.runtime_directory / "machine.toml"
    path.write_text(text)
    result = understudy.run("--machine", path, "--", "true")
    path.unlink()
    assert_one_line(result, f"{path}{complaint}")


def test_no_fuse_device(understudy):
    """In a mount namespace whose /dev has no fuse."""
    if understudy.door != "fuse" or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    hidden = "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && exec \"$@\""
    result = subprocess.run(["unshare", "--mount", "sh", "-c", hidden, "sh", understudy.program, "run", "--door", "fuse",
                             "--cpu-only", "--", "true"], env=understudy.environment, text=True, capture_output=True,
                            timeout=60)
    assert_one_line(result, "the fuse door does not open: ")
