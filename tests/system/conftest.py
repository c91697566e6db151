"""Programs on simulated machines: every test runs through the fuse door and through the socket door.

UNDERSTUDY_BUILD names the build directory (default: build/test, then build/release).
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "system" / "clients"
PATIENCE_SECONDS = 120


def build_directory():
    if "UNDERSTUDY_BUILD" in os.environ:
        return pathlib.Path(os.environ["UNDERSTUDY_BUILD"])
    for name in ("test", "release", "demo"):
        if (ROOT / "build" / name / "bin" / "understudy").exists():
            return ROOT / "build" / name
    pytest.exit("no build found: run scripts/test", returncode=2)


class Understudy:
    """The command, with one door chosen and the runtime directory of its own."""

    def __init__(self, door, runtime_directory):
        self.program = build_directory() / "bin" / "understudy"
        self.door = door
        self.runtime_directory = runtime_directory
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=str(runtime_directory))

    def command(self, *arguments, subcommand="run"):
        return [str(self.program), subcommand, "--door", self.door, *map(str, arguments)]

    def popen(self, *arguments, **keywords):
        return subprocess.Popen(self.command(*arguments), env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)

    def run(self, *arguments, **keywords):
        return subprocess.run(self.command(*arguments), env=self.environment, text=True, capture_output=True,
                              timeout=PATIENCE_SECONDS, **keywords)

    def client(self, machine, name, *arguments, **keywords):
        """Runs clients/NAME.py on a machine; it must print its final OK line."""
        result = self.run(*machine, "--", "/usr/bin/python3", CLIENTS / f"{name}.py", *arguments, **keywords)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.splitlines()[-1:] == ["OK"], result.stdout + result.stderr
        return result

    def residue(self):
        """What is left in the runtime directory, and mounts below it."""
        mounts = [line.split()[1] for line in open("/proc/self/mounts") if str(self.runtime_directory) in line]
        machines = [path for base in self.runtime_directory.iterdir() for path in base.iterdir()] \
            if self.runtime_directory.exists() else []
        return mounts + [str(path) for path in machines if path.name != ".lock"]


@pytest.fixture(params=["fuse", "socket"])
def understudy(request):
    if request.param == "fuse" and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("this host has no usable /dev/fuse")
    # Short: socket paths have 108 bytes.
    runtime_directory = pathlib.Path(tempfile.mkdtemp(prefix="us-", dir="/tmp"))
    try:
        command = Understudy(request.param, runtime_directory)
        yield command
        assert command.residue() == []
    finally:
        shutil.rmtree(runtime_directory, ignore_errors=True)


@pytest.fixture
def unprivileged():
    """Keyword arguments that make subprocess run as nobody; skips where the tests are not run by root."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
