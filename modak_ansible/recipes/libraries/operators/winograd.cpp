// A tile of 4x4 results takes 36 products in place of 144: both sides are transformed, multiplied, and transformed back.
#include "winograd.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "memory.h"
#include "operators.h"
#include "products.h"
#include "transforms.h"

namespace modak::winograd {
namespace {

// Numbers between two points' matrices: no power of two, for those would meet in one set of the cache.
int64_t spaced(int64_t count) { return count + (count % 1024 == 0 ? 3 * kWidth : 0) + kWidth; }

// ---- weights

// A transformed matrix for every point, in panels.
struct Panels : modak::Panels {
  int64_t size;  // between the matrices of two points

  Panels(int64_t rows, int64_t columns) : modak::Panels(rows, columns), size(spaced(rows * columns)) {}
};

// w[k, p, q, c] to u[point][panel of k][c][k]
void transform_all_weights(const Shape& s, const float* w, float* u, const Panels& panels) {
  at::parallel_for(0, s.out / kWidth, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(9 * kWidth * kWidth);
    for (int64_t block = begin; block < end; ++block) {
      const auto [start, width] = panels.place(block * kWidth);
      for (int64_t c0 = 0; c0 < s.in; c0 += kWidth) {
        for (int tap = 0; tap < 9; ++tap) {
          Floats rows[kWidth];
          for (int k = 0; k < kWidth; ++k) rows[k] = load(w + ((block * kWidth + k) * 9 + tap) * s.in + c0);
          transpose(rows);
          for (int c = 0; c < kWidth; ++c) store(buffer.data() + (c * 9 + tap) * kWidth, rows[c]);
        }
        for (int c = 0; c < kWidth; ++c) {
          Floats taps[9], points[kPoints];
          for (int tap = 0; tap < 9; ++tap) taps[tap] = load(buffer.data() + (c * 9 + tap) * kWidth);
          transform_both<3, kInner, transform_weights>(taps, points);
          float* to = u + start + (c0 + c) * width;
          for (int point = 0; point < kPoints; ++point) store(to + point * panels.size, points[point]);
        }
      }
    }
  });
}

// The same for the gradient of the data: turned by half, and with the channels' sides exchanged: u[point][panel of c][k][c]
void transform_turned_weights(const Shape& s, const float* w, float* u, const Panels& panels) {
  at::parallel_for(0, s.out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < s.in; c += kWidth) {
        const auto [start, width] = panels.place(c);
        Floats taps[9], points[kPoints];
        for (int tap = 0; tap < 9; ++tap) taps[tap] = load(w + (k * 9 + 8 - tap) * s.in + c);
        transform_both<3, kInner, transform_weights>(taps, points);
        float* to = u + start + k * width;
        for (int point = 0; point < kPoints; ++point) store(to + point * panels.size, points[point]);
      }
    }
  });
}

// ---- tiles

struct Tiles {
  int64_t down, across, count;

  explicit Tiles(const Shape& s)
      : down((s.out_height + kTile - 1) / kTile), across((s.out_width + kTile - 1) / kTile),
        count(s.images * down * across) {}

  // Image, and the first row and column of its results.
  std::array<int64_t, 3> place(int64_t tile) const {
    return {tile / (down * across), tile / across % down * kTile, tile % across * kTile};
  }
};

constexpr int64_t kFew = 64;

// How many tiles are worked on at once: both sides of their products are to stay in the second cache. Few tiles are one
// block of a single thread, so that the transformed weights are read once.
int64_t block_of(const Shape& s) {
  constexpr int64_t kCache = 512 * 1024 / sizeof(float);
  if (at::get_num_threads() == 1 && Tiles(s).count < kFew) return kFew;
  return std::clamp<int64_t>(kCache / (kPoints * (s.in + s.out)) / 12 * 12, 12, 96);
}

// For the gradient of the weights at least so many that their sums, in * out numbers, are not moved more than the tiles.
int64_t block_of_sums(const Shape& s) {
  return std::max(block_of(s), std::min<int64_t>(256, s.in * s.out / (s.in + s.out)));
}

