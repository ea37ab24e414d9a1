"""The energy that a node says it used while this process ran: Linux's RAPL counters, and those of NVIDIA's GPUs.

RAPL: /sys/class/powercap, as the kernel documents it; since 2020 most systems let root alone read it, and then nothing
is said. GPUs: nvmlDeviceGetTotalEnergyConsumption of NVIDIA's NVML, from Volta on. Both count for whoever works there.
"""

import os
import time

from modak_runtime.free_memory import number_in

POWERCAP = "/sys/class/powercap"
_ZONE = "intel-rapl:"  # how names begin, of AMD's processors, too; intel-rapl-mmio: has the same counters once more
_MOST_WATTS = 1000.0  # of a package: a counter that this could have carried round once more tells nothing


class Energy:
    """The counters that can be read, from the making on.

    Args:
        powercap: the kernel's folder; POWERCAP where it is not given.
    """

    def __init__(self, powercap=None):
        self._began = self._looked = time.monotonic()
        self._zones = dict(_zones(powercap or POWERCAP))
        self._before = {name: number_in(path) for name, (path, _) in self._zones.items()}
        self._joules = dict.fromkeys(self._zones, 0.0)
        self._nvml, self._gpus = None, {}

    def count_gpus(self, library=None, visible=None):
        """Has those GPUs count, too, that this process is given; from now on, for NVML is slow to begin.

        Args:
            library: NVML, which is looked for where it is not given.
            visible: as CUDA_VISIBLE_DEVICES, whose value it is elsewhere.
        """
        if self._nvml is None:
            self._nvml = Nvml(library, os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible)
            self._gpus = self._nvml.joules()

    def as_dict(self):
        """Joules by counter, and the seconds of them; None where nothing counts, or it cannot be told what."""
        self._look()
        now = self._nvml.joules() if self._gpus else {}
        gpus = {name: round(now[name] - before, 3) for name, before in self._gpus.items() if name in now}
        joules = {**{name: round(value, 3) for name, value in self._joules.items()}, **gpus}
        return {"joules": joules, "seconds": round(time.monotonic() - self._began, 3)} if joules else None

    def _look(self):
        now = time.monotonic()
        pause, self._looked = now - self._looked, now
        for name, (path, size) in list(self._zones.items()):
            value, before = number_in(path), self._before[name]
            if value is None or size <= pause * _MOST_WATTS * 1e6:
                self._zones, self._joules = {}, {}  # a part of a node is no number of it
                return
            self._joules[name] += ((value - before) % (size + 1)) / 1e6
            self._before[name] = value


def _zones(powercap):
    """Packages, and the memory where it counts by itself: name, and file and largest value of the counter in uJ."""
    try:
        zones = sorted(name for name in os.listdir(powercap) if name.startswith(_ZONE))
    except OSError:
        return
    for zone in zones:
        folder = os.path.join(powercap, zone)
        try:
            with open(os.path.join(folder, "name")) as file:
                name = file.read().strip()
        except OSError:
            continue
        size, path = number_in(os.path.join(folder, "max_energy_range_uj")), os.path.join(folder, "energy_uj")
        if (name.startswith("package") or name == "dram") and size and number_in(path) is not None:
            yield "%s %s" % (zone, name), (path, size)


class Nvml:
    """NVIDIA's library of a driver; nothing counts where it is not there, or refuses.

    Args:
        library: as ctypes loads it; None to look for it.
        visible: numbers, in NVML's order, or beginnings of names (GPU-...) with commas between; None for all.
    """

    def __init__(self, library=None, visible=None):
        self._handles = {}
        try:
            import ctypes

            self._ctypes = ctypes
            self._library = ctypes.CDLL("libnvidia-ml.so.1") if library is None else library
            if self._library.nvmlInit_v2() == 0:
                self._handles = dict(
                    self._visible_handles(None if visible is None else [*map(str.strip, visible.split(","))])
                )
        except (ImportError, OSError, AttributeError):  # there is none, or an old one
            return

    def joules(self):
        """What each GPU has used since its driver was loaded, by its name; those that do not count are left out."""
        joules = {}
        for name, handle in self._handles.items():
            value = self._ctypes.c_ulonglong()
            if self._library.nvmlDeviceGetTotalEnergyConsumption(handle, self._ctypes.byref(value)) == 0:
                joules[name] = value.value / 1e3
        return joules

    def _visible_handles(self, visible):
        number = self._ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(self._ctypes.byref(number)) != 0:
            return
        for index in range(number.value):
            handle, name = self._ctypes.c_void_p(), self._ctypes.create_string_buffer(96)
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, self._ctypes.byref(handle)) != 0:
                continue
            if self._library.nvmlDeviceGetUUID(handle, name, len(name)) != 0:
                continue
            uuid = name.value.decode()
            if visible is None or any(
                selector == str(index) or (selector and uuid.startswith(selector)) for selector in visible
            ):
                yield uuid, handle
