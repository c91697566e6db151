"""The virtual machine: an initramfs with the probe, and QEMU without hardware virtualisation."""

import shlex
import shutil
import subprocess
import time

from .cpio import Archive
from .kernel import KernelError

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 1024
# With five-level paging user addresses end elsewhere than on most machines, and so do the checks of pointers.
CPU = "max,la57=off"
# End of a transcript: QEMU may power off before a sequence got to run, and the file alone would not tell.
END = "oracle: end"

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /tmp
mount -t tmpfs tmp /tmp
stty -F /dev/ttyS1 raw -echo
exec 3>/dev/ttyS1
for module in $(cat /modules.order); do
  insmod /modules/$module.ko || echo "oracle: $module did not load" >&3
done
sh /run.sh
poweroff -f
"""


def busybox():
    path = shutil.which("busybox")
    if path is None:
        raise KernelError("busybox is not installed; apt-get install busybox-static")
    with open(path, "rb") as file:
        data = file.read()
    if b"/lib64/ld-linux" in data[:65536]:
        raise KernelError(f"{path} is not static; apt-get install busybox-static")
    return data


def initramfs(boot_files, files, script):
    """`files`: name -> content. `script` runs in the machine with descriptor 3 as the transcript."""
    archive = Archive()
    for folder in ("proc", "sys", "dev", "tmp", "bin"):
        archive.folder(folder)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", busybox())
    archive.file("init", INIT.encode())
    archive.file("run.sh", script.encode())
    archive.file("modules.order", ("\n".join(boot_files.modules) + "\n").encode())
    for name in boot_files.modules:
        archive.file(f"modules/{name}.ko", (boot_files.folder / f"{name}.ko").read_bytes())
    for name, content in files.items():
        archive.file(name, content)
    return archive.finish()


def boot(boot_files, initrd, folder, timeout_seconds):
    """Runs the machine until it powers off; returns the lines it wrote to the transcript."""
    if shutil.which(QEMU) is None:
        raise KernelError(f"{QEMU} is not installed; apt-get install qemu-system-x86")
    folder.mkdir(parents=True, exist_ok=True)
    console, transcript, image = folder / "console.log", folder / "transcript.log", folder / "initrd.img"
    image.write_bytes(initrd)
    transcript.write_text("")
    command = [QEMU, "-machine", "q35", "-accel", "tcg", "-cpu", CPU, "-m", str(MEMORY_MIB), "-smp", "1",
               "-nodefaults", "-no-reboot", "-display", "none", "-vga", "none",
               "-device", "virtio-gpu-pci",
               "-serial", f"file:{console}", "-serial", f"file:{transcript}",
               "-kernel", str(boot_files.vmlinuz), "-initrd", str(image),
               "-append", "console=ttyS0 loglevel=4 panic=-1 rdinit=/init"]
    started = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
    try:
        _, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise KernelError(f"the virtual machine did not end within {timeout_seconds} s; its console is {console}") \
            from None
    finally:
        image.unlink(missing_ok=True)
    lines = transcript.read_text(errors="replace").replace("\r", "").splitlines()
    if process.returncode != 0 or END not in lines:
        raise KernelError(f"the virtual machine ended early ({errors.strip() or 'no message'}); "
                          f"its console is {console}, {shlex.join(command)}")
    return lines[:lines.index(END)], time.monotonic() - started
