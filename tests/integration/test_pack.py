"""Many files as one image: packed on the testbed once, mounted in the job, shared, and removed by nobody who needs it."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import zlib

import pytest

pytestmark = pytest.mark.testbed

# Reads everything in another order each epoch, as a training does, and says what it found.
READS = """\
import hashlib, json, os, random, sys
folder = os.environ["MODAK_DATASET"]
paths = [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names]
digests = {}
for epoch in range(2):
    random.shuffle(paths)
    for path in paths:
        with open(path, "rb") as file:
            digests[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
try:
    open(os.path.join(folder, "new"), "w")
    writable = True
except OSError:
    writable = False
with open("/proc/self/mounts") as mounts:
    kind = [line.split()[2] for line in mounts if line.split()[1] == folder]
everything = hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()
looked = sorted(os.listdir(sys.argv[sys.argv.index("--look") + 1])) if "--look" in sys.argv else []
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"files": len(paths), "digest": everything, "writable": writable, "mounted": kind, "looked": looked}, file)
"""


def draw(folder, count, least=100, most=3000):
    """Writes so many files in folders of a hundred; gives a digest of all."""
    digests, source = {}, random.Random(7)
    for number in range(count):
        path = folder / f"class-{number // 100:03}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = source.randbytes(source.randint(least, most))
        path.write_bytes(content)
        digests[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()


def metrics(project):
    return json.loads(next(project.path.glob(".modak/deployments/*/results/metrics.json")).read_text())


def lies_there(project):
    path = project.plan()["dataset"]["path"]
    return project.testbed.ssh(f"cd modak/datasets && ls -d {path.split('/')[1]}* 2> /dev/null || true").split()


def test_a_folder_of_files_is_read_from_one_image(project, tmp_path):
    digest = draw(tmp_path / "photos", 300)
    project.script(READS)
    project.dataset = {
        "name": "photos", "source": [str(tmp_path / "photos")], "pack": "squashfs", "mount_as": "data/photos",
    }  # fmt: skip
    project.training["arguments"] = {"look": "data/photos"}
    done = project.deploy("--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = metrics(project)
    assert (found["files"], found["digest"], found["writable"]) == (300, digest, False)
    assert found["mounted"] == ["fuse.squashfuse_ll"]
    assert found["looked"] == ["class-000", "class-001", "class-002"]
    name = project.plan()["dataset"]["path"].split("/")[1]
    assert f"{name}.sqsh" in lies_there(project)
    assert project.testbed.ssh(f"find modak/datasets/{name} -type f | wc -l").strip() == "0"  # it stands for the folder
    project.training["arguments"] = {"look": "data/photos", "again": 1}
    again = project.deploy("--json")
    assert json.loads(again.stdout)["stages"]["dataset"]["changed"] is False, again.stdout


# A few layers that tell two colours apart, trained on PNG files that are read one by one in shuffled order.
TRAINS = """\
import json, os, struct, zlib
from pathlib import Path
import numpy as np
import torch

class Images(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).rglob("*.png"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        path = self.files[number]
        data, place, packed = path.read_bytes(), 8, b""
        while place < len(data):
            size, kind = struct.unpack_from(">I4s", data, place)
            packed += data[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
            place += 12 + size
        pixels = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(16, 49)[:, 1:].reshape(16, 16, 3)
        return torch.from_numpy(pixels.astype(np.float32) / 255 - 0.5).permute(2, 0, 1), int(path.parent.parent.name)

images = Images(os.environ["MODAK_DATASET"])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(784, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
right = 0
for epoch in range(2):
    right = 0
    for pixels, labels in torch.utils.data.DataLoader(images, batch_size=100, shuffle=True):
        scores = model(pixels)
        right += int((scores.argmax(1) == labels).sum())
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with open("/proc/self/mounts") as mounts:
    mounted = [line.split()[2] for line in mounts if line.split()[1] == os.environ["MODAK_DATASET"]]
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"files": len(images), "accuracy": right / len(images), "mounted": mounted}, file)
"""


def draw_images(folder, count):
    """Writes PNG files of 16 by 16 pixels, noise with more red in class 0 and more blue in class 1."""
    source = random.Random(5)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for number in range(count):
        label = number % 2
        path = folder / str(label) / f"{number // 500:02}" / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = bytearray(source.randbytes(16 * 16 * 3))
        noise[2 * label :: 3] = bytes(100 + each // 2 for each in noise[2 * label :: 3])
        rows = b"".join(b"\0" + noise[48 * row : 48 * row + 48] for row in range(16))
        head = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
        parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)


@pytest.mark.thorough
def test_twenty_thousand_images_are_packed_by_the_plans_own_choice_and_trained_on(project, tmp_path):
    draw_images(tmp_path / "photos", 20000)
    project.script(TRAINS)
    project.dataset = {"name": "photos", "source": [str(tmp_path / "photos")]}
    project.target["capabilities"]["home"] = {
        # not this testbed's: a parallel file system's that is busy
        "properties": {"path": "~", "read_bandwidth": 800.0, "write_bandwidth": 500.0, "file_rate": 250.0}
    }
    project.target["capabilities"].pop("scratch", None)
    project.training["arguments"] = {"epochs": 2}
    done = project.deploy("--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = metrics(project)
    assert (found["files"], found["mounted"]) == (20000, ["fuse.squashfuse_ll"])
    assert found["accuracy"] > 0.95
    choice = next(choice for choice in project.plan()["choices"] if choice["name"] == "pack")
    assert choice["value"] == "squashfs"
    assert "20,000 files take 1 min 20 s an epoch as they are" in choice["reason"]
