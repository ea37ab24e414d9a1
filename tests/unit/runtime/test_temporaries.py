"""What convolutions ask of malloc, in order: as it was recorded of PyTorch 2.13 with AVX-512, in blocks of 64 KiB or more."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.memory.temporaries import Order, of_device, order_of

sys.path.remove(str(FILES))

MIB = 1 << 20


class Tensor:
    """As much of a tensor as lies somewhere."""

    def __init__(self, *shape, lies="in order"):
        self.shape, self.lies = shape, lies

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return 4

    def is_contiguous(self, memory_format="in order"):
        return self.lies == memory_format


def operator(name):
    return SimpleNamespace(overloadpacket=SimpleNamespace(__name__=name))


ATEN = SimpleNamespace(
    **{
        name: SimpleNamespace(default=operator(name))
        for name in ("convolution", "convolution_backward", "native_batch_norm_backward")
    }
)


def torch(processor="AVX512", threads=1):
    return SimpleNamespace(
        ops=SimpleNamespace(aten=ATEN),
        channels_last="last",
        channels_last_3d="last",
        get_num_threads=lambda: threads,
        backends=SimpleNamespace(cpu=SimpleNamespace(get_cpu_capability=lambda: processor)),
    )


def told(order: Order) -> str:
    """Takes and gives, in MiB; a tensor is made once."""
    sizes, made, words = [entry for entry in order if isinstance(entry, int) and entry > 0], [], []
    for entry in order:
        if isinstance(entry, int):
            size, sign = (entry, "+") if entry > 0 else (sizes[-entry - 1], "-")
        elif entry in made:
            continue
        else:
            made.append(entry)
            size, sign = 4 * entry.numel(), "="
        words += [f"{sign}{size / MIB:.2f}"] if size >= 1 << 16 else []
    return " ".join(words)


def convolved(images, weight, outputs, *, padding=1, stride=1, groups=1, is_transposed=False, here=None):
    """What the operator asks for, and what the one that goes back does; tensors that are made have a =."""
    here = here or torch()
    x, w, y = Tensor(*images), Tensor(*weight), Tensor(*outputs)
    depth = len(images) - 2
    rest = [[stride] * depth, [padding] * depth, [1] * depth, is_transposed, [0] * depth, groups]
    forward = order_of(here, ATEN.convolution.default, (x, w, None, *rest), y)
    arguments = (Tensor(*outputs), x, w, [weight[0]], *rest, [True, True, True])
    made = Tensor(*images), Tensor(*weight), Tensor(weight[0])
    return told(forward), told(order_of(here, ATEN.convolution_backward.default, arguments, made))


@pytest.mark.parametrize(
    ("channels", "forward", "backward"),
    [
        (3, "+8.00 =8.00 -8.00", "+8.00 +4.00 -8.00 =0.75 -4.00 +8.00 -8.00"),
        (8, "+8.00 =8.00 -8.00", "+8.00 +4.00 -8.00 =2.00 -4.00 +8.00 +2.00 -2.00 -8.00"),
        (12, "+8.00 =8.00 -8.00", "+8.00 +4.00 -8.00 =3.00 -4.00 +8.00 +4.00 -4.00 -8.00"),
        (16, "+4.00 +8.00 -4.00 =8.00 -8.00", "+8.00 +4.00 -8.00 =4.00 -4.00 +8.00 +4.00 -4.00 -8.00"),
        (24, "+8.00 +8.00 -8.00 =8.00 -8.00", "+8.00 +8.00 -8.00 =6.00 -8.00 +8.00 +8.00 -8.00 -8.00"),
    ],
)
def test_images_lie_in_blocks_of_channels(channels, forward, backward):
    assert convolved((16, channels, 64, 64), (32, channels, 3, 3), (16, 32, 64, 64)) == (forward, backward)


def test_weights_lie_in_blocks_too_and_what_was_computed_outlives_what_it_was_computed_of():
    forward, backward = convolved((12, 64, 24, 24), (64, 64, 3, 3), (12, 64, 24, 24))
    assert forward == "+1.69 +0.14 +1.69 -0.14 -1.69 =1.69 -1.69"
    data, weights = "+1.69 +0.14 +1.69 -0.14 -1.69 =1.69 -1.69", "+1.69 +1.69 +0.14 -1.69 -1.69 =0.14 -0.14"
    assert backward == f"{data} {weights}"


def test_strides_that_scatter_have_a_copy_more():
    _, backward = convolved((16, 96, 16, 16), (192, 96, 2, 2), (16, 192, 8, 8), padding=0, stride=2)
    assert backward.startswith("+0.75 +0.28 +1.50 -0.28 -0.75 +1.50 =1.50 -1.50 -1.50 +0.75 +1.50 +0.28")
    forward, _ = convolved((12, 256, 16, 16), (256, 128, 4, 4), (12, 128, 32, 32), stride=2, is_transposed=True)
    assert forward == "+3.00 +2.00 +6.00 -2.00 -3.00 +6.00 =6.00 -6.00 -6.00"


@pytest.mark.parametrize(("padding", "is_given_to_onednn"), [(4, True), (6, False)])
def test_what_is_padded_widely_is_computed_otherwise(padding, is_given_to_onednn):
    forward, _ = convolved((16, 32, 2000), (160, 32, 2), (16, 160, 2000 + padding), padding=padding)
    size = f"{16 * 160 * (2000 + padding) * 4 / MIB:.2f}"
    assert forward == (f"+3.91 +{size} -3.91 ={size} -{size}" if is_given_to_onednn else f"={size}")


def test_single_points_of_few_images_are_products_of_matrices_for_one_thread():
    shapes = (12, 24, 48, 48), (144, 24, 1, 1), (12, 144, 48, 48)
    assert convolved(*shapes, padding=0)[0] == "=15.19"
    assert convolved(*shapes, padding=0, here=torch(threads=2))[0].count("15.19") == 3


def test_a_channel_by_itself_and_channels_that_lie_last_need_no_padding():
    assert convolved((12, 40, 48, 48), (40, 1, 3, 3), (12, 40, 48, 48), groups=40)[0] == (
        "+4.22 +4.22 -4.22 =4.22 -4.22"
    )
    images, output = Tensor(16, 32, 64, 64, lies="last"), Tensor(16, 32, 64, 64, lies="last")
    arguments = (images, Tensor(32, 32, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert told(order_of(torch(), ATEN.convolution.default, arguments, output)) == "=8.00"


def test_blocks_are_half_as_large_without_avx512():
    assert convolved((16, 24, 64, 64), (24, 24, 3, 3), (16, 24, 64, 64), here=torch("AVX2"))[0] == (
        "+6.00 +6.00 -6.00 =6.00 -6.00"
    )


def test_what_lies_otherwise_is_copied_and_batch_norm_takes_its_input_again():
    across = Tensor(16, 144, 320, lies="across")
    made = Tensor(16, 144, 320), Tensor(16, 144, 1), Tensor(16, 144, 1)
    assert told(order_of(torch(), operator("native_layer_norm"), (across,), made)) == "+2.81 =2.81 -2.81"
    assert told(order_of(torch(), operator("embedding_dense_backward"), (across,), Tensor(8192, 640))) == (
        "=20.00 +2.81 -2.81"
    )
    made = Tensor(12, 24, 48, 48), Tensor(24), Tensor(24)
    assert told(order_of(torch(), ATEN.native_batch_norm_backward.default, (), made)) == "=2.53 +2.53 -2.53"


def test_a_recurrent_layer_packs_its_weights_and_has_gates_of_all_places():
    inputs, states = Tensor(48, 24, 640), Tensor(24, 640)
    weights = Tensor(2560, 640), Tensor(2560, 640)
    found = order_of(torch(), operator("mkldnn_rnn_layer"), (inputs, *weights), (Tensor(48, 24, 640), states))
    assert told(found) == "=2.81 +6.25 +6.25 +11.25 -11.25 -6.25 -6.25"


def test_what_an_accelerator_takes_is_there_beside_what_it_gives():
    assert told(of_device(3 * MIB, [Tensor(1024, 1024)])) == "=4.00 +3.00 -3.00"
    assert told(of_device(0, [Tensor(1024, 1024)])) == "=4.00"
