// Convolutions with the channels last as products of pixels and channels, a tap at a time; see operators.md.
#pragma once

#include <cstdint>

namespace modak::direct {

// A convolution of any window, stride and dilation.
struct Shape {
  int64_t images, height, width, in, out_height, out_width, out;
  int64_t taps_h, taps_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

  int64_t pixels() const { return images * height * width; }
  int64_t out_pixels() const { return images * out_height * out_width; }
  int64_t taps() const { return taps_h * taps_w; }
  // Whether its images are read as they are.
  bool is_plain() const { return taps() == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0; }
};

// Whether it can be done so, with whole registers of channels on both sides, and enough pixels.
bool suits(const Shape& s);

// The same for the gradient of the weights, of what suits.
bool suits_sums(const Shape& s);

// y[n, i, j, k] = bias[k] + sum over c of x[n, i * stride - pad, ..., c] * w[k, c]; bias may be null. Of windows of 1x1
// alone: oneDNN's convolutions of larger ones are faster, and only their gradients are slower.
void convolve(const Shape& s, const float* x, const float* w, const float* bias, float* y);

// The gradients of any of them: with respect to x.
void data_gradient(const Shape& s, const float* dy, const float* w, float* dx);

// With respect to w.
void weight_gradient(const Shape& s, const float* x, const float* dy, float* dw);

}  // namespace modak::direct