// Pixels [Size, Size] from a row and a column on, a register of channels from c on; zeros outside of the image.
template <int Size>
inline void read(const float* image, int64_t height, int64_t width, int64_t channels, int64_t row, int64_t column,
                 int64_t c, Floats* pixels) {
  if (row >= 0 && column >= 0 && row + Size <= height && column + Size <= width) {
    const float* from = image + (row * width + column) * channels + c;
    for (int i = 0; i < Size; ++i) {
      for (int j = 0; j < Size; ++j) pixels[i * Size + j] = load(from + (i * width + j) * channels);
    }
    return;
  }
  for (int i = 0; i < Size; ++i) {
    for (int j = 0; j < Size; ++j) {
      const int64_t y = row + i, x = column + j;
      const bool inside = y >= 0 && y < height && x >= 0 && x < width;
      pixels[i * Size + j] = inside ? load(image + (y * width + x) * channels + c) : Floats{};
    }
  }
}

// Tiles [begin, end) of x to v[point][tile][channel], or to v[point][panel of channels][tile][channel].
void read_input(const Shape& s, const Tiles& tiles, const float* x, int64_t begin, int64_t end, bool in_panels, float* v,
                int64_t size) {
  const modak::Panels panels(end - begin, s.in);
  for (int64_t tile = begin; tile < end; ++tile) {
    const auto [image, row, column] = tiles.place(tile);
    const float* from = x + image * s.height * s.width * s.in;
    for (int64_t c = 0; c < s.in; c += kWidth) {
      const auto [start, width] = in_panels ? panels.place(c) : std::pair(c, s.in);
      float* to = v + start + (tile - begin) * width;
      Floats pixels[kPoints], points[kPoints];
      read<kInner>(from, s.height, s.width, s.in, row - s.pad_h, column - s.pad_w, c, pixels);
      transform_both<kInner, kInner, transform_input>(pixels, points);
      for (int point = 0; point < kPoints; ++point) store(to + point * size, points[point]);
    }
  }
}

void write_output(const Shape& s, const Tiles& tiles, const float* m, int64_t begin, int64_t end, int64_t size,
                  const float* bias, float* y) {
  for (int64_t tile = begin; tile < end; ++tile) {
    const auto [image, row, column] = tiles.place(tile);
    const float* from = m + (tile - begin) * s.out;
    float* to = y + ((image * s.out_height + row) * s.out_width + column) * s.out;
    const int64_t rows = std::min<int64_t>(kTile, s.out_height - row), columns = std::min<int64_t>(kTile, s.out_width - column);
    for (int64_t k = 0; k < s.out; k += kWidth) {
      Floats points[kPoints], pixels[kTile * kTile];
      for (int point = 0; point < kPoints; ++point) points[point] = load(from + point * size + k);
      transform_both<kInner, kTile, transform_output>(points, pixels);
      const Floats more = bias ? load(bias + k) : Floats{};
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) store(to + (i * s.out_width + j) * s.out + k, pixels[i * kTile + j] + more);
      }
    }
  }
}

// [channel][pixel] to [pixel][channel] or back: rows and columns of from.
void transpose_all(const float* from, int64_t rows, int64_t columns, float* to) {
  if (rows < kWidth || columns < kWidth) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
    }
    return;
  }
  for (int64_t i = 0; i < rows; i += kWidth) {
    const int64_t row = std::min(i, rows - kWidth);  // the last block may do some of its neighbour's again
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t column = std::min(j, columns - kWidth);
      Floats block[kWidth];
      for (int k = 0; k < kWidth; ++k) block[k] = load(from + (row + k) * columns + column);
      transpose(block);
      for (int k = 0; k < kWidth; ++k) store(to + (column + k) * rows + row, block[k]);
    }
  }
}

// How the work is shared out: blocks of tiles, or whole images where they go through a copy with the channels last.
struct Tasks {
  const Shape& shape;
  Layout layout;
  int64_t block, group, count;

  Tasks(const Shape& s, Layout layout, int64_t block) : shape(s), layout(layout), block(block) {
    const Tiles tiles(s);
    const int64_t of_image = tiles.count / s.images;
    group = std::min(s.images, (block + of_image - 1) / of_image);
    count = layout == Layout::kLast ? (tiles.count + block - 1) / block : (s.images + group - 1) / group;
  }
};

