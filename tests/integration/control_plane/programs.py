"""Kubernetes' own servers, built once from Debian's source package, with etcd and kubectl as Debian has them.

Debian packages no server of Kubernetes; its source has them, with all that they are built from. Nothing is installed:
the packages are unpacked beside the build, and what comes out is kept, under the digest of how it is made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from workers import CACHE

from modak_ansible.target.core.site import debian_mirror

# The release whose source is that of Kubernetes 1.20.2; what Debian has of later ones was not tried.
RELEASE, VERSION = "bookworm", "1.20.2"
PACKAGES = ("golang-1.19-go", "golang-1.19-src", "etcd-server", "kubernetes-client")
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ROOM = 5 << 30  # bytes; the source, Go, and what Go keeps between two builds
LONGEST = 3 * 3600  # seconds
# What its own Makefile does: the API's description is generated, the version told to the linker. The tags leave out
# what talks to clouds and to Docker, which is half of it.
BUILD = r"""
set -euo pipefail
cd "$GOPATH/src/k8s.io/kubernetes"
go build -o "$MADE/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
links=$(find vendor/k8s.io/ -maxdepth 1 -type l -printf '%p/\n' | grep -v -e code-generator -e sample-)
packages=$(grep -rl --include='*.go' --exclude-dir=testdata '^// +k8s:openapi-gen=' $links pkg |
    xargs -n 1 dirname | LC_ALL=C sort -u | sed 's,^,k8s.io/kubernetes/,' | paste -sd,)
"$MADE/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$MADE/violations"
told=
for package in component-base/version client-go/pkg/version; do
    for each in gitVersion=v$VERSION gitMajor=1 gitMinor=20 gitTreeState=archive; do
        told+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.$each"
    done
done
for each in $SERVERS; do
    go build -tags providerless,dockerless -ldflags "-s -w$told" -o "$MADE/$each" "./cmd/$each"
done
"""


def programs() -> Path:
    """The folder with the servers, etcd and kubectl, which are built where nobody has done so yet.

    A build that was ended goes on where it was. Whoever comes meanwhile waits.
    """
    recipe = "\n".join([RELEASE, VERSION, *PACKAGES, *SERVERS, BUILD, platform.machine()])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:16]
    made = CACHE / f"control-plane-{digest}"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f".control-plane-{digest}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                _make(made.with_name(f".{made.name}.part"), made)
    return made


def _make(part: Path, made: Path) -> None:
    mirror = debian_mirror()
    if not mirror or not KEYRING.exists():
        pytest.skip("the servers of Kubernetes are built from Debian's source, and apt names no Debian mirror here")
    if shutil.disk_usage(CACHE).free < ROOM:
        pytest.skip(f"building the servers of Kubernetes takes {ROOM >> 30} GiB in {CACHE}")
    root, gopath, out = (part / each for each in ("root", "go", "made"))
    for each in (root, gopath, out):
        each.mkdir(parents=True, exist_ok=True)
    _fetch(part, mirror, root, gopath / "src" / "k8s.io" / "kubernetes")
    go = root / "usr" / "lib" / "go-1.19"
    told = {
        "GOROOT": go, "GOPATH": gopath, "GOCACHE": part / "cache", "GO111MODULE": "off", "CGO_ENABLED": 0, "GOFLAGS": "",
        "HOME": part, "MADE": out, "VERSION": VERSION, "SERVERS": " ".join(SERVERS),
        "PATH": f"{go / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip
    # other tests beside it measure time
    _run(part, "nice", "-n", "19", "bash", "-c", BUILD, **{name: str(value) for name, value in told.items()})
    for each in ("etcd", "kubectl"):
        shutil.copy2(root / "usr" / "bin" / each, out)
    out.rename(made)
    shutil.rmtree(part)


def _fetch(part: Path, mirror: str, root: Path, source: Path) -> None:
    """Debian's packages and the source, by an apt of its own: its keys are the machine's, its lists are not."""
    if source.exists():
        return
    apt = part / "apt"
    for each in ("parts", "lists/partial", "cache/archives/partial"):
        (apt / each).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(
        "".join(f"{kind} [signed-by={KEYRING}] {mirror} {RELEASE} main\n" for kind in ("deb", "deb-src"))
    )
    places = {
        "Etc::SourceList": "sources.list", "Etc::SourceParts": "parts", "Etc::PreferencesParts": "parts",
        "State::Lists": "lists", "Cache": "cache",
    }  # fmt: skip
    options = [f"-oDir::{name}={apt / place}" for name, place in places.items()]
    options += ["-oAPT::Default-Release=", "-oAPT::Sandbox::User=root", "-q"]
    updated = _run(apt, "apt-get", *options, "update", check=False)
    if updated.returncode != 0 or "Failed to fetch" in updated.stdout:
        pytest.skip(f"the Debian mirror of this machine does not serve {RELEASE}: {updated.stdout[-500:]}")
    _run(apt, "apt-get", *options, "download", *PACKAGES)
    for each in apt.glob("*.deb"):
        _run(apt, "dpkg", "--extract", each, root)
    _run(apt, "apt-get", *options, "source", "--download-only", "--tar-only", "kubernetes")
    (archive,) = apt.glob("kubernetes_*.orig.tar.*")
    part_of = source.with_name("part")
    shutil.rmtree(part_of, ignore_errors=True)
    part_of.mkdir(parents=True)
    _run(apt, "tar", "--extract", "--strip-components=1", f"--directory={part_of}", f"--file={archive}")
    part_of.rename(source)


def _run(folder: Path, *command: object, check: bool = True, **told: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(each) for each in command], cwd=folder, env={**os.environ, **told}, text=True, timeout=LONGEST, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert not check or done.returncode == 0, f"{' '.join(map(str, command))[:200]}: {done.stdout[-3000:]}"
    return done
