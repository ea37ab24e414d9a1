"""modak catalogue: which builds of which frameworks are known, what they are made of, and do they work there?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.commands.options import NOTHING_ASKED, Json, On, PlanOptions, check_place, group, print_json, takes
from modak_ansible.errors import FAILED, UsageError, nearest
from modak_ansible.store.project import find_blueprint, state_folder

if TYPE_CHECKING:
    from modak_ansible.commands.catalogue.publishing import Published, Publisher

app = group("catalogue", "The framework builds that the planner knows. Without a command, lists them.")

Framework = Annotated[str | None, typer.Option(help="Only builds of this framework.")]
EntryName = Annotated[
    str,
    typer.Argument(metavar="ENTRY", help="An entry, as modak catalogue lists it.", autocompletion=completing.entries),
]

TargetOf = Annotated[
    str, typer.Option("--blueprint", "-b", metavar="BLUEPRINT", help="Use the target of its first training.")
]
Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="oras://HOST/REPOSITORY, docker:// for Podman's images, a folder on the target, or the folder of "
        "another workspace there.",
    ),
]
Packages = Annotated[
    bool,
    typer.Option(
        "--packages", help="Include the packages that the blueprint's first training asks for, as a layer on top."
    ),
]
_LIKE = "mnist-pytorch-slurm"


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, framework: Framework = None, as_json: Json = False) -> None:
    """The framework builds that the planner knows. Without a command, lists them."""
    check_place(context)
    if context.invoked_subcommand is None:
        list_entries(framework, as_json)


@app.command("list", epilog="Example: modak catalogue list --framework pytorch")
def list_entries(framework: Framework = None, as_json: Json = False) -> None:
    """List the entries, and what this project knows about them: built, refused by their probe, never tried."""
    from modak_ansible.catalogue import load_catalogue
    from modak_ansible.commands.catalogue.text import entry_rows, print_rows

    entries = load_catalogue().entries
    frameworks = {entry.framework for entry in entries}
    if framework is not None and framework not in frameworks:
        raise UsageError(f"the catalogue has no {framework}", hint=nearest(framework, frameworks))
    chosen = [entry for entry in entries if framework in (None, entry.framework)]
    rows = entry_rows(chosen, state_folder(Path.cwd()))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows)


@app.command(epilog="Example: modak catalogue show pytorch-2.13-cpu --architecture zen5 --definition")
def show(
    entry: EntryName,
    architecture: Annotated[str, typer.Option(help="The archspec name of the processor to build for.")] = "x86_64",
    definition: Annotated[bool, typer.Option("--definition", help="Show the definition files of its image.")] = False,
    dockerfile: Annotated[bool, typer.Option("--dockerfile", help="Show a Dockerfile.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an entry is made of, where it comes from, and how it is probed."""
    from modak_ansible.catalogue import load_catalogue
    from modak_ansible.commands.catalogue.text import definitions_of, dockerfile_of, text_of

    catalogue_entry = load_catalogue().entry(entry)
    texts = dict(definitions_of(catalogue_entry, architecture)) if definition else {}
    docker = dockerfile_of(catalogue_entry, architecture) if dockerfile else ""
    if as_json:
        extra = {**({"definitions": texts} if definition else {}), **({"dockerfile": docker} if dockerfile else {})}
        print_json({**catalogue_entry.model_dump(mode="json"), "digest": catalogue_entry.digest, **extra})
    elif definition or dockerfile:
        typer.echo("\n".join([*(f"# {name}\n\n{text}" for name, text in texts.items()), docker]).strip("\n"))
    else:
        typer.echo(text_of(catalogue_entry))


