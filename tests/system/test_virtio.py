"""HSA programs in a virtual machine, on our runtime, which reaches the host's GPUs through the virtio-gpu. Neither the guest nor
the host keeps anything afterwards."""

import pytest

from conftest import assert_ok, build_directory

CLIENTS = build_directory() / "tests" / "system" / "hsa"
RUNTIME = build_directory() / "runtime" / "alias"
CLEAN = ("--fail-on", "leak,double-destroy")
MACHINE = ("--virtio-gpu", "rocm,hostmem=64G", "--host-gpu", "gfx942:2")
USERPTR = ("--set", "flavour.virtio_blob_layout=userptr-v5")

pytestmark = pytest.mark.skipif(not CLIENTS.exists(), reason="the HSA clients were not built: no libhsa-runtime-dev")


def run(understudy, settings, program, *arguments):
    return understudy.run(*CLEAN, *MACHINE, *settings, "--", "env", f"LD_LIBRARY_PATH={RUNTIME}", CLIENTS / program,
                          *arguments)


@pytest.mark.parametrize("layout", ["reference", "merge-request"])
@pytest.mark.parametrize("program", [("hsa_copy", 5 * 1024 * 1024 + 5), ("hsa_memory",), ("hsa_queues", 20)], ids=lambda p: p[0])
def test_programs_use_the_hosts_gpus(understudy, program, layout):
    result = run(understudy, (*USERPTR, "--set", f"flavour.vhsakmt_memory_layout={layout}"), *program)
    assert_ok(result)
    assert result.stderr == ""


@pytest.mark.parametrize("kernel", ["userptr-v5", "userptr-late", "reference", "rocm-2026"])
def test_memory_is_locked_on_every_kernel_with_user_pointers(understudy, kernel):
    assert_ok(run(understudy, ("--set", f"flavour.virtio_blob_layout={kernel}"), "hsa_memory"))


def test_without_user_pointers_memory_cannot_be_locked(understudy):
    result = run(understudy, ("--set", "flavour.virtio_blob_layout=upstream"), "hsa_memory")
    assert result.returncode == 1
    assert "hsa_amd_memory_lock" in result.stderr


def test_without_the_capability_set_there_is_no_gpu(understudy):
    result = understudy.run("--virtio-gpu", "rocm,rocm=off", "--host-gpu", "gfx942", "--", "env",
                            f"LD_LIBRARY_PATH={RUNTIME}", CLIENTS / "hsa_queues", 1)
    assert result.returncode == 1
    assert "system.gpus.empty()" in result.stderr


def test_a_trace_shows_both_machines(understudy):
    result = understudy.run(*MACHINE, "--trace", "-", "--", "env", f"LD_LIBRARY_PATH={RUNTIME}", CLIENTS / "hsa_queues", 1)
    assert result.returncode == 0, result.stderr
    assert "dri/renderD128  DRM_IOCTL_VIRTGPU_EXECBUFFER" in result.stderr
    assert "host:kfd  AMDKFD_IOC_CREATE_QUEUE" in result.stderr


def test_what_a_guest_leaves_on_the_host_goes_with_it(understudy):
    """The guest ends without a word; its context on the host ends with its file."""
    result = understudy.run(*MACHINE, *CLEAN, "--", "env", f"LD_LIBRARY_PATH={RUNTIME}", "timeout", "-s", "KILL", "1",
                            CLIENTS / "hsa_queues", 100000000)
    assert "host:" not in result.stderr, result.stderr
