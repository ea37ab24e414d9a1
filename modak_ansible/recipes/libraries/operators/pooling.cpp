// Max-pooling: of images with the channels first, and backwards in either format without a detour through the other.
#include <ATen/Parallel.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "operators.h"

namespace modak {
namespace {

using at::Tensor;

struct Window {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

  Window(at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
    const auto check = [](at::IntArrayRef values, const char* name) {
      TORCH_CHECK(values.size() == 1 || values.size() == 2,
                  "max_pool2d: ", name, " must either be a single int, or a tuple of two ints");
    };
    check(kernel, "kernel_size");
    check(stride.empty() ? kernel : stride, "stride");
    check(padding, "padding");
    check(dilation, "dilation");
    const auto second = [](at::IntArrayRef values) { return values.size() == 1 ? values[0] : values[1]; };
    kernel_h = kernel[0], kernel_w = second(kernel);
    stride_h = stride.empty() ? kernel_h : stride[0], stride_w = stride.empty() ? kernel_w : second(stride);
    pad_h = padding[0], pad_w = second(padding), dilation_h = dilation[0], dilation_w = second(dilation);
  }
};

// One plane of one image.
struct Plane {
  const float* in;
  float* out;
  int64_t* where;
  int64_t height, width, out_height, out_width;
};

// Which rows of a window lie inside of the plane: the first, and the one behind the last.
struct Inside {
  int64_t first, last;

  Inside(int64_t begin, int64_t kernel, int64_t dilation, int64_t size) {
    first = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
    last = begin < size ? std::min(kernel, (size - begin + dilation - 1) / dilation) : 0;
  }
};

// What is larger counts, and what is no number; of equals the first.
void pool_one(const Plane& p, const Window& w, int64_t row, int64_t column) {
  const int64_t top = row * w.stride_h - w.pad_h, left = column * w.stride_w - w.pad_w;
  const Inside rows(top, w.kernel_h, w.dilation_h, p.height), columns(left, w.kernel_w, w.dilation_w, p.width);
  int64_t best = (top + rows.first * w.dilation_h) * p.width + left + columns.first * w.dilation_w;
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t kh = rows.first; kh < rows.last; ++kh) {
    for (int64_t kw = columns.first; kw < columns.last; ++kw) {
      const int64_t index = (top + kh * w.dilation_h) * p.width + left + kw * w.dilation_w;
      const float value = p.in[index];
      const bool larger = value > largest || value != value;
      largest = larger ? value : largest;
      best = larger ? index : best;
    }
  }
  p.out[row * p.out_width + column] = largest;
  p.where[row * p.out_width + column] = best;
}

typedef float Eight __attribute__((vector_size(32)));
typedef float UnalignedEight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t EightOffsets __attribute__((vector_size(32)));
typedef int64_t EightIndices __attribute__((vector_size(64)));
typedef int64_t UnalignedIndices __attribute__((vector_size(64), aligned(8), may_alias));

inline Eight load_eight(const float* from) { return *reinterpret_cast<const UnalignedEight*>(from); }

// Eight numbers that are so far apart, out of no more memory than they span.
template <int Stride>
inline Eight load_apart(const float* from) {
  if constexpr (Stride == 1) return load_eight(from);
  return __builtin_shufflevector(load_eight(from), load_eight(from + 7), 0, 2, 4, 6, 9, 11, 13, 15);
}

// Eight windows side by side, no column of which lies outside.
template <int Stride>
inline void pool_eight(const Plane& p, const Window& w, const Inside& rows, int64_t row, int64_t column) {
  const int64_t top = row * w.stride_h - w.pad_h, left = column * Stride - w.pad_w;
  Eight largest = Eight{} - std::numeric_limits<float>::infinity();
  EightOffsets best = EightOffsets{} + static_cast<int32_t>((top + rows.first * w.dilation_h) * p.width);
  for (int64_t kh = rows.first; kh < rows.last; ++kh) {
    const int64_t line = (top + kh * w.dilation_h) * p.width;
    for (int64_t kw = 0; kw < w.kernel_w; ++kw) {
      const Eight value = load_apart<Stride>(p.in + line + left + kw * w.dilation_w);
      const EightOffsets larger = (value > largest) | (value != value);
      largest = larger ? value : largest;
      best = larger ? EightOffsets{} + static_cast<int32_t>(line + kw * w.dilation_w) : best;
    }
  }
  const EightIndices steps = EightIndices{0, 1, 2, 3, 4, 5, 6, 7} * Stride + left;
  *reinterpret_cast<UnalignedEight*>(p.out + row * p.out_width + column) = largest;
  *reinterpret_cast<UnalignedIndices*>(p.where + row * p.out_width + column) =
      __builtin_convertvector(best, EightIndices) + steps;
}

// A row, eight windows at a time as far as there are eight whose columns lie inside.
template <int Stride>
void pool_row(const Plane& p, const Window& w, int64_t row) {
  const Inside rows(row * w.stride_h - w.pad_h, w.kernel_h, w.dilation_h, p.height);
  const int64_t begin = (w.pad_w + Stride - 1) / Stride;
  // so far that the last column of the last window ends with the line
  const int64_t room = p.width - (7 * Stride + 1) - (w.kernel_w - 1) * w.dilation_w + w.pad_w;
  const int64_t end = room < 0 ? -1 : std::min(room / Stride, p.out_width - 8);
  int64_t column = 0;
  if (end >= begin) {
    for (; column < begin; ++column) pool_one(p, w, row, column);
    for (; column < end; column += 8) pool_eight<Stride>(p, w, rows, row, column);
    pool_eight<Stride>(p, w, rows, row, end);  // which may do some of its neighbours' again
    column = end + 8;
  }
  for (; column < p.out_width; ++column) pool_one(p, w, row, column);
}

void pool_plane(const Plane& p, const Window& w) {
  const bool is_small = p.height * p.width < (1LL << 31);  // for indices of 32 bits
  for (int64_t row = 0; row < p.out_height; ++row) {
    if (w.stride_w == 1 && is_small) {
      pool_row<1>(p, w, row);
    } else if (w.stride_w == 2 && is_small) {
      pool_row<2>(p, w, row);
    } else {
      for (int64_t column = 0; column < p.out_width; ++column) pool_one(p, w, row, column);
    }
  }
}

// Sizes and formats of what goes in and comes out, checked as PyTorch does.
struct Shape {
  int64_t channels, height, width, out_height, out_width;
  at::MemoryFormat format;

