"""Writes the newc archives the kernel takes as initramfs: no root and no cpio program needed."""

import stat


class Archive:
    def __init__(self):
        self.data = bytearray()
        self.inode = 0
        self.folders = set()

    def _entry(self, name, mode, content, device=(0, 0)):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08x" % value for value in fields) + encoded
        self._pad()
        self.data += content
        self._pad()

    def _pad(self):
        self.data += b"\0" * (-len(self.data) % 4)

    def folder(self, name):
        """Makes the folder and those it lies in."""
        parts = name.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if path and path not in self.folders:
                self.folders.add(path)
                self._entry(path, stat.S_IFDIR | 0o755, b"")

    def file(self, name, content, mode=0o755):
        name = name.strip("/")
        if "/" in name:
            self.folder(name.rpartition("/")[0])
        self._entry(name, stat.S_IFREG | mode, content)

    def link(self, name, target):
        self._entry(name.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, name, major, minor):
        self._entry(name.strip("/"), stat.S_IFCHR | 0o600, b"", (major, minor))

    def finish(self):
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self.data)
