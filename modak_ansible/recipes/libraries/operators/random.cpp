// The random numbers of dropout: PyTorch's own ones, from its own generator, in whole registers.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/bernoulli_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <mutex>
#include <utility>

#include "operators.h"
#include "twister.h"

namespace modak {
namespace {

using at::Tensor;

bool is_ours(const Tensor& self, double p) {
  return is_plain_float(self) && self.is_non_overlapping_and_dense() && self.numel() >= 4096 && p > 0.0 && p < 1.0;
}

Tensor& filled(Tensor& self, double p, const std::optional<at::Generator>& generator) {
  auto* from = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  std::lock_guard<std::mutex> lock(from->mutex_);
  at::mt19937 engine = from->engine();
  at::mt19937_data_pod data = engine.data();
  fill_bernoulli(self.mutable_data_ptr<float>(), self.numel(), p, data.state_.data(), data.left_, data.next_);
  engine.set_data(data);
  from->set_engine(engine);
  return self;
}

// Another build of PyTorch may draw in another way, as by MKL: ours are taken where they are the same to the last one,
// and leave the generator as PyTorch leaves it.
bool is_alike() {
  const auto drawn = [](auto draw) {
    at::Generator generator = at::detail::createCPUGenerator(20261122);
    Tensor numbers = at::empty({20'001}, at::kFloat), after = at::empty({5'001}, at::kFloat);
    draw(numbers, generator);
    at::native::bernoulli_(after, 0.5, generator);
    return std::pair(numbers, after);
  };
  const auto own = drawn([](Tensor& to, auto& from) { at::native::bernoulli_(to, 0.3, from); });
  const auto ours = drawn([](Tensor& to, auto& from) { filled(to, 0.3, from); });
  return at::equal(own.first, ours.first) && at::equal(own.second, ours.second);
}

Tensor& bernoulli_(Tensor& self, double p, std::optional<at::Generator> generator) {
  static const bool alike = is_alike();
  return alike && is_ours(self, p) ? filled(self, p, generator) : at::native::bernoulli_(self, p, generator);
}

}  // namespace

void register_random(torch::Library& library) { library.impl("bernoulli_.float", bernoulli_); }

}  // namespace modak
