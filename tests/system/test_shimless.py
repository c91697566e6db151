"""Programs that do not load the shim: what they can do through the fuse mount, and that the report names them."""

import pytest

from conftest import PYTHON, build_directory

GPU = ("--gpu", "gfx90a")
SHIMLESS = build_directory() / "tests" / "system" / "shimless"


@pytest.fixture
def fuse(understudy):
    if understudy.door != "fuse":
        pytest.skip("only the fuse door serves programs without the shim")
    return understudy


@pytest.mark.parametrize("environment", [[], ["env", "-i"], ["env", "-u", "LD_PRELOAD"]],
                         ids=["static", "cleared", "unset"])
def test_it_uses_nodes_and_sysfs_and_is_named(fuse, environment):
    command = " ".join([*environment, str(SHIMLESS)])
    result = fuse.run(*GPU, "--", "sh", "-c", f"exec {command} $UNDERSTUDY/fs")
    assert (result.returncode, result.stdout) == (0, "OK\n"), result.stderr
    assert '("shimless") opened kfd without the shim' in result.stderr, result.stderr


def test_a_python_program_without_the_shim(fuse):
    client = "import os,fcntl; b=bytearray(8); f=os.open(os.environ['UNDERSTUDY']+'/fs/dev/kfd',2); " \
             "fcntl.ioctl(f,0x80084b01,b,True); print(b[0])"
    result = fuse.run(*GPU, "--", "env", "-u", "LD_PRELOAD", PYTHON, "-c", client)
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr
    assert "without the shim" in result.stderr


def test_programs_with_the_shim_are_not_named(fuse):
    assert "without the shim" not in fuse.client(GPU, "fork").stderr


def test_a_mount_point_of_the_users_choice(fuse):
    directory = fuse.runtime_directory / "tree"
    directory.mkdir()
    directory.chmod(0o777)
    result = fuse.run(*GPU, "--mount", directory, "--", "env", "-i", SHIMLESS, directory)
    assert (result.returncode, result.stdout) == (0, "OK\n"), result.stderr
    assert list(directory.iterdir()) == []
    directory.rmdir()
