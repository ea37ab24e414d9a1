// What the parts of the library share; see operators.md.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <array>
#include <cstdint>

namespace modak {

#ifdef __AVX512F__
constexpr int kWidth = 16;  // numbers in a register
#else
constexpr int kWidth = 8;
#endif

typedef float Floats __attribute__((vector_size(4 * kWidth)));
typedef float UnalignedFloats __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(4 * kWidth)));

inline Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
inline void store(float* to, Floats values) { *reinterpret_cast<UnalignedFloats*>(to) = values; }

// What a kernel of ours can read as an array of floats, once it is contiguous.
inline bool is_plain_float(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.scalar_type() == at::kFloat &&
      !tensor.is_neg() && !tensor.is_conj();
}

void register_random(torch::Library& library);
void register_pooling(torch::Library& library);
void register_convolution(torch::Library& library, bool winograd, bool direct);

}  // namespace modak