// One of them: images from a first one on, and which of their tiles.
struct Task {
  Shape shape;
  int64_t image, begin, end;

  Task(const Tasks& all, int64_t number) : shape(all.shape), image(0), begin(number * all.block) {
    if (all.layout == Layout::kFirst) {
      image = number * all.group, begin = 0;
      shape.images = std::min(all.group, all.shape.images - image);
    }
    end = Tiles(shape).count;
    if (all.layout == Layout::kLast) end = std::min(end, begin + all.block);
  }

  // A task's images with the channels last: as they are, or as a copy.
  const float* read(Layout layout, const float* images, int64_t pixels, int64_t channels, float* copy) const {
    const float* from = images + image * pixels * channels;
    if (layout == Layout::kLast) return from;
    for (int64_t i = 0; i < shape.images; ++i) {
      transpose_all(from + i * pixels * channels, channels, pixels, copy + i * pixels * channels);
    }
    return copy;
  }
};

void convolve_with(const Shape& s, Layout layout, const float* x, const float* u, const Panels& panels,
                   const float* bias, float* y) {
  const Tasks tasks(s, layout, block_of(s));
  const int64_t v_size = spaced(tasks.block * s.in), m_size = spaced(tasks.block * s.out);
  const int64_t pixels = s.height * s.width, out_pixels = s.out_height * s.out_width;
  at::parallel_for(0, tasks.count, 1, [&](int64_t first, int64_t last) {
    float* v = scratch(1, kPoints * (v_size + m_size));
    float* m = v + kPoints * v_size;
    const bool copies = layout == Layout::kFirst;
    float* in = scratch(3, copies ? tasks.group * pixels * s.in : 0);
    float* out = scratch(4, copies ? tasks.group * out_pixels * s.out : 0);
    for (int64_t number = first; number < last; ++number) {
      const Task task(tasks, number);
      const Tiles tiles(task.shape);
      const float* from = task.read(layout, x, pixels, s.in, in);
      for (int64_t begin = task.begin; begin < task.end; begin += tasks.block) {
        const int64_t end = std::min(begin + tasks.block, task.end);
        read_input(task.shape, tiles, from, begin, end, false, v, v_size);
        for (int point = 0; point < kPoints; ++point) {
          multiply({end - begin, s.out, s.in, v + point * v_size, s.in, 1, u + point * panels.size, m + point * m_size,
                    s.out, false});
        }
        write_output(task.shape, tiles, m, begin, end, m_size, bias, copies ? out : y);
      }
      for (int64_t i = 0; copies && i < task.shape.images; ++i) {
        transpose_all(out + i * out_pixels * s.out, out_pixels, s.out, y + (task.image + i) * out_pixels * s.out);
      }
    }
  });
}

// Tiles [begin, end) of the output's gradient to z[point][group of channels][tile][channel]; adds their sums to dbias.
void read_gradient(const Shape& s, const Tiles& tiles, const float* dy, int64_t begin, int64_t end, float* z,
                   int64_t size, float* dbias) {
  for (int64_t k = 0; k < s.out; k += kWidth) {
    const int64_t first = k / kGroup * kGroup, width = std::min(kGroup, s.out - first);
    Floats all{};
    for (int64_t tile = begin; tile < end; ++tile) {
      const auto [image, row, column] = tiles.place(tile);
      Floats pixels[kTile * kTile], points[kPoints], sums[kTile];
      read<kTile>(dy + image * s.out_height * s.out_width * s.out, s.out_height, s.out_width, s.out, row, column, k,
                  pixels);
      for (int i = 0; i < kTile; ++i) sums[i] = (pixels[i] + pixels[i + 4]) + (pixels[i + 8] + pixels[i + 12]);
      all += (sums[0] + sums[1]) + (sums[2] + sums[3]);
      transform_both<kTile, kInner, transform_gradient>(pixels, points);
      float* to = z + first * (end - begin) + (tile - begin) * width + k - first;
      for (int point = 0; point < kPoints; ++point) store(to + point * size, points[point]);
    }
    store(dbias + k, load(dbias + k) + all);
  }
}

