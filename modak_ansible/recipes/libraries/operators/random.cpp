// The random numbers of dropout: xoshiro128++ (Blackman and Vigna, 2021), one generator in every lane of a register.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/bernoulli_native.h>

#include <algorithm>
#include <mutex>

#include "operators.h"

namespace modak {
namespace {

using at::Tensor;

constexpr int64_t kChunk = 1 << 16;  // numbers that have generators of their own

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

class Generators {
 public:
  explicit Generators(uint64_t seed) {
    for (int lane = 0; lane < kWidth; ++lane) {
      const uint64_t a = splitmix64(seed), b = splitmix64(seed);
      s0_[lane] = static_cast<uint32_t>(a);
      s1_[lane] = static_cast<uint32_t>(a >> 32);
      s2_[lane] = static_cast<uint32_t>(b);
      s3_[lane] = static_cast<uint32_t>(b >> 32) | 1u;  // never all zeros
    }
  }

  Words next() {
    const Words sum = s0_ + s3_, result = ((sum << 7) | (sum >> 25)) + s0_, t = s1_ << 9;
    s2_ ^= s0_;
    s3_ ^= s1_;
    s1_ ^= s2_;
    s0_ ^= s3_;
    s2_ ^= t;
    s3_ = (s3_ << 11) | (s3_ >> 21);
    return result;
  }

 private:
  Words s0_, s1_, s2_, s3_;
};

void fill_bernoulli(float* out, int64_t count, uint32_t threshold, uint64_t seed) {
  Generators even(seed), odd(~seed);  // two, for the steps of one wait for each other
  const Words ones = Words{} + 0x3f800000u;
  const auto draw = [&](Generators& from) { return (Floats)((Words)(from.next() < threshold) & ones); };
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    store(out + i, draw(even));
    store(out + i + kWidth, draw(odd));
  }
  for (Generators* from : {&even, &odd}) {
    const Floats last = draw(*from);
    for (int lane = 0; lane < kWidth && i < count; ++lane, ++i) out[i] = last[lane];
  }
}

// The seed comes from PyTorch's own generator, so that torch.manual_seed repeats a run; the numbers of a chunk do not
// depend on the number of threads.
Tensor& bernoulli_(Tensor& self, double p, std::optional<at::Generator> generator) {
  if (!is_plain_float(self) || !self.is_non_overlapping_and_dense() || self.numel() < 4096 || !(p > 0.0 && p < 1.0)) {
    return at::native::bernoulli_(self, p, generator);
  }
  auto* engine = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  uint64_t seed;
  {
    std::lock_guard<std::mutex> lock(engine->mutex_);
    seed = engine->random64();
  }
  const auto threshold = static_cast<uint32_t>(std::min(p * 4294967296.0, 4294967295.0));
  float* out = self.mutable_data_ptr<float>();
  const int64_t count = self.numel(), chunks = (count + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      uint64_t own = seed + 0xd1342543de82ef95ULL * static_cast<uint64_t>(chunk);
      fill_bernoulli(out + chunk * kChunk, std::min(kChunk, count - chunk * kChunk), threshold, splitmix64(own));
    }
  });
  return self;
}

}  // namespace

void register_random(torch::Library& library) { library.impl("bernoulli_.float", bernoulli_); }

}  // namespace modak