  Shape(const Tensor& self, const Window& w, bool ceil_mode) : format(self.suggest_memory_format()) {
    TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "max_pool2d: expected a tensor of 3 or 4 dimensions");
    channels = self.size(-3), height = self.size(-2), width = self.size(-1);
    const auto size = at::native::pooling_output_shape<int64_t>;
    out_height = size(height, w.kernel_h, w.pad_h, w.stride_h, w.dilation_h, ceil_mode);
    out_width = size(width, w.kernel_w, w.pad_w, w.stride_w, w.dilation_w, ceil_mode);
    at::native::pool2d_shape_check(self, w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w, w.dilation_h,
                                   w.dilation_w, channels, height, width, out_height, out_width, format);
  }

  int64_t pixels() const { return height * width; }
  int64_t out_pixels() const { return out_height * out_width; }
};

int64_t grain(int64_t size) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, size)); }

std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                                                   at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const Window w(kernel, stride, padding, dilation);
  const Shape s(self, w, ceil_mode);
  auto sizes = self.sizes().vec();
  sizes[sizes.size() - 2] = s.out_height, sizes[sizes.size() - 1] = s.out_width;
  Tensor out = at::empty(sizes, self.options().memory_format(s.format));
  Tensor where = at::empty(sizes, self.options().dtype(at::kLong).memory_format(s.format));
  if (!is_plain_float(self) || s.format != at::MemoryFormat::Contiguous) {  // the wheel's are vectorised there
    at::native::max_pool2d_kernel(at::kCPU, out, where, self, w.kernel_w, w.kernel_h, w.stride_w, w.stride_h, w.pad_w,
                                  w.pad_h, w.dilation_w, w.dilation_h);
    return {out, where};
  }
  const Tensor input = self.contiguous();
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  int64_t* index = where.mutable_data_ptr<int64_t>();
  const int64_t planes = out.numel() / std::max<int64_t>(1, s.out_pixels()), size = s.out_pixels();
  at::parallel_for(0, planes, grain(size), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      pool_plane({from + plane * s.pixels(), to + plane * size, index + plane * size, s.height, s.width, s.out_height,
                  s.out_width},
                 w);
    }
  });
  return {out, where};
}