// Sums at the points u[point][k][c] to the gradient of the weights dw[k, p, q, c].
void write_weights(const Shape& s, const float* u, int64_t u_size, float* dw) {
  at::parallel_for(0, s.out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < s.in; c += kWidth) {
        Floats points[kPoints], taps[9];
        for (int point = 0; point < kPoints; ++point) points[point] = load(u + point * u_size + k * s.in + c);
        transform_both<kInner, 3, transform_weight_gradient>(points, taps);
        for (int tap = 0; tap < 9; ++tap) store(dw + (k * 9 + tap) * s.in + c, taps[tap]);
      }
    }
  });
}

}  // namespace

bool suits(const Shape& s) {
  // with fewer tiles the weights are transformed for too little, and one block has no work for other threads
  const int64_t fewest = at::get_num_threads() == 1 ? kFew / 2 : kFew;
  return s.in % kWidth == 0 && s.out % kWidth == 0 && Tiles(s).count >= fewest;
}

bool suits_sums(const Shape& s) { return fits_each_thread(kPoints * s.in * s.out); }

void convolve(const Shape& s, Layout layout, const float* x, const float* w, const float* bias, float* y) {
  const Panels panels(s.in, s.out);
  float* u = scratch(0, kPoints * panels.size);
  transform_all_weights(s, w, u, panels);
  convolve_with(s, layout, x, u, panels, bias, y);
}

void data_gradient(const Shape& s, Layout layout, const float* dy, const float* w, float* dx) {
  const Panels panels(s.out, s.in);
  float* u = scratch(0, kPoints * panels.size);
  transform_turned_weights(s, w, u, panels);
  Shape turned{s.images, s.out_height, s.out_width, s.out, s.height, s.width, s.in, 2 - s.pad_h, 2 - s.pad_w};
  convolve_with(turned, layout, dy, u, panels, nullptr, dx);
}

void weight_gradient(const Shape& s, Layout layout, const float* x, const float* dy, float* dw, float* dbias) {
  const Tasks tasks(s, layout, block_of_sums(s));
  const int64_t v_size = spaced(tasks.block * s.in), z_size = spaced(tasks.block * s.out), u_size = spaced(s.in * s.out);
  const int64_t pixels = s.height * s.width, out_pixels = s.out_height * s.out_width, threads = at::get_num_threads();
  const bool copies = layout == Layout::kFirst;
  float* sums = scratch(0, kPoints * u_size);
  std::fill(dbias, dbias + s.out, 0.0f);
  std::mutex mutex;
  bool is_first = true;
  // each thread has sums of its own, so their order is that of the threads
  at::parallel_for(0, tasks.count, (tasks.count + threads - 1) / threads, [&](int64_t first, int64_t last) {
    const bool alone = last - first == tasks.count;
    float* v = scratch(1, kPoints * (v_size + z_size));
    float* z = v + kPoints * v_size;
    float* own = alone ? sums : scratch(2, kPoints * u_size);
    float* in = scratch(3, copies ? tasks.group * pixels * s.in : 0);
    float* out = scratch(4, copies ? tasks.group * out_pixels * s.out : 0);
    std::vector<float> bias(s.out);
    bool add = false;
    for (int64_t number = first; number < last; ++number) {
      const Task task(tasks, number);
      const Tiles tiles(task.shape);
      const float* from_x = task.read(layout, x, pixels, s.in, in);
      const float* from_dy = task.read(layout, dy, out_pixels, s.out, out);
      for (int64_t begin = task.begin; begin < task.end; begin += tasks.block, add = true) {
        const int64_t end = std::min(begin + tasks.block, task.end);
        read_input(task.shape, tiles, from_x, begin, end, true, v, v_size);
        read_gradient(task.shape, tiles, from_dy, begin, end, z, z_size, bias.data());
        for (int point = 0; point < kPoints; ++point) {
          multiply_groups(s.out, s.in, end - begin, z + point * z_size, v + point * v_size, own + point * u_size, s.in,
                          add);
        }
      }
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (int64_t k = 0; k < s.out; ++k) dbias[k] += bias[k];
    if (alone) return;
    for (int64_t i = 0; i < kPoints * u_size; ++i) sums[i] = is_first ? own[i] : sums[i] + own[i];
    is_first = false;
  });
  write_weights(s, sums, u_size, dw);
}

}  // namespace modak::winograd
