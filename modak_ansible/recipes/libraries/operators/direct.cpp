// Products of pixels and channels, in blocks that stay in the caches.
#include "direct.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "memory.h"
#include "operators.h"
#include "products.h"

namespace modak::direct {
namespace {

constexpr int64_t kRows = 96;    // pixels that are worked on at once
constexpr int64_t kCount = 256;  // summands at once: a panel of so many stays in the second cache, and so do pixels
                                 // whose products are summed for the gradient of the weights

// ---- weights

// About equal parts of a sum, of whole registers.
int64_t part_of(int64_t count) {
  const int64_t parts = (count + kCount - 1) / kCount;
  return ((count + parts - 1) / parts + kWidth - 1) / kWidth * kWidth;
}

// w[k, c] to u[panel of k][c][k]
void arrange_turned(const float* w, int64_t out, int64_t in, float* u) {
  const Panels panels(in, out);
  at::parallel_for(0, out / kWidth, 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto [start, width] = panels.place(block * kWidth);
      for (int64_t c0 = 0; c0 < in; c0 += kWidth) {
        Floats rows[kWidth];
        for (int k = 0; k < kWidth; ++k) rows[k] = load(w + (block * kWidth + k) * in + c0);
        transpose(rows);
        for (int c = 0; c < kWidth; ++c) store(u + start + (c0 + c) * width, rows[c]);
      }
    }
  });
}

// ---- rows of numbers, one for each pixel

// Columns of a row to where they stand in panels, or in groups, of so many rows.
inline void put(const float* from, int64_t columns, bool panels, int64_t rows, int64_t row, float* u) {
  for (int64_t begin = 0, width; begin < columns; begin += width) {
    width = panels ? panel_width(columns - begin) : std::min(kGroup, columns - begin);
    float* to = u + begin * rows + row * width;
    for (int64_t i = 0; i < width; i += kWidth) store(to + i, from ? load(from + begin + i) : Floats{});
  }
}

// w[k, tap, c] to u[tap][panel of c][k][c]
void arrange(const float* w, int64_t out, int64_t taps, int64_t in, float* u) {
  at::parallel_for(0, out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t tap = 0; tap < taps; ++tap) put(w + (k * taps + tap) * in, in, true, out, k, u + tap * in * out);
    }
  });
}

// Where the number of a pixel stands that a tap of the window reads; null outside of the image.
inline const float* read_by(const Shape& s, const float* x, int64_t pixel, int64_t tap) {
  const int64_t image = pixel / (s.out_height * s.out_width), place = pixel % (s.out_height * s.out_width);
  const int64_t row = place / s.out_width * s.stride_h + tap / s.taps_w * s.dilation_h - s.pad_h;
  const int64_t column = place % s.out_width * s.stride_w + tap % s.taps_w * s.dilation_w - s.pad_w;
  if (row < 0 || row >= s.height || column < 0 || column >= s.width) return nullptr;
  return x + ((image * s.height + row) * s.width + column) * s.in;
}

inline void copy_row(float* to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; i += kWidth) store(to + i, from ? load(from + i) : Floats{});
}

// y[row, columns] (+)= sum over count of x[row, count] * u[panel][count][its columns], for few rows.
void multiply_by_panels(int64_t rows, int64_t count, int64_t columns, const float* x, const float* u, float* y,
                        bool add) {
  const int64_t part = part_of(count);
  for (int64_t k = 0; k < count; k += part) {
    const int64_t summands = std::min(part, count - k);
    for (int64_t begin = 0, width; begin < columns; begin += width) {
      width = panel_width(columns - begin);
      multiply({rows, width, summands, x + k, count, 1, u + begin * count + k * width, y + begin, columns,
                add || k > 0});
    }
  }
}

// ---- the gradient of the data: pixels that are read by the same taps

// Places along a side of an image that are so far from a multiple of the stride, and the taps that read them.
struct Side {
  int64_t first, stride, count;
  std::vector<int64_t> taps;

  Side(int64_t first, int64_t length, int64_t stride, int64_t all, int64_t pad, int64_t dilation)
      : first(first), stride(stride), count((length - first + stride - 1) / stride) {
    for (int64_t tap = 0; tap < all; ++tap) {
      if ((first + pad - tap * dilation) % stride == 0) taps.push_back(tap);
    }
  }
};

