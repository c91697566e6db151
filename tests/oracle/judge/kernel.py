"""Debian's kernel packages, and the boot files made of them."""

import fnmatch
import lzma
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# What the virtual machine loads, in this order: virtio-gpu becomes the first DRM device and vgem the second.
MODULES = ("virtio_pci", "virtio_gpu", "vgem", "amdgpu", "fuse", "cuse")

# Of the package debian-archive-keyring; a host without it trusts its own apt keys.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class KernelError(Exception):
    """A package or tool is missing, or a package does not hold what a kernel package holds."""


def run(command, **options):
    try:
        return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout
    except FileNotFoundError:
        raise KernelError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise KernelError(f"{' '.join(map(str, command))}: {error.stderr.strip() or error.stdout.strip()}") from None


class Apt:
    """apt for one suite, without touching the host's lists when the suite is not the host's own."""

    def __init__(self, cache, suite):
        self.options = ["-o", "APT::Sandbox::User="]
        if not suite:
            return
        state = cache / "apt" / suite
        for folder in ("lists/partial", "cache/archives/partial"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        sources = state / "sources.list"
        sources.write_text(f"deb {signed}{self._archive()} {suite} main\n")
        self.options += ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
                         "-o", f"Dir::State::lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]
        run(["apt-get", *self.options, "update"])

    @staticmethod
    def _archive():
        """Where the host gets Debian's main packages from."""
        targets = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(COMPONENT)|$(SUITE)|$(REPO_URI)",
                       "Created-By: Packages"])
        for line in targets.splitlines():
            origin, component, suite, uri = line.split("|")
            if origin == "Debian" and component == "main" and "security" not in suite:
                return uri
        raise KernelError("apt knows no Debian archive; run apt-get update first")

    def resolve(self, kernel):
        """The concrete package names behind the kernel's meta packages."""
        names = []
        queue = list(kernel["packages"])
        seen = set()
        while queue:
            package = queue.pop()
            if package in seen:
                continue
            seen.add(package)
            for word in re.findall(r"\bDepends: (\S+)", run(["apt-cache", *self.options, "depends", "--no-recommends",
                                                              "--no-suggests", package])):
                if any(fnmatch.fnmatch(word, want) for want in kernel["wants"]):
                    names.append(word)
                if word.startswith("linux-"):
                    queue.append(word)
        missing = [want for want in kernel["wants"] if not fnmatch.filter(names, want)]
        if missing:
            raise KernelError(f"no package {', '.join(missing)} behind {', '.join(kernel['packages'])} "
                              "(run apt-get update?)")
        return sorted(set(names))

    def download(self, packages, folder):
        run(["apt-get", *self.options, "download", *packages], cwd=folder)
        return sorted(folder.glob("*.deb"))


def fetch(kernel, cache):
    """The .deb files of a row of kernels.toml, from the cache if they are there."""
    folder = cache / "debs" / kernel["name"]
    found = sorted(folder.glob("*.deb")) if folder.is_dir() else []
    if found:
        return found
    folder.parent.mkdir(parents=True, exist_ok=True)
    apt = Apt(cache, kernel.get("suite"))
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        apt.download(apt.resolve(kernel), Path(scratch))
        folder.mkdir(exist_ok=True)
        for deb in Path(scratch).glob("*.deb"):
            shutil.move(deb, folder / deb.name)
    return sorted(folder.glob("*.deb"))


def package_version(deb):
    return run(["dpkg-deb", "--field", str(deb), "Package", "Version"])


class BootFiles:
    """vmlinuz and the modules of MODULES with what they need, in loading order, unpacked to one folder."""

    def __init__(self, debs, folder):
        self.folder = folder
        self.vmlinuz = folder / "vmlinuz"
        self.order_file = folder / "modules.order"
        if not self.order_file.exists():
            self._unpack(debs)
        self.modules = self.order_file.read_text().split()

    def _unpack(self, debs):
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as scratch:
            for deb in debs:
                run(["dpkg-deb", "-x", str(deb), scratch])
            root = Path(scratch)
            images = [path for path in [*root.rglob("vmlinuz*")] if path.is_file()]
            if not images:
                raise KernelError(f"no kernel image in {', '.join(deb.name for deb in debs)}")
            shutil.copy(images[0], self.vmlinuz)
            order = []
            available = {module_name(path): path for path in root.rglob("*.ko*")}
            for name in MODULES:
                self._add(name, available, order)
            self.order_file.write_text("\n".join(order) + "\n")

    def _add(self, name, available, order):
        path = available.get(name)
        if path is None or name in order:
            return  # built into the kernel, or there already
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        elif path.suffix != ".ko":
            raise KernelError(f"{path.name}: only plain and xz modules can be unpacked")
        for needed in module_dependencies(data):
            self._add(needed, available, order)
        (self.folder / f"{name}.ko").write_bytes(data)
        order.append(name)


def module_name(path):
    return path.name.split(".ko")[0].replace("-", "_")


def module_dependencies(data):
    """From the module's own modinfo section; Debian's packages hold no modules.dep."""
    match = re.search(rb"(?:^|\0)depends=([^\0]*)\0", data)
    return [name.replace("-", "_") for name in match[1].decode().split(",") if name] if match else []
