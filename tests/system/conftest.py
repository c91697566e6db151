"""Programs on simulated machines: every test runs through the fuse door and through the socket door, as the user who
runs pytest or, with --user nobody (root only), as somebody without privileges.

UNDERSTUDY_BUILD names the build directory (default: build/test, then build/release). --require fuse,nobody turns skips
for what a host lacks into failures.
"""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "system" / "clients"
PYTHON = "/usr/bin/python3"
PATIENCE_SECONDS = 120


def pytest_addoption(parser):
    parser.addoption("--user", choices=["self", "nobody"], default="self", help="whose processes the tests start")
    parser.addoption("--require", default="", metavar="fuse,nobody",
                     help="fail instead of skipping where the host lacks one of these")


def lacking(config, what, why):
    if what in config.getoption("--require").split(","):
        pytest.fail(f"--require {what}: {why}")
    pytest.skip(why)


def build_directory():
    if "UNDERSTUDY_BUILD" in os.environ:
        return pathlib.Path(os.environ["UNDERSTUDY_BUILD"]).resolve()
    for name in ("test", "release", "demo"):
        if (ROOT / "build" / name / "bin" / "understudy").exists():
            return ROOT / "build" / name
    pytest.exit("no build found: run scripts/test", returncode=2)


def eventually(condition, seconds=20):
    """Whether `condition` comes true: for what the kernel or another process does in its own time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Understudy:
    """The command, with one door chosen and a runtime directory of its own."""

    def __init__(self, door, runtime_directory, identity):
        self.program = build_directory() / "bin" / "understudy"
        self.door = door
        self.runtime_directory = runtime_directory
        # Keyword arguments that make subprocess run as the chosen user.
        self.identity = identity
        clean = {name: value for name, value in os.environ.items() if name not in ("UNDERSTUDY", "LD_PRELOAD")}
        self.environment = dict(clean, XDG_RUNTIME_DIR=str(runtime_directory))

    def popen(self, *arguments, subcommand="run", env=None, **keywords):
        door = ["--door", self.door] if subcommand in ("run", "serve") else []
        words = [self.program, *([subcommand] if subcommand else []), *door, *arguments]
        keywords.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([str(word) for word in words], env=dict(self.environment, **(env or {})), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                                **self.identity, **keywords)

    def run(self, *arguments, **keywords):
        return finish(self.popen(*arguments, **keywords))

    def call(self, subcommand, *arguments, **keywords):
        """Another subcommand than run."""
        return self.run(*arguments, subcommand=subcommand, **keywords)

    def client(self, machine, name, *arguments, **keywords):
        """Runs clients/NAME.py on a machine; it must print its final OK line."""
        result = self.run(*machine, "--", PYTHON, CLIENTS / f"{name}.py", *arguments, **keywords)
        assert_ok(result)
        return result

    def processes(self):
        """Living processes whose environment or command line names the runtime directory."""
        needle = str(self.runtime_directory).encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                texts = [(entry / name).read_bytes() for name in ("environ", "cmdline")]
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and any(needle in text for text in texts):
                found.append(int(entry.name))
        return found

    def residue(self):
        """What is left of machines: processes, mounts and files."""
        mounts = [line.split()[1] for line in open("/proc/self/mounts") if str(self.runtime_directory) in line]
        return self.processes() + mounts + [str(path) for path in self.runtime_directory.iterdir()]


def finish(process, seconds=PATIENCE_SECONDS):
    """The process's end, as subprocess.run gives it."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"still running after {seconds} s\n{out}\n{err}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def assert_ok(result):
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1:] == ["OK"], result.stdout + result.stderr


def assert_one_line(result, words, status=2):
    """Wrong use: one clear line and nothing else."""
    assert result.returncode == status, result.stdout + result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("understudy: ") and result.stderr.count("\n") == 1, result.stderr
    assert words in result.stderr, result.stderr


@pytest.fixture(scope="session")
def identity(request):
    if request.config.getoption("--user") == "self":
        return {}
    if os.geteuid() != 0:
        lacking(request.config, "nobody", "only root can become somebody else")
    closed = [path for path in [build_directory(), *build_directory().parents] if not path.stat().st_mode & 0o001]
    if closed:
        lacking(request.config, "nobody", f"{closed[0]} is closed to other users")
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def fuse_fails(identity):
    """Why fuse does not work here for the chosen user; empty when it does."""
    directory = tempfile.mkdtemp(prefix="us-", dir="/tmp")
    os.chmod(directory, 0o777)
    try:
        result = Understudy("fuse", pathlib.Path(directory), identity).run("--cpu-only", "--", "true")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return result.stderr if result.returncode == 2 else ""


@pytest.fixture
def runtime_directory():
    # Short, because socket paths have 108 bytes; open, because it is any user's; in memory, as $XDG_RUNTIME_DIR is.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    path = pathlib.Path(tempfile.mkdtemp(prefix="us-", dir=memory))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["fuse", "socket"])
def understudy(request, runtime_directory, identity, fuse_fails):
    if request.param == "fuse" and fuse_fails:
        lacking(request.config, "fuse", fuse_fails)
    command = Understudy(request.param, runtime_directory, identity)
    yield command
    assert eventually(lambda: command.residue() == []), command.residue()
