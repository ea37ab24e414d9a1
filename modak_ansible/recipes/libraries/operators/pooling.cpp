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

  bool is_two_by_two() const {
    return kernel_h == 2 && kernel_w == 2 && stride_h == 2 && stride_w == 2 && pad_h == 0 && pad_w == 0 &&
        dilation_h == 1 && dilation_w == 1;
  }
};

void pool_plane(const float* in, float* out, int64_t* where, int64_t height, int64_t width, int64_t out_height,
                int64_t out_width, const Window& w) {
  const auto first = [](int64_t begin, int64_t dilation) { return begin < 0 ? (-begin + dilation - 1) / dilation : 0; };
  for (int64_t row = 0; row < out_height; ++row) {
    const int64_t top = row * w.stride_h - w.pad_h;
    for (int64_t column = 0; column < out_width; ++column) {
      const int64_t left = column * w.stride_w - w.pad_w;
      const int64_t kw0 = first(left, w.dilation_w), kh0 = first(top, w.dilation_h);
      int64_t best = (top + kh0 * w.dilation_h) * width + left + kw0 * w.dilation_w;
      float largest = -std::numeric_limits<float>::infinity();
      for (int64_t kh = kh0; kh < w.kernel_h; ++kh) {
        const int64_t y = top + kh * w.dilation_h;
        if (y >= height) break;
        for (int64_t kw = kw0; kw < w.kernel_w; ++kw) {
          const int64_t x = left + kw * w.dilation_w;
          if (x >= width) break;
          const float value = in[y * width + x];
          const bool larger = value > largest || value != value;
          largest = larger ? value : largest;
          best = larger ? y * width + x : best;
        }
      }
      out[row * out_width + column] = largest;
      where[row * out_width + column] = best;
    }
  }
}

// Two by two without overlap or border, which is what most networks have.
void pool_plane_2x2(const float* in, float* out, int64_t* where, int64_t width, int64_t out_height, int64_t out_width) {
  for (int64_t row = 0; row < out_height; ++row) {
    const int64_t start = 2 * row * width;
    const float *upper = in + start, *lower = upper + width;
    for (int64_t column = 0; column < out_width; ++column) {
      const float a = upper[2 * column], b = upper[2 * column + 1], c = lower[2 * column], d = lower[2 * column + 1];
      float largest = a;
      int64_t best = 0;
      bool larger = b > largest || b != b;
      largest = larger ? b : largest, best = larger ? 1 : best;
      larger = c > largest || c != c;
      largest = larger ? c : largest, best = larger ? width : best;
      larger = d > largest || d != d;
      largest = larger ? d : largest, best = larger ? width + 1 : best;
      out[row * out_width + column] = largest;
      where[row * out_width + column] = start + 2 * column + best;
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
  const bool is_simple = w.is_two_by_two() && 2 * s.out_height <= s.height && 2 * s.out_width <= s.width;
  at::parallel_for(0, planes, grain(size), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float* in = from + plane * s.pixels();
      if (is_simple) {
        pool_plane_2x2(in, to + plane * size, index + plane * size, s.width, s.out_height, s.out_width);
      } else {
        pool_plane(in, to + plane * size, index + plane * size, s.height, s.width, s.out_height, s.out_width, w);
      }
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
