"""Recording: boots the kernel, runs every sequence there, and stores or verifies the golden files."""

import json
import os
from pathlib import Path

from . import kernel, vm
from .kernel import KernelError
from .suite import ROOT

BOOT_TIMEOUT_S = 280
COMPILER = ("c++", "-std=c++20", "-O1", "-static", "-s")


def build_static_probe(cache):
    sources = sorted((ROOT / "probe").glob("*.cpp"))
    headers = sorted((ROOT / "probe").glob("*.h"))
    probe = cache / "oracle_probe"
    newest = max(path.stat().st_mtime for path in [*sources, *headers])
    if not probe.exists() or probe.stat().st_mtime < newest:
        cache.mkdir(parents=True, exist_ok=True)
        kernel.run([*COMPILER, "-o", str(probe), *map(str, sources)])
    return probe.read_bytes()


def kernel_version(release):
    """(6, 1) of "6.1.0-57-amd64"."""
    return tuple(int(part) for part in release.split(".")[:2])


def programs(suite, version):
    """{class: program text} for the kernel."""
    result = {}
    for name, node_class in suite.classes.items():
        lines = []
        for file, sequence in suite.sequences(name, version):
            lines += suite.compile(file, sequence, node_class.kernel).lines
        if lines:
            result[name] = "\n".join(lines) + "\n"
    return result


def run_script(suite, class_names):
    lines = ['echo "{\\"release\\":\\"$(uname -r)\\",\\"version\\":\\"$(uname -v)\\"}" >&3']
    for name in class_names:
        nodes = " ".join(f"--node {node}={path}" for node, path in suite.classes[name].kernel.nodes.items())
        lines += [f'echo "oracle: class {name}" >&3', f"/probe --timeout 60 {nodes} /programs/{name} >&3"]
    lines += [f'echo "{vm.END}" >&3', "sleep 1"]
    return "\n".join(lines) + "\n"


def transcripts(suite, debs, cache, name):
    """(release line, {class: [line]}) of one boot."""
    boot_files = kernel.BootFiles(debs, cache / "boot" / "-".join(sorted(deb.stem for deb in debs))[:120])
    version = kernel_version(module_release(debs))
    compiled = programs(suite, version)
    files = {"probe": build_static_probe(cache)}
    files.update({f"programs/{class_name}": text.encode() for class_name, text in compiled.items()})
    initrd = vm.initramfs(boot_files, files, run_script(suite, compiled))
    lines, seconds = vm.boot(boot_files, initrd, cache / "vm" / name, BOOT_TIMEOUT_S)
    release, found, current = None, {}, None
    for line in lines:
        if line.startswith("oracle: class "):
            current = found.setdefault(line.split()[-1], [])
        elif line.startswith("oracle: "):
            raise KernelError(line)
        elif release is None:
            release = json.loads(line)
        else:
            current.append(line)
    return release, found, seconds


def module_release(debs):
    for deb in debs:
        for word in kernel.run(["dpkg-deb", "--field", str(deb), "Package"]).split():
            for prefix in ("linux-image-", "linux-binary-", "linux-modules-"):
                if word.startswith(prefix):
                    return word.removeprefix(prefix)
    raise KernelError(f"{debs[0].name} is not a kernel image package")


def golden_files(suite, name, release, found):
    """{path: text} of what a recording stores."""
    folder = suite.golden / name
    files = {folder / "kernel.json": json.dumps({"kernel": name, **release}, indent=2) + "\n"}
    for class_name, lines in found.items():
        texts = {}
        for line in lines:
            file_name = json.loads(line)["sequence"].partition("/")[0]
            texts.setdefault(file_name, []).append(line)
        for file_name, text in texts.items():
            files[folder / class_name / f"{file_name}.jsonl"] = "\n".join(text) + "\n"
    return files


def write(suite, name, files):
    folder = suite.golden / name
    for old in folder.rglob("*.json*") if folder.is_dir() else []:
        if old not in files:
            old.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def changes(files, folder):
    """Names of files that differ from what is stored, for --verify."""
    differing = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale = [path for path in Path(folder).rglob("*.json*") if path not in files]
    return sorted(map(str, differing + stale))


def default_cache():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "understudy-oracle"
