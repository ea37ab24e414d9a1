// Winograd's convolution F(4x4, 3x3) on numbers in memory; see operators.md.
#pragma once

#include <cstdint>

namespace modak::winograd {

// Where the channels stand in memory of images; those of weights always come last.
enum class Layout { kFirst, kLast };

// A convolution of 3x3 with stride 1.
struct Shape {
  int64_t images, height, width, in, out_height, out_width, out;
  int64_t pad_h, pad_w;
};

// Whether it can be done so, with whole registers of channels on both sides, and is faster.
bool suits(const Shape& s);

// The same for the gradient of the weights, of what suits.
bool suits_sums(const Shape& s);

// y[n, i, j, k] = bias[k] + sum over p, q, c of x[n, i + p - pad_h, j + q - pad_w, c] * w[k, p, q, c]; bias may be null.
void convolve(const Shape& s, Layout layout, const float* x, const float* w, const float* bias, float* y);

// The gradient of convolve with respect to x: s is the shape of the convolution whose gradient is asked for.
void data_gradient(const Shape& s, Layout layout, const float* dy, const float* w, float* dx);

// The gradients with respect to w and to the bias.
void weight_gradient(const Shape& s, Layout layout, const float* x, const float* dy, float* dw, float* dbias);

}  // namespace modak::winograd
