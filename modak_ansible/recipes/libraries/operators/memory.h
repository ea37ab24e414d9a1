// Memory that a thread keeps between calls.
#pragma once

#include <ATen/Parallel.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace modak {

// Room for so many numbers, on pages of its own; what was in it is lost where it has to grow.
inline float* scratch(int which, int64_t count) {
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<float, Free> memory;
    int64_t count = 0;
  };
  thread_local std::array<Buffer, 5> buffers;
  Buffer& buffer = buffers[which];
  if (buffer.count < count) {
    const size_t bytes = (4 * count + 4095) / 4096 * 4096;
    buffer.memory.reset(static_cast<float*>(std::aligned_alloc(4096, bytes)));
    if (!buffer.memory) throw std::bad_alloc();
    buffer.count = count;
  }
  return buffer.memory.get();
}

// Whether every thread may have so many sums of its own: many threads would spend more time and memory on them than they
// save.
inline bool fits_each_thread(int64_t count) {
  constexpr int64_t kMost = 128 * 1024 * 1024 / sizeof(float);
  return at::get_num_threads() == 1 || at::get_num_threads() * count <= kMost;
}

}  // namespace modak
