"""Container images and environments on the target: made once under their digest, whole or absent."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Mapping, TypedDict, cast

from ...errors import ModakError
from ...schedulers.containers import CONTAINER_RUNTIMES
from ..core.background import Activity
from ..core.commands import find_program, full_environment
from ..core.container import (
    check_fakeroot,
    check_signing_key,
    find_runtime,
    public_half,
    sign_image,
    verify_image,
)
from ..core.files import Lock, read_json, sha256_of, tail, write_json, write_whole
from ..core.plan import Layer, PlannedImage
from ..core.seal import is_intact, seal_path, sealed_digest, write_seal
from ..core.site import Site, read_site
from ..core.slots import BUILDS, build_slot
from ..core.workspace import COMPLETE, Workspace, resolved
from .build import MIRROR, build_error, filled, pip_environment
from .inside import look_inside
from .logins import NoImage, Secrets, login_environment, login_for
from .mirror import require_keyring, require_release
from .places import Place
from .probe import (
    NO_OWN_PYTHON,
    PROBE_FAILED,
    ProbeFailed,
    Refusal,
    probe_image,
    raise_verdict,
    read_refusal,
    refusal_error,
    write_refusal,
)
from .registry import NoDigest, by_digest, digest_of_tag
from .runtimes import NEEDED_BYTES, Apptainer, build_folder, room_needed, runtime_of
from .secrets import run_hiding, secret_words
from .site_folder import write_site_folder

_CROWDED = f"waiting to build {{}}: {BUILDS} other builds are running, the most at one time"


class ImageFacts(TypedDict, total=False):
    """Where an image is, and what is known of one that was made: its size in bytes, the seconds that it took."""

    path: str
    given: str  # the SHA-256 of the lowest layer, of an image that was looked into
    # of one that was pulled by a tag: the digest that the registry had for it then, or why nobody knows it
    oci: str
    oci_problem: str
    name: str
    size: int
    sha256: str
    seconds: float
    built: str
    found: str  # where somebody had put it, of one that was not made here


class ImageStore:
    """The images of a workspace.

    Args:
        workspace: where they lie.
        image: the ``image`` of a plan.
        site: the ``site`` of the plan's target.
        secrets: needed to make what is missing.
    """

    _activity = ""  # what the names of its activity's files have behind the digest

    def __init__(
        self,
        workspace: Workspace,
        image: PlannedImage,
        site: Mapping[str, Any],
        secrets: Secrets | None = None,
    ) -> None:
        self._workspace = workspace
        self._image = image
        self._site = site
        self._secrets = secrets or Secrets()
        self._changed: dict[str, bool] = {}
        self._places = list(site.get("image_sources") or ())
        self.activity = Activity(workspace.images, image["digest"] + self._activity)

    def missing(self) -> list[Layer]:
        """The layers that are not there as they were made, from the base upwards, above the highest that is."""
        layers = self._image["layers"]
        return list(itertools.takewhile(lambda layer: not self._is_there(layer), reversed(layers)))[::-1]

    def changed(self) -> list[str]:
        """The files of images that are no longer what they were when they were made, and so are made anew."""
        self.missing()
        return sorted(path for path, is_changed in self._changed.items() if is_changed)

    def check(self) -> None:
        """Tells before a build what would make it fail.

        Raises:
            ModakError: the runtime, the rights or the room that the missing layers need are not there.
        """
        self.check_given()
        kinds = {layer["kind"] for layer in self.missing()}
        if kinds & {"build", "pull"}:
            self._check_room()
            runtime = find_runtime(self._image["container_runtime"])
            if self._key:
                check_signing_key(runtime, self._key)
        if "build" in kinds and not self._places:
            self._check_build()

    def _check_room(self) -> None:
        images, needed = self._workspace.images, room_needed(self._image["layers"])
        # what somebody has put elsewhere is not unpacked
        is_elsewhere = bool(self._places) or build_folder(images, needed) != images
        self._workspace.require_space(NEEDED_BYTES if is_elsewhere else needed, "building an image")

    def _check_build(self) -> None:
        missing = self.missing()
        with_ids = "newuidmap" in CONTAINER_RUNTIMES[self._image["container_runtime"]].tools
        if any(layer["kind"] == "build" and (with_ids or MIRROR in layer["definition"]) for layer in missing):
            check_fakeroot()
        for layer in missing:
            if MIRROR in layer["definition"]:
                self._check_debootstrap(layer)

    def check_given(self, *, keep: bool = False) -> None:
        """Tells whether an image that somebody else put there is the one that is meant.

        Args:
            keep: whether what it is now is kept for the job to compare.

        Raises:
            ModakError: it is not there, has another checksum, or lacks the signature that the site asks for.
        """
        for layer in self._image["layers"]:
            if layer["kind"] == "file":
                self._check_given(layer, keep=keep)

    def refusal(self) -> Refusal | None:
        """What the probe said of the lowest layer that it refused on this processor; None when it refused none."""
        fresh = [layer for layer in self.missing() if layer["kind"] != "file"]
        found = (read_refusal(self._workspace.place(layer["path"])) for layer in fresh)
        return next((refusal for refusal in found if refusal), None)

    def forget_refusals(self) -> None:
        """Has what was refused tried again."""
        for layer in self.missing():
            path = self._workspace.place(layer["path"])
            if layer["kind"] != "file" and read_refusal(path):
                path.with_suffix(".json").unlink()

    def start(self, *, found_only: bool = False) -> bool:
        """Begins to make what is missing; False when that is going on already.

        Args:
            found_only: whether what the site's image_sources have not got is not made, either.
        """
        return self.activity.start(partial(self._make, found_only=found_only))

    def describe(self) -> ImageFacts:
        layer = self._image["layers"][-1]
        path = self._workspace.place(layer["path"])
        known = cast(ImageFacts, {"path": str(path), **(read_json(path.with_suffix(".json")) or {})})
        lowest = read_json(self._workspace.place(self._image["layers"][0]["path"]).with_suffix(".json")) or {}
        known.update(cast(ImageFacts, {name: lowest[name] for name in ("oci", "oci_problem") if name in lowest}))
        if self._image.get("seen") and self._workspace.place(self._image["layers"][0]["path"]).is_file():
            known["given"] = self.given_digest()
        return known

    def look_inside(self) -> dict[str, Any]:
        """What the lowest layer holds, an image of the user's own; see :func:`inside.look_inside`.

        Raises:
            ModakError: it is not there, or no runtime is.
        """
        path = self._workspace.place(self._image["layers"][0]["path"])
        found = look_inside(find_runtime(self._image["container_runtime"]), path, self._image["python"])
        return {**found, "sha256": self.given_digest()}

    def given_digest(self) -> str:
        """The SHA-256 of the lowest layer as it is now."""
        layer = self._image["layers"][0]
        path = self._workspace.place(layer["path"])
        seal = seal_path(self._workspace.images, layer["digest"])
        return sealed_digest(seal) if is_intact(path, seal) else sha256_of(path)

    @property
    def _key(self) -> str:
        return self._site.get("signing_key") or ""

    @property
    def _signer(self) -> Path | None:
        """The public key by which an image that somebody else made must be signed; None where any is taken."""
        if self._site.get("image_signer"):
            return resolved(self._site["image_signer"])
        return public_half(resolved(self._key)) if self._key else None

    def _is_there(self, layer: Layer) -> bool:
        path = self._workspace.place(layer["path"])
        if layer["kind"] == "venv":
            return (path / COMPLETE).exists()
        if layer["kind"] == "file":
            return path.is_file()
        known = read_json(path.with_suffix(".json"))
        if not path.is_file() or known is None or "sha256" not in known:
            return False
        if not self._changed.get(str(path)):  # one that is being made anew is read once
            seal = seal_path(self._workspace.images, layer["digest"])
            self._changed[str(path)] = not is_intact(path, seal, known["sha256"])
        return not self._changed[str(path)]

    def _check_given(self, layer: Layer, *, keep: bool) -> None:
        path = self._workspace.place(layer["path"])
        if not path.is_file():
            raise ModakError(f"the image {path} is not there", hint="give the path of a .sif file on the target")
        seal = seal_path(self._workspace.images, layer["digest"])
        digest = sealed_digest(seal)
        if not digest or not is_intact(path, seal):
            digest = sha256_of(path) if layer["checksum"] or keep else ""
        if layer["checksum"] and digest != layer["checksum"]:
            raise ModakError(f"the image {path} has the SHA-256 {digest}, not {layer['checksum']}")
        if keep:
            self._workspace.create()
            write_seal(seal, path, digest)
        if self._key:
            verify_image(find_runtime(self._image["container_runtime"]), path, public_half(resolved(self._key)))

    def _check_debootstrap(self, layer: Layer) -> None:
        program = "debootstrap" if "Bootstrap: debootstrap" in layer["definition"] else "mmdebstrap"
        if find_program(program) is None:
            hint = f"set the target's image_base to docker, or ask for {program}"
            raise ModakError(f"{program} is not on the target", hint=hint)
        site = read_site(self._site)
        if site.apt_mirror is None:
            raise ModakError(
                "the target's apt names no Debian mirror", hint="give the target's site capability an apt_mirror"
            )
        require_keyring(site.apt_mirror)
        require_release(filled(layer["definition"], apt_mirror=site.apt_mirror), layer["name"], site)

    # --- in the background

    def _make(self, activity: Activity, *, found_only: bool) -> None:
        layers = self._image["layers"]
        first = self._above_found(activity)
        if found_only and first < len(layers):
            told = "; ".join(activity.status().get("told", ()))
            hint = "modak catalogue push puts it there; modak catalogue build makes it here"
            raise ModakError(f"no image of {layers[-1]['name']} is available: {told}", hint=hint)
        if self._site.get("image_sources"):  # else it was asked before
            self._check_build()
        for position, layer in enumerate(layers):
            if position < first or layer["kind"] == "file":
                continue
            below = self._workspace.place(layers[position - 1]["path"]) if position else None
            activity.note(f"waiting for {layer['name']}, which another build is making")
            with Lock(self._workspace.images / f".{layer['digest']}.lock"):
                self._changed.clear()  # another build may have mended it
                if self._is_there(layer):
                    continue
                with build_slot(self._workspace.images, partial(activity.note, _CROWDED.format(layer["name"]))):
                    self._make_or_refuse(layer, below, activity)

    def _above_found(self, activity: Activity) -> int:
        """The position of the lowest layer that must be made, where others had those below or this machine has."""
        layers = self._image["layers"]
        for position in range(len(layers) - 1, -1, -1):
            layer = layers[position]
            with Lock(self._workspace.images / f".{layer['digest']}.lock"):
                self._changed.clear()
                if self._is_there(layer) or (layer["kind"] == "build" and self._find(layer, activity)):
                    return position + 1
        return 0

    def _find(self, layer: Layer, activity: Activity) -> bool:
        """Has a layer from the first place that has it; what keeps one from giving it is told once."""
        for text in list(self._places):
            activity.note(f"looking for {layer['name']} in {text}")
            try:
                self._take(layer, text, activity)
            except (ModakError, ProbeFailed) as error:
                reason = error.message if isinstance(error, ModakError) else f"its probe fails here: {error.reason}"
                if not isinstance(error, NoImage):
                    self._places.remove(text)  # it is not asked for what lies below
                elif layer is not self._image["layers"][-1]:
                    continue
                activity.tell(f"{layer['name']} is not taken from {text}: {reason}")
                continue
            activity.tell(f"{layer['name']} was found in {text}")
            return True
        return False

    def _take(self, layer: Layer, text: str, activity: Activity) -> None:
        began, runtime = time.time(), find_runtime(self._image["container_runtime"])
        with self._scratch(layer) as scratch:
            fresh = scratch / "image.sif"
            self._place(runtime, text, activity).fetch(layer, fresh)
            if self._signer:
                verify_image(runtime, fresh, self._signer)
            activity.note(f"probing {layer['name']}")
            probe_image(runtime, fresh, list(layer.get("probe") or ()))
            self._keep(runtime, layer, fresh, began, activity, ImageFacts(found=text))

    def _place(self, runtime: str, text: str, activity: Activity) -> Place:
        def act(command: list[str], environment: dict[str, str], about: str) -> None:
            self._run(command, activity, environment, about)

        return Place(runtime, text, self._secrets, self._settings().bundle, act)

    @contextmanager
    def _scratch(self, layer: Layer) -> Iterator[Path]:
        """A folder beside the images that nothing but the work within it sees, and that is gone behind it."""
        scratch = self._workspace.images / f".{layer['digest']}.part"
        shutil.rmtree(scratch, ignore_errors=True)  # what a killed build left
        scratch.mkdir(mode=0o700)
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _make_or_refuse(self, layer: Layer, below: Path | None, activity: Activity) -> None:
        """Makes a layer that serves here, or notes that it does not."""
        path = self._workspace.place(layer["path"])
        known = read_refusal(path)  # by a build that was waited for
        if known:
            raise refusal_error(known)
        try:
            self._make_layer(layer, below, activity)
        except ProbeFailed as failure:
            raise refusal_error(write_refusal(path, layer, failure.reason, _now()), activity.log) from failure

    def _make_layer(self, layer: Layer, below: Path | None, activity: Activity) -> None:
        activity.note(f"{'pulling' if layer['kind'] == 'pull' else 'building'} {layer['name']}")
        print(f"--- {layer['name']} ({layer['digest'][:12]})", flush=True)  # noqa: T201 - the log
        began = time.time()
        path = self._workspace.place(layer["path"])
        if layer["kind"] == "venv":
            self._make_environment(layer, path, activity)
            return
        pulled = ImageFacts()
        with self._scratch(layer) as scratch:
            fresh = scratch / "image.sif"
            runtime = find_runtime(self._image["container_runtime"])
            if layer["kind"] == "pull":
                pulled = self._pull(runtime, layer, fresh, activity)
            else:
                self._build(runtime, layer, below, scratch, activity)
            if layer["kind"] == "build" or layer.get("probe"):
                activity.note(f"probing {layer['name']}")
                probe_image(runtime, fresh, list(layer.get("probe") or ()))
            self._keep(runtime, layer, fresh, began, activity, pulled)

    def _keep(
        self, runtime: str, layer: Layer, fresh: Path, began: float, activity: Activity, more: ImageFacts
    ) -> None:
        """Puts an image that serves in its place, sealed, and signed where the site wants that."""
        if self._key:
            activity.note(f"signing {layer['name']}")
            sign_image(runtime, fresh, self._key)
        activity.note(f"checking {layer['name']}")
        self._put(layer, fresh, {**more, "seconds": round(time.time() - began, 1), "built": _now()})

    def _put(self, layer: Layer, fresh: Path, facts: Mapping[str, Any]) -> None:
        path = self._workspace.place(layer["path"])
        fresh.chmod(0o700)
        sha256 = sha256_of(fresh)
        seal = seal_path(self._workspace.images, layer["digest"])
        write_whole(seal, f"{sha256} unknown\n")  # a job that begins meanwhile reads all of the image
        known = {**facts, "name": layer["name"], "size": fresh.stat().st_size, "sha256": sha256}
        write_json(path.with_suffix(".json"), known)
        fresh.replace(path)
        write_seal(seal, path, sha256)
        self._changed.clear()

    def _pull(self, runtime: str, layer: Layer, fresh: Path, activity: Activity) -> ImageFacts:
        """Pulls an image, by the digest that its tag has now where the registry tells it."""
        bundle = self._settings().bundle
        source, known = layer["source"], ImageFacts()
        try:
            digest = digest_of_tag(source, login_for(layer, self._secrets), full_environment(), bundle)
            source, known = (by_digest(source, digest), ImageFacts(oci=digest)) if digest else (source, known)
        except NoDigest as problem:  # pulling says more, or goes another way
            known["oci_problem"] = str(problem)
        made = runtime_of(runtime)
        environment = self._environment(made, layer, fresh.parent, bundle)
        self._run(made.pull(source, fresh, layer["digest"]), activity, environment)
        if layer["checksum"] and sha256_of(fresh) != layer["checksum"]:
            raise ModakError(
                f"{layer['source']} has the SHA-256 {sha256_of(fresh)}, not {layer['checksum']}",
                hint="an image of docker:// is assembled anew at each pull; name its digest there: @sha256:...",
            )
        return known

    def _build(self, runtime: str, layer: Layer, below: Path | None, scratch: Path, activity: Activity) -> None:
        settings = self._settings()
        binds = write_site_folder(settings, scratch / "site")
        definition = filled(
            layer["definition"],
            base=runtime_of(runtime).below(below) if below else "",
            apt_mirror=(settings.apt_mirror if MIRROR in layer["definition"] else None) or "",
            definition_digest=layer["digest"],
            build_date=_now(),
        )
        made = runtime_of(runtime)
        command = made.build(definition, scratch / "image.sif", layer["digest"], binds)
        self._run(command, activity, self._environment(made, layer, scratch, settings.bundle))

    def _environment(self, made: Apptainer, layer: Layer, scratch: Path, bundle: str | None) -> dict[str, str]:
        """What a build or a pull is told besides what every program here is."""
        certificates = {"SSL_CERT_FILE": bundle} if bundle else {}
        its_own = made.build_environment(scratch, room_needed(self._image["layers"]))
        return {**its_own, **certificates, **login_environment(layer, self._secrets)}

    def _make_environment(self, layer: Layer, path: Path, activity: Activity) -> None:
        shutil.rmtree(path, ignore_errors=True)
        script = path.with_suffix(".sh")
        write_whole(script, layer["definition"])
        try:
            environment = {**pip_environment(self._settings()), **NO_OWN_PYTHON}
            self._run(["sh", str(script), str(path)], activity, environment)
            write_whole(path / COMPLETE, _now())
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def _settings(self) -> Site:
        """The site's settings, with the addresses that hold tokens in place of the same settings without."""
        settings = read_site(self._site)
        settings.pip.update(self._secrets.get("pip") or {})
        return settings

    def _run(self, command: list[str], activity: Activity, environment: dict[str, str], about: str = "") -> None:
        """Runs a long command with its output in the log, and no secret in it; an error may be about an address."""
        environment = {**full_environment(), **environment}
        words = secret_words(self._secrets)
        if words:
            code = run_hiding(command, environment, words)
        else:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, env=environment, close_fds=False, check=False
            ).returncode
        if code == PROBE_FAILED and command[0] == "sh":
            raise_verdict(code, tail(activity.log, 60))
        if code != 0:
            raise build_error(activity, code, about)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
