"""What was found in an image of the user's own, by looking into it on its target."""

from pydantic import Field

from modak_ansible.model.base import Model


class SeenImage(Model):
    """One image as it was on a target; another content is looked into anew."""

    source: str = Field(description="as the user names it")
    address: str = Field(description="the target's")
    python: str = Field(description="the interpreter that was asked")
    sha256: str = Field(description="of the image file")
    oci: str = Field(default="", description="the digest that the registry had for its tag when it was pulled")
    problem: str = Field(default="", description="why it could not be looked into; empty where it could")
    version: str = Field(default="", description="of its Python, as major.minor")
    glibc: str = ""
    frameworks: dict[str, str] = Field(default={}, description="versions, by the catalogue's names of frameworks")
    compilers: tuple[str, ...] = Field(default=(), description="graph compilers that compiled something there")
    preloads: dict[str, str] = Field(default={}, description="allocators by name: what LD_PRELOAD loads there")
    libraries: tuple[str, ...] = Field(
        default=(), description="onednn and mkl of PyTorch, and the OpenMP that a process of the framework has"
    )
    packages: tuple[str, ...] = Field(default=(), description="of Python, by their names")
    look: int = Field(default=0, description="of what kind: one that looked for less is done anew")


# Which look it is that fills all of this.
LOOK = 2
