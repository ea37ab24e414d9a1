"""ResNet50 as numbers: parameters, operations and first weights."""

import architecture
import numpy as np
import pytest
import yaml
from resnet50_files import FOLDER


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return architecture.initial_weights(1, 10)


def test_parameters_are_torchvisions(weights: dict[str, np.ndarray]) -> None:
    assert architecture.parameters() == 25_557_032
    assert architecture.parameters(10) == 25_557_032 - 990 * 2049
    shapes = [weight.shape for weight in weights.values()]
    norms = 2 * sum(convolution.outputs for convolution in architecture.convolutions())
    assert sum(int(np.prod(shape)) for shape in shapes) + norms == architecture.parameters(10)


def test_layers() -> None:
    convolutions = architecture.convolutions()
    assert len(convolutions) == len({convolution.name for convolution in convolutions}) == 53
    assert sum(convolution.kernel == 3 for convolution in convolutions) == 16
    assert [
        convolution.name for convolution in convolutions if convolution.stride == 2 and convolution.kernel == 3
    ] == [f"stage{stage}_block1_middle" for stage in (2, 3, 4)]
    assert sum(convolution.name.endswith("shortcut") for convolution in convolutions) == 4


def test_operations_by_hand() -> None:
    counts = architecture.multiplications()
    assert counts["stem"] == 112**2 * 49 * 3 * 64
    assert counts["stage1_block1_middle"] == 56**2 * 9 * 64 * 64
    assert counts["stage2_block1_first"] == 56**2 * 256 * 128  # the stride is the next one's
    assert counts["stage2_block1_middle"] == 28**2 * 9 * 128 * 128
    assert counts["stage2_block1_shortcut"] == 28**2 * 256 * 512
    assert counts["stage4_block3_last"] == 7**2 * 512 * 2048
    assert counts["dense"] == 2048 * 1000
    assert sum(counts.values()) == 4_089_184_256


def test_gflop_of_a_step() -> None:
    assert 8 * architecture.step_gflop() == pytest.approx(194.4, abs=0.1)
    stated = yaml.safe_load((FOLDER / "workload.yaml").read_text())["gflop_per_image"]
    assert stated == pytest.approx(architecture.step_gflop(), rel=1e-4)


def test_first_weights(weights: dict[str, np.ndarray]) -> None:
    assert list(weights) == [*(convolution.name for convolution in architecture.convolutions()), "dense", "dense_bias"]
    for convolution in architecture.convolutions():
        kernel = weights[convolution.name]
        assert kernel.shape == (convolution.kernel, convolution.kernel, convolution.inputs, convolution.outputs)
        assert kernel.dtype == np.float32
        assert kernel.std() == pytest.approx((2 / (convolution.outputs * convolution.kernel**2)) ** 0.5, rel=0.05)
        assert abs(kernel.mean()) < 0.05 * kernel.std()
    assert 0.99 * 2048**-0.5 < weights["dense"].max() <= np.float32(2048**-0.5)


def test_first_weights_follow_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architecture, "STAGES", ())  # the others take their time
    first, again, other = (architecture.initial_weights(seed, 2)["stem"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.ravel()[:3].tolist() == pytest.approx([0.04102091, -0.01544918, -0.01333835], rel=1e-5)
