// Convolutions of 3x3 with stride 1, by Winograd's way where that is faster; all others go on to PyTorch's own.
#include <ATen/Parallel.h>
#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_convolution_native.h>

#include <algorithm>
#include <tuple>

#include "operators.h"
#include "winograd.h"

namespace modak {
namespace {

using at::Tensor;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

bool is_all(at::IntArrayRef values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](int64_t value) { return value == wanted; });
}

winograd::Shape shape_of(const Tensor& self, const Tensor& weight, at::IntArrayRef padding) {
  const int64_t pad_h = padding[0], pad_w = padding.size() == 1 ? padding[0] : padding[1];
  return {self.size(0),  self.size(2), self.size(3), self.size(1), self.size(2) + 2 * pad_h - 2,
          self.size(3) + 2 * pad_w - 2, weight.size(0), pad_h, pad_w};
}

bool suits(const Tensor& self, const Tensor& weight, at::IntArrayRef padding, at::IntArrayRef stride,
           at::IntArrayRef dilation, int64_t groups) {
  if (!is_plain_float(self) || !is_plain_float(weight) || self.dim() != 4 || weight.dim() != 4 || groups != 1 ||
      weight.size(2) != 3 || weight.size(3) != 3 || weight.size(1) != self.size(1) || !is_all(stride, 1) ||
      !is_all(dilation, 1) || padding.empty() || padding.size() > 2 ||
      !std::all_of(padding.begin(), padding.end(), [](int64_t each) { return each >= 0 && each <= 2; })) {
    return false;
  }
  const winograd::Shape s = shape_of(self, weight, padding);
  return s.images > 0 && s.out_height > 0 && s.out_width > 0 && winograd::suits(s);
}

// As oneDNN's results are: with the channels last where the input or the weights have them so.
at::MemoryFormat format_of(const Tensor& self, const Tensor& weight) {
  const bool is_last = self.suggest_memory_format() == kLast || weight.suggest_memory_format() == kLast;
  return is_last ? kLast : at::MemoryFormat::Contiguous;
}

winograd::Layout layout_of(at::MemoryFormat format) {
  return format == kLast ? winograd::Layout::kLast : winograd::Layout::kFirst;
}

Tensor convolution(const Tensor& self, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef padding,
                   at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups) {
  const bool has_bias = bias && bias->defined();
  if (!suits(self, weight, padding, stride, dilation, groups) || (has_bias && !is_plain_float(*bias))) {
    return at::native::mkldnn_convolution(self, weight, bias, padding, stride, dilation, groups);
  }
  const winograd::Shape s = shape_of(self, weight, padding);
  const auto format = format_of(self, weight);
  const Tensor x = self.contiguous(format), w = weight.contiguous(kLast), b = has_bias ? bias->contiguous() : Tensor();
  Tensor y = at::empty({s.images, s.out, s.out_height, s.out_width}, self.options().memory_format(format));
  winograd::convolve(s, layout_of(format), x.const_data_ptr<float>(), w.const_data_ptr<float>(),
                     has_bias ? b.const_data_ptr<float>() : nullptr, y.mutable_data_ptr<float>());
  return y;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad_output, const Tensor& self, const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  if (transposed || !is_plain_float(grad_output) || !suits(self, weight, padding, stride, dilation, groups)) {
    return at::native::convolution_backward(grad_output, self, weight, bias_sizes, stride, padding, dilation, transposed,
                                            output_padding, groups, mask);
  }
  const winograd::Shape s = shape_of(self, weight, padding);
  const auto format = format_of(self, weight);
  const auto layout = layout_of(format);
  const Tensor dy = grad_output.contiguous(format);
  Tensor dx, dw, db;
  if (mask[0]) {
    const Tensor w = weight.contiguous(kLast);
    dx = at::empty(self.sizes(), self.options().memory_format(format));
    winograd::data_gradient(s, layout, dy.const_data_ptr<float>(), w.const_data_ptr<float>(),
                            dx.mutable_data_ptr<float>());
  }
  if (!winograd::suits_sums(s)) {
    std::tie(std::ignore, dw, db) = at::native::convolution_backward(
        grad_output, self, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
        {false, mask[1], mask[2]});
  } else if (mask[1] || mask[2]) {
    const Tensor x = self.contiguous(format);
    dw = at::empty(weight.sizes(), weight.options().memory_format(kLast));
    db = at::empty({s.out}, weight.options());
    winograd::weight_gradient(s, layout, x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                              dw.mutable_data_ptr<float>(), db.mutable_data_ptr<float>());
    dw = mask[1] ? dw.contiguous(format) : Tensor();
    db = mask[2] ? db : Tensor();
  }
  return {dx, dw, db};
}

}  // namespace

void register_convolution(torch::Library& library) {
  library.impl("mkldnn_convolution", convolution);
  library.impl("convolution_backward", convolution_backward);
}

}  // namespace modak
