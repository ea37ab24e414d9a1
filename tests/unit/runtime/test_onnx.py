"""Models in ONNX form, as exporters write them, that are trained; where PyTorch, onnx and onnx2torch are installed."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from modak_ansible.runtime import FILES

pytestmark = pytest.mark.component


@pytest.fixture
def torch(monkeypatch):
    """PyTorch; onnx2torch does without torchvision, whose two operators no model here has."""
    found = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    try:
        importlib.import_module("torchvision")
    except ImportError:
        for name in ("nms", "roialign"):
            monkeypatch.setitem(sys.modules, f"onnx2torch.node_converters.{name}", ModuleType(name))
    pytest.importorskip("onnx2torch")
    return found


@pytest.fixture
def load_onnx(monkeypatch):
    monkeypatch.syspath_prepend(str(FILES))
    for name in [each for each in sys.modules if each.partition(".")[0] == "modak_runtime"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("modak_runtime").load_onnx


def networks(torch):
    """Networks with an example of their input, by name."""
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.Embedding(50, 16), nn.Linear(16, 1)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, text):
            return self.last(self.layer(self.words(text)).mean(1))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(torch.tanh(self.first(x)))

    images = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16),
        nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4),
    )  # fmt: skip
    return {
        "images": (images, torch.randn(4, 1, 8, 8)),
        "text": (Encoder(), torch.randint(0, 50, (4, 6))),
        "tied": (Tied(), torch.randn(4, 8)),
    }


def exported(torch, network, given, path, version, **more):
    """Writes a network as today's exporter does, or as the one before it in an older opset."""
    today = {"dynamo": True, "external_data": False, "verbose": False}
    how = {"dynamo": False, "opset_version": version} if version else today
    torch.onnx.export(network, (given,), str(path), **how, **more)
    return path


def count(network):
    return sum(each.numel() for each in network.parameters())


@pytest.mark.parametrize("version", [0, 17, 14])
@pytest.mark.parametrize("name", ["images", "text", "tied"])
def test_all_weights_of_an_exported_model_are_trained(torch, load_onnx, tmp_path, name, version):
    torch.manual_seed(1)
    network, given = networks(torch)[name]
    with torch.no_grad():
        for each in network.parameters():  # what is still as it was made, an exporter leaves out
            each.add_(0.01 * torch.randn_like(each))
    network.eval()
    model = load_onnx(str(exported(torch, network, given, tmp_path / "model.onnx", version)))
    assert torch.allclose(model.eval()(given), network(given), atol=1e-5)
    norms = sum(count(each) for each in network.modules() if isinstance(each, torch.nn.BatchNorm2d))  # is in the Conv
    assert count(model) == count(network) - norms
    model.train()
    optimizer, wanted = torch.optim.Adam(model.parameters(), lr=0.01), torch.randn(network(given).shape)
    before = {key: each.detach().clone() for key, each in model.named_parameters()}
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = ((model(given) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(each.grad is not None for each in model.parameters())
    assert sum(not torch.equal(before[key], each) for key, each in model.named_parameters()) >= len(before) - 1


def test_batch_norms_of_a_model_that_was_exported_as_it_is_are_trained(torch, load_onnx, tmp_path):
    network, given = networks(torch)["images"]
    model = load_onnx(str(exported(torch, network.eval(), given, tmp_path / "model.onnx", 0, optimize=False)))
    assert count(model) == count(network)
    model.train()(given).sum().backward()
    assert all(each.grad is not None for each in model.parameters())


def test_what_cannot_be_trained_is_told(torch, load_onnx, tmp_path):
    onnx = importlib.import_module("onnx")
    path = tmp_path / "model.onnx"
    made, tensor = onnx.helper, onnx.TensorProto
    info = [made.make_tensor_value_info(name, tensor.FLOAT, [4]) for name in ("x", "y")]
    for operator, domain, said in (
        ("Teleport", "", "Teleport"),
        ("FFT", "com.example", "FFT"),
        ("StringNormalizer", "", "StringNormalizer"),
    ):
        graph = made.make_graph([made.make_node(operator, ["x"], ["y"], domain=domain)], "graph", info[:1], info[1:])
        imports = [made.make_opsetid("", 20), made.make_opsetid("com.example", 1)]
        onnx.save(made.make_model(graph, opset_imports=imports), str(path))
        with pytest.raises(ValueError, match=f"has operators that cannot be trained: {said}"):
            load_onnx(str(path))
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match="cannot be converted to a PyTorch model"):
        load_onnx(str(path))
    with pytest.raises(FileNotFoundError):
        load_onnx(str(tmp_path / "none.onnx"))


def test_packages_that_are_not_there_are_named(load_onnx, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"requirements_txt: \[ onnx, onnx2torch \]"):
        load_onnx("model.onnx")
