"""Prints the VRAM in use as sysfs tells."""
import pathlib

print(pathlib.Path("/sys/class/drm/card0/device/mem_info_vram_used").read_text().strip())
print("OK")
