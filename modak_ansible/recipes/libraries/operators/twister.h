// The Mersenne Twister (Matsumoto and Nishimura, 1998) in whole registers: the words that a loop over single ones gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace modak {

constexpr int kState = 624, kShift = 397;

inline uint32_t twisted(uint32_t first, uint32_t second) {
  return (((first & 0x80000000u) | (second & 0x7fffffffu)) >> 1) ^ (-(second & 1u) & 0x9908b0dfu);
}

// A new word needs old ones, 1 and 397 places on, or a new one 227 places before: no register reaches so far.
inline void refill(uint32_t* state) {
#pragma GCC ivdep
  for (int i = 0; i < kState - kShift; ++i) state[i] = state[i + kShift] ^ twisted(state[i], state[i + 1]);
#pragma GCC ivdep
  for (int i = kState - kShift; i < kState - 1; ++i) {
    state[i] = state[i + kShift - kState] ^ twisted(state[i], state[i + 1]);
  }
  state[kState - 1] = state[kShift - 1] ^ twisted(state[kState - 1], state[0]);
}

inline void temper(const uint32_t* state, int count, uint32_t* out) {
  for (int i = 0; i < count; ++i) {
    uint32_t y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    out[i] = y ^ (y >> 18);
  }
}

// A number is made of two words, the first one above; the lower 53 bits of it, as a fraction, are below p or are not.
inline void compare(const uint32_t* words, int pairs, int64_t threshold, float* out) {
  for (int i = 0; i < pairs; ++i) {
    uint64_t pair;
    std::memcpy(&pair, words + 2 * i, sizeof pair);
    const auto number = static_cast<int64_t>(((pair << 32) | (pair >> 32)) & ((uint64_t{1} << 53) - 1));
    out[i] = number < threshold ? 1.0f : 0.0f;
  }
}

// Ones with the probability p, and noughts. Of the state (left - 1) words are to be given yet, from next on.
inline void fill_bernoulli(float* out, int64_t count, double p, uint32_t* state, int& left, uint32_t& next) {
  const auto threshold = static_cast<int64_t>(std::ceil(std::ldexp(p, 53)));  // no rounding: p has 53 bits
  uint32_t words[kState + 1];
  int carried = 0;  // a word whose other half is in the next state
  for (int64_t done = 0; done < count;) {
    if (left == 1) {
      refill(state);
      left = kState + 1;
      next = 0;
    }
    const auto taken = static_cast<int>(std::min<int64_t>(2 * (count - done) - carried, left - 1));
    temper(state + next, taken, words + carried);
    left -= taken;
    next += static_cast<uint32_t>(taken);
    const int pairs = (carried + taken) / 2;
    compare(words, pairs, threshold, out + done);
    done += pairs;
    words[0] = words[2 * pairs];
    carried = (carried + taken) % 2;
  }
}

}  // namespace modak
