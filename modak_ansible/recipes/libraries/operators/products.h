// Products of small matrices, and transposing, in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "operators.h"

namespace modak {

constexpr int kLine = 16;   // numbers in a line of the cache
constexpr int kAhead = 16;  // a panel may be in the third cache, so its rows are fetched so many before they are read
// Rows that are stored together: a multiple of six, the rows of a tile whose sums fill the registers.
constexpr int64_t kGroup = 3 * kWidth;

// c[Rows, Registers] (+)= sum over k of a[row, k] * b[k, :]; a's element is at a[row * a_row + k * a_column].
template <int Rows, int Registers>
inline void multiply_tile(int64_t count, const float* a, int64_t a_row, int64_t a_column, const float* b, float* c,
                          int64_t c_row, bool add) {
  constexpr int64_t b_row = Registers * kWidth;
  Floats sums[Rows][Registers];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int i = 0; i < Registers; ++i) sums[row][i] = Floats{};
  }
  for (int64_t k = 0; k < count; ++k) {
    for (int i = 0; i < Registers * kWidth; i += kLine) __builtin_prefetch(b + (k + kAhead) * b_row + i);
    Floats right[Registers];
#pragma GCC unroll 4
    for (int i = 0; i < Registers; ++i) right[i] = load(b + k * b_row + i * kWidth);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const float left = a[row * a_row + k * a_column];
#pragma GCC unroll 4
      for (int i = 0; i < Registers; ++i) sums[row][i] += left * right[i];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int i = 0; i < Registers; ++i) {
      float* to = c + row * c_row + i * kWidth;
      store(to, add ? load(to) + sums[row][i] : sums[row][i]);  // a short sum onto a long one: smaller errors
    }
  }
}

struct Product {
  int64_t rows, columns, count;
  const float* a;
  int64_t a_row, a_column;
  const float* b;  // panels of columns, each [count, its columns]
  float* c;
  int64_t c_row;
  bool add;
};

template <int Rows, int Registers>
inline int64_t multiply_rows(const Product& p, int64_t row, int64_t column) {
  for (; row + Rows <= p.rows; row += Rows) {
    multiply_tile<Rows, Registers>(p.count, p.a + row * p.a_row, p.a_row, p.a_column, p.b + column * p.count,
                                   p.c + row * p.c_row + column, p.c_row, p.add);
  }
  return row;
}

// The widest panel of columns: as many registers as leave room for six rows of sums.
#ifdef __AVX512F__
constexpr int kPanel = 4;
#else
constexpr int kPanel = 2;
#endif

template <int Registers>
inline void multiply_panel(const Product& p, int64_t column) {
  constexpr int most = Registers <= 2 && kWidth == 16 ? 12 : 6;
  int64_t row = 0;
  if constexpr (most > 6) row = multiply_rows<most, Registers>(p, row, column);
  row = multiply_rows<6, Registers>(p, row, column);
  row = multiply_rows<4, Registers>(p, row, column);
  row = multiply_rows<2, Registers>(p, row, column);
  multiply_rows<1, Registers>(p, row, column);
}

// Columns of the panel that begins where so many are left.
inline int64_t panel_width(int64_t left) {
  const int64_t registers = left / kWidth;
  return kWidth * (registers >= kPanel ? kPanel : registers >= 2 ? 2 : 1);
}

// Where panels of columns begin in a matrix: every panel is [rows, its columns].
struct Panels {
  int64_t rows, columns;

  Panels(int64_t rows, int64_t columns) : rows(rows), columns(columns) {}

  // Of a register of columns: where it stands in row 0, and how far rows are apart.
  std::pair<int64_t, int64_t> place(int64_t column) const {
    int64_t begin = column / (kPanel * kWidth) * (kPanel * kWidth);
    for (int64_t width; begin + (width = panel_width(columns - begin)) <= column;) begin += width;
    return {begin * rows + column - begin, panel_width(columns - begin)};
  }
};

inline void multiply(const Product& p) {
  for (int64_t column = 0; column < p.columns;) {
    const int64_t width = panel_width(p.columns - column);
    if (width == kPanel * kWidth) {
      multiply_panel<kPanel>(p, column);
    } else if (width == 2 * kWidth) {
      multiply_panel<2>(p, column);
    } else {
      multiply_panel<1>(p, column);
    }
    column += width;
  }
}

// c[rows, columns] (+)= sum over k of a[k, row] * b[k, column]: a in groups of rows, each [count, its rows].
inline void multiply_groups(int64_t rows, int64_t columns, int64_t count, const float* a, const float* b, float* c,
                            int64_t c_row, bool add) {
  for (int64_t column = 0, width; column < columns; column += width) {
    width = panel_width(columns - column);
    for (int64_t row = 0; row < rows; row += kGroup) {
      const int64_t group = std::min(kGroup, rows - row);
      multiply({group, width, count, a + row * count, 1, group, b + column * count, c + row * c_row + column, c_row,
                add});
    }
  }
}

// ---- transposing, by exchanging blocks of half the size again and again

template <int Step, int... Lane>
inline void exchange(Floats& a, Floats& b, std::integer_sequence<int, Lane...>) {
  const Floats x = a, y = b;
  a = __builtin_shufflevector(x, y, ((Lane & Step) ? kWidth + Lane - Step : Lane)...);
  b = __builtin_shufflevector(x, y, ((Lane & Step) ? kWidth + Lane : Lane + Step)...);
}

template <int Step = kWidth / 2>
inline void transpose(Floats* rows) {
#pragma GCC unroll 16
  for (int row = 0; row < kWidth; ++row) {
    if (!(row & Step)) exchange<Step>(rows[row], rows[row + Step], std::make_integer_sequence<int, kWidth>{});
  }
  if constexpr (Step > 1) transpose<Step / 2>(rows);
}

}  // namespace modak
