// Convolutions by Winograd's way, or as products, where that is faster; all others go on to PyTorch's own.
#include <ATen/Parallel.h>
#include <ATen/ops/_slow_conv2d_forward_native.h>
#include <ATen/ops/convolution_backward_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mkldnn_convolution_native.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "direct.h"
#include "operators.h"
#include "winograd.h"

namespace modak {
namespace {

using at::Tensor;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

bool has_winograd = false, has_direct = false;  // which of them are wanted

// One of a convolution's pairs of numbers; a single one stands for both.
int64_t of_height(at::IntArrayRef values) { return values[0]; }
int64_t of_width(at::IntArrayRef values) { return values.size() == 1 ? values[0] : values[1]; }

bool is_pair(at::IntArrayRef values, int64_t least) {
  return (values.size() == 1 || values.size() == 2) &&
      std::all_of(values.begin(), values.end(), [least](int64_t value) { return value >= least; });
}

// A convolution, where it is one of two dimensions and one group on numbers that we know.
std::optional<direct::Shape> shape_of(const Tensor& self, const Tensor& weight, at::IntArrayRef padding,
                                      at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups) {
  if (!is_plain_float(self) || !is_plain_float(weight) || self.dim() != 4 || weight.dim() != 4 || groups != 1 ||
      weight.size(1) != self.size(1) || !is_pair(padding, 0) || !is_pair(stride, 1) || !is_pair(dilation, 1)) {
    return std::nullopt;
  }
  direct::Shape s{self.size(0), self.size(2), self.size(3), self.size(1), 0, 0, weight.size(0),
                  weight.size(2), weight.size(3), of_height(stride), of_width(stride), of_height(padding),
                  of_width(padding), of_height(dilation), of_width(dilation)};
  const int64_t down = s.height + 2 * s.pad_h - s.dilation_h * (s.taps_h - 1) - 1;
  const int64_t across = s.width + 2 * s.pad_w - s.dilation_w * (s.taps_w - 1) - 1;
  if (s.images == 0 || down < 0 || across < 0) return std::nullopt;
  s.out_height = down / s.stride_h + 1, s.out_width = across / s.stride_w + 1;
  return s;
}

winograd::Shape winograd_of(const direct::Shape& s) {
  return {s.images, s.height, s.width, s.in, s.out_height, s.out_width, s.out, s.pad_h, s.pad_w};
}

bool suits_winograd(const direct::Shape& s) {
  return has_winograd && s.taps_h == 3 && s.taps_w == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
      s.dilation_w == 1 && s.pad_h <= 2 && s.pad_w <= 2 && winograd::suits(winograd_of(s));
}

// As products: where the channels come last in memory already.
bool suits_direct(const direct::Shape& s, const Tensor& self) {
  return has_direct && self.suggest_memory_format() == kLast && direct::suits(s);
}

// As oneDNN's results are: with the channels last where the input or the weights have them so.
at::MemoryFormat format_of(const Tensor& self, const Tensor& weight) {
  const bool is_last = self.suggest_memory_format() == kLast || weight.suggest_memory_format() == kLast;
  return is_last ? kLast : at::MemoryFormat::Contiguous;
}

winograd::Layout layout_of(at::MemoryFormat format) {
  return format == kLast ? winograd::Layout::kLast : winograd::Layout::kFirst;
}

// The result of a convolution, where one of ours suits; none where PyTorch's own is to compute it.
Tensor convolve(const Tensor& self, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef padding,
                at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups) {
  const bool has_bias = bias && bias->defined();
  const auto shape = shape_of(self, weight, padding, stride, dilation, groups);
  if (!shape || (has_bias && !is_plain_float(*bias))) return {};
  const direct::Shape& s = *shape;
  const bool by_winograd = suits_winograd(s);
  if (!by_winograd && (s.taps() > 1 || !suits_direct(s, self))) return {};  // oneDNN's larger windows are faster
  const auto format = by_winograd ? format_of(self, weight) : kLast;
  const Tensor x = self.contiguous(format), w = weight.contiguous(kLast), b = has_bias ? bias->contiguous() : Tensor();
  const float* more = has_bias ? b.const_data_ptr<float>() : nullptr;
  Tensor y = at::empty({s.images, s.out, s.out_height, s.out_width}, self.options().memory_format(format));
  if (by_winograd) {
    winograd::convolve(winograd_of(s), layout_of(format), x.const_data_ptr<float>(), w.const_data_ptr<float>(), more,
                       y.mutable_data_ptr<float>());
  } else {
    direct::convolve(s, x.const_data_ptr<float>(), w.const_data_ptr<float>(), more, y.mutable_data_ptr<float>());
  }
  return y;
}

Tensor convolution(const Tensor& self, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef padding,
                   at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups) {
  const Tensor y = convolve(self, weight, bias, padding, stride, dilation, groups);
  return y.defined() ? y : at::native::mkldnn_convolution(self, weight, bias, padding, stride, dilation, groups);
}

// What PyTorch takes in oneDNN's place for 1x1, with one thread and few images.
Tensor slow_convolution(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel_size,
                        const std::optional<Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding) {
  const Tensor y = convolve(self, weight, bias, padding, stride, {1, 1}, 1);
  return y.defined() ? y : at::native::slow_conv2d_forward_cpu(self, weight, kernel_size, bias, stride, padding);
}

using Gradients = std::tuple<Tensor, Tensor, Tensor>;

Gradients winograd_backward(const winograd::Shape& s, const Tensor& grad_output, const Tensor& self,
                            const Tensor& weight, std::array<bool, 3> mask) {
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
  if (mask[1] || mask[2]) {
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

Gradients direct_backward(const direct::Shape& s, const Tensor& grad_output, const Tensor& self, const Tensor& weight,
                          std::array<bool, 3> mask) {
  const Tensor dy = grad_output.contiguous(kLast), w = weight.contiguous(kLast);
  Tensor dx, dw, db;
  if (mask[0]) {
    dx = at::empty(self.sizes(), self.options().memory_format(kLast));
    direct::data_gradient(s, dy.const_data_ptr<float>(), w.const_data_ptr<float>(), dx.mutable_data_ptr<float>());
  }
  if (mask[1]) {
    const Tensor x = self.contiguous(kLast);
    dw = at::empty_like(w);
    direct::weight_gradient(s, x.const_data_ptr<float>(), dy.const_data_ptr<float>(), dw.mutable_data_ptr<float>());
  }
  if (mask[2]) db = dy.sum({0, 2, 3});
  return {dx, dw, db};
}

Gradients convolution_backward(
    const Tensor& grad_output, const Tensor& self, const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  const auto others = [&](std::array<bool, 3> wanted) {
    return at::native::convolution_backward(grad_output, self, weight, bias_sizes, stride, padding, dilation, transposed,
                                            output_padding, groups, wanted);
  };
  const auto shape = shape_of(self, weight, padding, stride, dilation, groups);
  if (!shape || transposed || !is_plain_float(grad_output)) return others(mask);
  const bool by_winograd = suits_winograd(*shape);
  if (!by_winograd && !suits_direct(*shape, self)) return others(mask);
  const bool sums = by_winograd ? winograd::suits_sums(winograd_of(*shape)) : direct::suits_sums(*shape);
  const std::array<bool, 3> ours = {mask[0], mask[1] && sums, mask[2] && sums};
  auto [dx, dw, db] = by_winograd ? winograd_backward(winograd_of(*shape), grad_output, self, weight, ours)
                                  : direct_backward(*shape, grad_output, self, weight, ours);
  if (!sums && (mask[1] || mask[2])) std::tie(std::ignore, dw, db) = others({false, mask[1], mask[2]});
  return {dx, dw, db};
}

}  // namespace

void register_convolution(torch::Library& library, bool winograd, bool direct) {
  has_winograd = winograd, has_direct = direct;
  if (!winograd && !direct) return;
  library.impl("mkldnn_convolution", convolution);
  library.impl("convolution_backward", convolution_backward);
  if (direct) library.impl("_slow_conv2d_forward", slow_convolution);
}

}  // namespace modak
