"""What compiles the network or the step."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of
from modak_ansible.optimisations.properties import Property

# What each framework's own graph compilers are called; a build has those that its entry names.
_OF_FRAMEWORK = {
    "pytorch": ("inductor",),
    "tensorflow": ("xla",),
    "keras": ("xla", "inductor"),
    "mxnet": ("hybridize",),
}
_OFF = ("none", "default")


class Compiler(CodeOptimisation):
    name = "compiler"
    properties = (
        Property(
            "The graph compiler; none turns it off.",
            ("none", "inductor", "xla", "ngraph", "glow", "hybridize"),
            in_frameworks={
                "tensorflow": {"xla": "Whether the graph compiler XLA is used.", "ngraph": "Whether nGraph is used."},
                "pytorch": {
                    "inductor": "Whether torch.compile is used.",
                    "glow": "Whether GLOW is used.",
                    "xla": "Whether XLA is used, which no build of the catalogue has.",
                },
            },
        ),
    )
    hook_frameworks = ("keras", "tensorflow")
    prepare_frameworks = ("pytorch",)
    needs_whole_model = True
    stock = (*_OFF, "off")
    stock_of = {"jax": ("xla", "default")}
    numerics = "reassociation"
    reasons = {
        "none": "each operation by itself, the framework's default",
        "default": "the default of Keras",
        "inductor": "fuses operations and generates C++ for them; the first steps wait for it",
        "xla": "compiles the whole step; the first one waits for it",
        "ngraph": "replaces parts of the graph by its own kernels",
        "hybridize": "turns the network into a graph once",
        "glow": "compiles a network that was trained and exported",
    }

    def askable_values(self, draft: Draft) -> tuple[str, ...]:
        requested_compiler = self.requested(draft)
        return (*_OF_FRAMEWORK.get(framework_of(draft), ()), *((requested_compiler,) if requested_compiler else ()))

    def values(self, draft: Draft) -> tuple[str, ...]:
        framework = framework_of(draft)
        if framework == "jax":
            return ()  # its scripts say themselves what is compiled
        compilers = draft.entry.compilers if draft.entry else ()
        return ("default", "none", *compilers) if framework == "keras" else ("none", *compilers)

    def why_not(self, draft: Draft, value: str) -> str:
        if value in _OFF:
            return ""
        if draft.entry is not None and value not in draft.entry.compilers:
            carriers = [entry.name for entry in draft.catalogue.entries if value in entry.compilers]
            alternative = f"; {', '.join(carriers[:2])} has it" if carriers else ""
            return f"{draft.entry.name} does not include {value}{alternative}"
        if value == "glow":
            return "GLOW compiles what was trained and exported; it does not train"
        if draft.script is None and value == "ngraph":
            return "the script itself switches it on"
        return ""