// The gradients of one image, into a part of memory that is fresh in the cache.
void scatter(const float* grad, const int64_t* index, float* to, const Shape& s, bool is_last) {
  std::memset(to, 0, sizeof(float) * s.pixels() * s.channels);
  if (is_last) {
    for (int64_t pixel = 0; pixel < s.out_pixels(); ++pixel, grad += s.channels, index += s.channels) {
      for (int64_t channel = 0; channel < s.channels; ++channel) to[index[channel] * s.channels + channel] += grad[channel];
    }
    return;
  }
  for (int64_t channel = 0; channel < s.channels; ++channel) {
    for (int64_t pixel = 0; pixel < s.out_pixels(); ++pixel) to[index[pixel]] += grad[pixel];
    grad += s.out_pixels(), index += s.out_pixels(), to += s.pixels();
  }
}

Tensor max_pool2d_with_indices_backward(const Tensor& grad_output, const Tensor& self, at::IntArrayRef kernel,
                                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                        bool ceil_mode, const Tensor& indices) {
  const Window w(kernel, stride, padding, dilation);
  const Shape s(self, w, ceil_mode);
  at::native::max_pool2d_backward_shape_check(self, grad_output, indices, w.kernel_h, w.kernel_w, w.stride_h, w.stride_w,
                                              w.pad_h, w.pad_w, w.dilation_h, w.dilation_w, s.channels, s.height,
                                              s.width, s.out_height, s.out_width, s.format);
  TORCH_CHECK(self.scalar_type() == grad_output.scalar_type() && indices.scalar_type() == at::kLong,
              "max_pool2d: expected gradients of the input's type, and int64 indices");
  const Tensor grad = grad_output.contiguous(s.format), where = indices.contiguous(s.format);
  if (!is_plain_float(self) || !is_plain_float(grad)) {
    Tensor grad_input = at::zeros_like(self, self.options().memory_format(s.format));
    at::native::max_pool2d_backward_kernel(at::kCPU, grad_input, grad, where);
    return grad_input;
  }
  Tensor grad_input = at::empty(self.sizes(), self.options().memory_format(s.format));
  const float* from = grad.const_data_ptr<float>();
  const int64_t* index = where.const_data_ptr<int64_t>();
  float* to = grad_input.mutable_data_ptr<float>();
  // with the channels first a channel is as good as an image, and there are more of them to share out
  const bool is_last = s.format == at::MemoryFormat::ChannelsLast;
  Shape part = s;
  part.channels = is_last ? s.channels : 1;
  const int64_t parts = grad_input.numel() / std::max<int64_t>(1, part.channels * s.pixels());
  const int64_t size = part.channels * s.pixels(), out_size = part.channels * s.out_pixels();
  at::parallel_for(0, parts, grain(out_size), [&](int64_t begin, int64_t end) {
    for (int64_t each = begin; each < end; ++each) {
      scatter(from + each * out_size, index + each * out_size, to + each * size, part, is_last);
    }
  });
  return grad_input;
}

}  // namespace

void register_pooling(torch::Library& library) {
  library.impl("max_pool2d_with_indices", max_pool2d_with_indices);
  library.impl("max_pool2d_with_indices_backward", max_pool2d_with_indices_backward);
}

}  // namespace modak
