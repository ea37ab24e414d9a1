"""Attention in single precision where a processor would compute it in bf16.

Of PyTorch's own kernel the gradient in bf16 is slow on short sequences: on a Zen 4's core it computes 10 GFLOP/s on
sequences of 32, 19 of 64 and 32 of 128, where the one in single precision has 38, 52 and 64 (PyTorch 2.13,
benchmarks/attention.py). Forwards they are alike. So attention over short sequences takes single precision; what goes
in and comes out stays bf16.
"""

import functools

# The longest sequences of keys. On a Zen 4 both passes take 0.94 of the time in single precision at 256, 1.06 at 512;
# with AMX's units (Emerald Rapids, one core, three runs) 0.52 to 0.65 at 128, 0.97 to 1.06 at 192, 1.03 to 1.20 at 256.
LONGEST, LONGEST_WITH_AMX = 256, 128


def in_single_precision(torch):
    """Has short attention that autocast would compute in bf16 be computed in float32, from now on; once is enough."""
    functional = torch.nn.functional
    if not hasattr(torch, "get_autocast_dtype") or hasattr(functional.scaled_dot_product_attention, "of_modak"):
        return  # it is older than PyTorch 2.4, or done
    longest = LONGEST_WITH_AMX if getattr(torch.cpu, "_is_amx_tile_supported", bool)() else LONGEST
    original = functional.scaled_dot_product_attention

    @functools.wraps(original)
    def attention(query, key, value, attn_mask=None, dropout_p=0.0, *positional, **options):
        is_ours = (
            not dropout_p  # for which it takes another way, by products
            and query.device.type == "cpu"
            and not key.is_nested
            and key.shape[-2] <= longest
            and torch.is_autocast_enabled("cpu")
            and torch.get_autocast_dtype("cpu") == torch.bfloat16
        )
        if not is_ours:
            return original(query, key, value, attn_mask, dropout_p, *positional, **options)
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.float()
        with torch.autocast("cpu", enabled=False):
            outputs = original(query.float(), key.float(), value.float(), attn_mask, dropout_p, *positional, **options)
        return outputs.to(torch.bfloat16)

    attention.of_modak = True
    functional.scaled_dot_product_attention = attention
