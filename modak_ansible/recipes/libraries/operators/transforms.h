// Winograd's transforms of rows and columns of registers; see winograd.cpp.
#pragma once

#include "operators.h"

namespace modak::winograd {

constexpr int kTile = 4, kInner = 6, kPoints = kInner * kInner;
// The points at which polynomials are evaluated: 0, a, -a, b, -b and infinity, chosen for small rounding errors.
constexpr float kA = 0.625f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;

// Six pixels of the input, to values at the points.
inline void transform_input(const Floats* d, Floats* v) {
  const Floats even_a = d[4] - kB2 * d[2], odd_a = kA * (d[3] - kB2 * d[1]);
  const Floats even_b = d[4] - kA2 * d[2], odd_b = kB * (d[3] - kA2 * d[1]);
  v[0] = d[4] - (kA2 + kB2) * d[2] + (kA2 * kB2) * d[0];
  v[1] = even_a + odd_a;
  v[2] = even_a - odd_a;
  v[3] = even_b + odd_b;
  v[4] = even_b - odd_b;
  v[5] = d[5] - (kA2 + kB2) * d[3] + (kA2 * kB2) * d[1];
}

// Products at the points, to four pixels of the output.
inline void transform_output(const Floats* m, Floats* y) {
  const Floats plus_a = m[1] + m[2], minus_a = m[1] - m[2], plus_b = m[3] + m[4], minus_b = m[3] - m[4];
  y[0] = m[0] + plus_a + plus_b;
  y[1] = kA * minus_a + kB * minus_b;
  y[2] = kA2 * plus_a + kB2 * plus_b;
  y[3] = kA3 * minus_a + kB3 * minus_b + m[5];
}

// Four pixels of the output's gradient, to values at the points: the transpose of transform_output.
inline void transform_gradient(const Floats* d, Floats* z) {
  const Floats even_a = d[0] + kA2 * d[2], odd_a = kA * d[1] + kA3 * d[3];
  const Floats even_b = d[0] + kB2 * d[2], odd_b = kB * d[1] + kB3 * d[3];
  z[0] = d[0];
  z[1] = even_a + odd_a;
  z[2] = even_a - odd_a;
  z[3] = even_b + odd_b;
  z[4] = even_b - odd_b;
  z[5] = d[3];
}

constexpr float kScale0 = 1.0f / (kA2 * kB2), kScaleA = 1.0f / (2 * kA2 * (kA2 - kB2)),
                kScaleB = 1.0f / (2 * kB2 * (kB2 - kA2));

// Three weights, to values at the points.
inline void transform_weights(const Floats* g, Floats* u) {
  const Floats even_a = kScaleA * (g[0] + kA2 * g[2]), odd_a = (kScaleA * kA) * g[1];
  const Floats even_b = kScaleB * (g[0] + kB2 * g[2]), odd_b = (kScaleB * kB) * g[1];
  u[0] = kScale0 * g[0];
  u[1] = even_a + odd_a;
  u[2] = even_a - odd_a;
  u[3] = even_b + odd_b;
  u[4] = even_b - odd_b;
  u[5] = g[2];
}

// Gradients at the points, to those of three weights: the transpose of transform_weights.
inline void transform_weight_gradient(const Floats* u, Floats* g) {
  const Floats plus_a = kScaleA * (u[1] + u[2]), minus_a = (kScaleA * kA) * (u[1] - u[2]);
  const Floats plus_b = kScaleB * (u[3] + u[4]), minus_b = (kScaleB * kB) * (u[3] - u[4]);
  g[0] = kScale0 * u[0] + plus_a + plus_b;
  g[1] = minus_a + minus_b;
  g[2] = kA2 * plus_a + kB2 * plus_b + u[5];
}

// A transform of columns, then of rows: from From x From registers to To x To.
template <int From, int To, void (*Transform)(const Floats*, Floats*)>
inline void transform_both(const Floats* from, Floats* to) {
  Floats half[To * From];
#pragma GCC unroll 6
  for (int column = 0; column < From; ++column) {
    Floats in[From], out[To];
    for (int row = 0; row < From; ++row) in[row] = from[row * From + column];
    Transform(in, out);
    for (int row = 0; row < To; ++row) half[row * From + column] = out[row];
  }
#pragma GCC unroll 6
  for (int row = 0; row < To; ++row) Transform(half + row * From, to + row * To);
}

}  // namespace modak::winograd
