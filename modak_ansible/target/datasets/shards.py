"""Many files as a few tar shards in webdataset's form, for scripts that read it.

A sample is the files of one name, whatever their endings. Samples are put in the order of their names' digests, so that
the classes of a folder are mixed; the same files make the same shards, byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from ...errors import ModakError
from ..core.files import write_whole
from .names import SHARD_ENDING, key_of

# As wids knows it, too: which shards there are, with their samples and bytes.
INDEX = "index.json"
# About so many shards are made, for as many readers, of no fewer and no more bytes than these.
_COUNT, _SMALLEST, _LARGEST = 64, 10**6, 10**9


def make_shards(folder: Path, names: Sequence[str], output: Path, note: Callable[[str], None] = lambda _: None) -> None:
    """Writes shards of a folder's files, and their index.

    Args:
        output: a folder for the shards, which is there and empty.

    Raises:
        ModakError: a file is part of no sample.
        OSError: such as a full disk.
    """
    samples: Dict[str, List[str]] = {}
    for name in sorted(names):
        key = key_of(name)
        if not key:
            raise ModakError(
                f"{name} has no extension, and readers of the format webdataset skip such files",
                hint="rename it or leave it out; pack: squashfs keeps files as they are",
            )
        samples.setdefault(key, []).append(name)
    sizes = {name: (folder / name).stat().st_size for name in names}
    limit = min(max(sum(sizes.values()) // _COUNT, _SMALLEST), _LARGEST)
    shards: List[List[str]] = []
    shard_size = limit
    for key in sorted(samples, key=lambda sample: hashlib.sha256(sample.encode()).digest()):
        if shard_size >= limit:
            shards.append([])
            shard_size = 0
        shards[-1].append(key)
        shard_size += sum(sizes[name] for name in samples[key])
    entries = []
    for number, keys in enumerate(shards):
        note(f"packing {len(samples)} samples, shard {number + 1} of {len(shards)}")
        path = output / f"{number:06}{SHARD_ENDING}"
        _write(folder, [name for key in keys for name in samples[key]], path)
        entries.append({"url": path.name, "nsamples": len(keys), "filesize": path.stat().st_size})
    index = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": entries}
    write_whole(output / INDEX, json.dumps(index, indent=1) + "\n")


def _write(folder: Path, names: List[str], path: Path) -> None:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o444, (folder / name).stat().st_size
            with (folder / name).open("rb") as file:
                tar.addfile(member, file)