@app.command(epilog="Example: modak catalogue add tensorflow==2.18.1")
def add(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="FRAMEWORK==VERSION from the package index; an image, given as docker://..., oras://..., "
        "library://... or a path on the target; or the YAML file of an entry.",
        ),
    ],
    name: Annotated[str, typer.Option(help="A name for the entry. Default: derived from what it is.")] = "",
    like: Annotated[
        str,
        typer.Option(
            metavar="ENTRY", help="The entry to model it on.", autocompletion=completing.entries,
        ),
    ] = "",
    framework: Annotated[str, typer.Option(help="For an image: the framework to treat it as.")] = "",
    python: Annotated[str, typer.Option(metavar="PATH", help="For an image: its Python interpreter.")] = "python3",
    on: On = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an entry of yours.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the entry without writing it; an image is inspected all "
        "the same.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Add an entry of your own, which plans use like the shipped ones.

    uv and pip resolve what it installs, and it is locked with hashes. An image is inspected on the target that --on
    names; anything else is built and probed there at once or, without --on, with the first deployment.
    """
    from rich.console import Console

    from modak_ansible.commands.catalogue.add import AddOptions, add_entry

    asked = AddOptions(what, name, like, framework, python, on, replace, dry_run)
    added = add_entry(asked, Console(stderr=True, highlight=False))
    if as_json:
        print_json(added.as_json())
    else:
        typer.echo(added.text())
    if added.built and added.built.outcome not in ("built", "there"):
        raise typer.Exit(FAILED)


@app.command(epilog="Example: modak catalogue remove tensorflow-2.18-cpu")
def remove(
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", autocompletion=completing.added_entries, help="An entry that you added.")
    ],
) -> None:
    """Remove one of your entries; images that were built from it stay on their targets."""
    from modak_ansible.catalogue.own import remove_entry

    typer.echo(f"removed {remove_entry(entry)}")


@app.command(epilog="Example: modak catalogue build pytorch-2.13-cpu-opt mxnet-1.6-pip -i site.yaml")
@takes("inputs", "value", "on")
def build(
    entries: Annotated[
        list[str],
        typer.Argument(
            metavar="ENTRY...", help="Entries, as modak catalogue lists them.", autocompletion=completing.entries
        ),
    ],
    blueprint: TargetOf = _LIKE,
    asked: PlanOptions = NOTHING_ASKED,
    packages: Packages = False,
    again: Annotated[bool, typer.Option("--again", help="Retry an entry that its probe refused before.")] = False,
    allow_refused: Annotated[
        bool, typer.Option("--allow-refused", help="Do not count it as a failure if a probe refuses its build.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build entries on a target and probe them there, one after another; nothing is trained.

    An entry that fails or is refused by its probe does not stop the others. Deployments use the same images. Ctrl-C
    leaves the current build running on the target; the same command joins it. Exit code 1 means that at least one is
    missing.
    """
    from rich.console import Console

    from modak_ansible.catalogue import load_catalogue
    from modak_ansible.commands.catalogue.build import Builder, print_summary

    catalogue_entries = [load_catalogue().entry(name) for name in dict.fromkeys(entries)]
    console = Console(stderr=as_json, highlight=False)
    builder = Builder(find_blueprint(blueprint), asked.all_inputs, console, again=again, packages=packages)
    try:
        builder.build(catalogue_entries)
    finally:
        print_summary(console, builder.results)
        if as_json:
            print_json([result.as_json() for result in builder.results])
    good = ("built", "there", *(["refused"] if allow_refused else []))
    if any(result.outcome not in good for result in builder.results):
        raise typer.Exit(FAILED)


@app.command(epilog="Example: modak catalogue push pytorch-2.13-cpu oras://registry.example/team/images --on mycluster")
@takes("inputs", "value", "on")
def push(
    entry: EntryName,
    place: Place,
    blueprint: TargetOf = _LIKE,
    asked: PlanOptions = NOTHING_ASKED,
    packages: Packages = False,
    as_json: Json = False,
) -> None:
    """Push a target's image of an entry, so that others need not build it.

    Its tags are the digest of what it is made from, by which the image_sources of a site find it, and, for people,
    framework, version, processor and accelerator; with --packages only the first. A login is taken from MODAK_REGISTRY
    and the like, as for pulls.
    """
    _show(_publisher(entry, blueprint, asked, packages=packages).push(place), as_json)


@app.command(epilog="Example: modak catalogue pull pytorch-2.13-cpu oras://registry.example/team/images --on mycluster")
@takes("inputs", "value", "on")
def pull(
    entry: EntryName,
    place: Place,
    blueprint: TargetOf = _LIKE,
    asked: PlanOptions = NOTHING_ASKED,
    as_json: Json = False,
) -> None:
    """Pull an entry's image, which somebody pushed, to a target; nothing is built.

    It must be made from what the entry is made from on that target, work on its processor, and be signed by the signer
    that its site names, if it names one.
    """
    _show(_publisher(entry, blueprint, asked).pull(place), as_json)


@app.command(epilog="Example: modak catalogue sign pytorch-2.13-cpu --key ~/keys/images.pem --on mycluster")
@takes("inputs", "value", "on")
def sign(
    entry: EntryName,
    key: Annotated[
        str, typer.Option(metavar="PATH", help="A private PEM key on the target. Default: that of its site.")
    ] = "",
    blueprint: TargetOf = _LIKE,
    asked: PlanOptions = NOTHING_ASKED,
    as_json: Json = False,
) -> None:
    """Sign a target's image of an entry, before it is pushed."""
    _show(_publisher(entry, blueprint, asked).sign(key), as_json)


@app.command(epilog="Example: modak catalogue verify pytorch-2.13-cpu --key ~/keys/images.pem.pub --on mycluster")
@takes("inputs", "value", "on")
def verify(
    entry: EntryName,
    key: Annotated[
        str, typer.Option(metavar="PATH", help="A public PEM key on the target. Default: that of its site.")
    ] = "",
    blueprint: TargetOf = _LIKE,
    asked: PlanOptions = NOTHING_ASKED,
    as_json: Json = False,
) -> None:
    """Check whether a target's image of an entry is made from what it should be, and who signed it."""
    _show(_publisher(entry, blueprint, asked).verify(key), as_json)


def _publisher(entry: str, blueprint: str, asked: PlanOptions, *, packages: bool = False) -> Publisher:
    from rich.console import Console

    from modak_ansible.commands.catalogue.publishing import Publisher

    return Publisher(entry, blueprint, asked, Console(stderr=True, highlight=False), packages=packages)


def _show(answer: Published, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        typer.echo("\n".join([answer["message"], *(f"  {name}" for name in answer["names"])]))