void data_gradient_of(const Shape& s, const Side& rows, const Side& columns, const float* dy, const float* u,
                      float* dx) {
  const int64_t pixels = s.images * rows.count * columns.count;
  const auto place = [&](int64_t pixel) {
    return std::array<int64_t, 3>{pixel / (rows.count * columns.count),
                                  rows.first + pixel / columns.count % rows.count * rows.stride,
                                  columns.first + pixel % columns.count * columns.stride};
  };
  at::parallel_for(0, (pixels + kRows - 1) / kRows, 1, [&](int64_t first, int64_t last) {
    float* from = scratch(1, kRows * s.out);
    float* sums = scratch(2, kRows * s.in);
    for (int64_t begin = first * kRows; begin < std::min(last * kRows, pixels); begin += kRows) {
      const int64_t count = std::min(kRows, pixels - begin);
      bool add = false;
      for (const int64_t tap_h : rows.taps) {
        for (const int64_t tap_w : columns.taps) {
          for (int64_t i = 0; i < count; ++i) {
            const auto [image, y, x] = place(begin + i);
            const int64_t above = y + s.pad_h - tap_h * s.dilation_h, left = x + s.pad_w - tap_w * s.dilation_w;
            const int64_t row = above / s.stride_h, column = left / s.stride_w;
            const bool inside = above >= 0 && row < s.out_height && left >= 0 && column < s.out_width;
            const float* at = dy + ((image * s.out_height + row) * s.out_width + column) * s.out;
            copy_row(from + i * s.out, inside ? at : nullptr, s.out);
          }
          multiply_by_panels(count, s.out, s.in, from, u + (tap_h * s.taps_w + tap_w) * s.in * s.out, sums, add);
          add = true;
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto [image, y, x] = place(begin + i);
        copy_row(dx + ((image * s.height + y) * s.width + x) * s.in, add ? sums + i * s.in : nullptr, s.in);
      }
    }
  });
}

}  // namespace

bool suits(const Shape& s) { return s.in % kWidth == 0 && s.out % kWidth == 0 && s.out_pixels() >= kRows; }

bool suits_sums(const Shape& s) { return fits_each_thread(s.taps() * s.in * s.out); }

void convolve(const Shape& s, const float* x, const float* w, const float* bias, float* y) {
  float* u = scratch(0, s.in * s.out);
  arrange_turned(w, s.out, s.in, u);
  const int64_t pixels = s.out_pixels();
  at::parallel_for(0, (pixels + kRows - 1) / kRows, 1, [&](int64_t first, int64_t last) {
    float* gathered = scratch(1, s.is_plain() ? 0 : kRows * s.in);
    for (int64_t begin = first * kRows; begin < std::min(last * kRows, pixels); begin += kRows) {
      const int64_t count = std::min(kRows, pixels - begin);
      float* to = y + begin * s.out;
      for (int64_t i = 0; bias && i < count; ++i) copy_row(to + i * s.out, bias, s.out);
      for (int64_t i = 0; !s.is_plain() && i < count; ++i) {
        copy_row(gathered + i * s.in, read_by(s, x, begin + i, 0), s.in);
      }
      multiply_by_panels(count, s.in, s.out, s.is_plain() ? x + begin * s.in : gathered, u, to, bias);
    }
  });
}

void data_gradient(const Shape& s, const float* dy, const float* w, float* dx) {
  float* u = scratch(0, s.taps() * s.in * s.out);
  arrange(w, s.out, s.taps(), s.in, u);
  if (s.is_plain()) {
    const int64_t pixels = s.pixels();
    at::parallel_for(0, (pixels + kRows - 1) / kRows, 1, [&](int64_t first, int64_t last) {
      for (int64_t begin = first * kRows; begin < std::min(last * kRows, pixels); begin += kRows) {
        multiply_by_panels(std::min(kRows, pixels - begin), s.out, s.in, dy + begin * s.out, u, dx + begin * s.in, false);
      }
    });
    return;
  }
  for (int64_t row = 0; row < std::min(s.stride_h, s.height); ++row) {
    for (int64_t column = 0; column < std::min(s.stride_w, s.width); ++column) {
      data_gradient_of(s, Side(row, s.height, s.stride_h, s.taps_h, s.pad_h, s.dilation_h),
                       Side(column, s.width, s.stride_w, s.taps_w, s.pad_w, s.dilation_w), dy, u, dx);
    }
  }
}

void weight_gradient(const Shape& s, const float* x, const float* dy, float* dw) {
  const int64_t pixels = s.out_pixels(), size = s.taps() * s.in * s.out, row_size = s.taps() * s.in;
  const int64_t blocks = (pixels + kCount - 1) / kCount, threads = at::get_num_threads();
  const bool is_panel = s.is_plain() && panel_width(s.in) == s.in;  // as it is
  std::mutex mutex;
  bool is_first = true;
  // each thread has sums of its own, so their order is that of the threads
  at::parallel_for(0, blocks, (blocks + threads - 1) / threads, [&](int64_t first, int64_t last) {
    const bool alone = last - first == blocks;
    float* panels = scratch(1, is_panel ? 0 : kCount * s.in);
    float* groups = scratch(2, kCount * s.out);
    float* sums = alone ? dw : scratch(3, size);
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kCount, count = std::min(kCount, pixels - begin);
      for (int64_t i = 0; i < count; ++i) put(dy + (begin + i) * s.out, s.out, false, count, i, groups);
      for (int64_t tap = 0; tap < s.taps(); ++tap) {
        for (int64_t i = 0; !is_panel && i < count; ++i) {
          put(s.is_plain() ? x + (begin + i) * s.in : read_by(s, x, begin + i, tap), s.in, true, count, i, panels);
        }
        const float* from = is_panel ? x + begin * s.in : panels;
        multiply_groups(s.out, s.in, count, groups, from, sums + tap * s.in, row_size, block > first);
      }
    }
    if (alone) return;
    std::lock_guard<std::mutex> lock(mutex);
    for (int64_t i = 0; i < size; ++i) dw[i] = is_first ? sums[i] : dw[i] + sums[i];
    is_first = false;
  });
}

}  // namespace modak::direct
