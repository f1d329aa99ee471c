// Sums over the numbers of a tensor, in slices, by loops of our own. No Python here.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace probing::console {

// In the order in which still.py names torch's types.
enum class NumberType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBfloat16, kComplex64, kComplex128 };
inline constexpr std::size_t kNumberTypes = 6;
inline constexpr std::size_t kNumberBytes[kNumberTypes] = {4, 8, 2, 2, 8, 16};

// Of the numbers seen so far. A complex one counts as two in the sums, as one where it is not finite.
struct NumberSums {
  double sum = 0;
  double sum_of_squares = 0;
  std::int64_t nonfinite = 0;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
};

inline double FromHalf(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const double sign = half >> 15 != 0 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

inline double FromBfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// One dimension of a tensor; strides in elements.
struct Dimension {
  std::int64_t size;
  std::int64_t stride;
};

// The elements of a tensor in some order that stays the same: the longest runs in memory innermost.
class Elements {
 public:
  Elements(const char* data, NumberType type, std::vector<Dimension> dimensions)
      : data_(data), type_(type), dimensions_(std::move(dimensions)) {
    std::erase_if(dimensions_, [](const Dimension& one) { return one.size == 1; });
    std::sort(dimensions_.begin(), dimensions_.end(),
              [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
    for (const Dimension& one : dimensions_) count_ *= one.size;
    // What lies side by side is one run.
    while (dimensions_.size() > 1) {
      const Dimension inner = dimensions_.back();
      Dimension& outer = dimensions_[dimensions_.size() - 2];
      if (outer.stride != inner.stride * inner.size) break;
      outer = {outer.size * inner.size, inner.stride};
      dimensions_.pop_back();
    }
    if (dimensions_.empty()) dimensions_.push_back({1, 1});
  }

  std::int64_t count() const { return count_; }

  // Adds up to `most` elements from `first` on; returns where to go on.
  std::int64_t Add(std::int64_t first, std::int64_t most, NumberSums& sums) const {
    std::int64_t at = first;
    const std::int64_t end = std::min(count_, first + std::max<std::int64_t>(most, 1));
    while (at < end) {
      std::int64_t rest = at;
      std::int64_t offset = 0;
      std::int64_t left_in_run = 0;
      for (std::size_t i = dimensions_.size(); i-- > 0;) {
        const std::int64_t index = rest % dimensions_[i].size;
        rest /= dimensions_[i].size;
        offset += index * dimensions_[i].stride;
        if (i + 1 == dimensions_.size()) left_in_run = dimensions_[i].size - index;
      }
      const std::int64_t run = std::min(left_in_run, end - at);
      AddRun(offset, dimensions_.back().stride, run, sums);
      at += run;
    }
    return at;
  }

 private:
  template <typename Read>
  static void AddEach(std::int64_t count, NumberSums& sums, const Read& read) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = read(i);
      sums.sum += value;
      sums.sum_of_squares += value * value;
      if (!std::isfinite(value)) ++sums.nonfinite;
      if (value < sums.smallest) sums.smallest = value;
      if (value > sums.largest) sums.largest = value;
    }
  }
  template <typename Real>
  static void AddComplex(const Real* pairs, std::int64_t stride, std::int64_t count, NumberSums& sums) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double real = pairs[2 * i * stride];
      const double imaginary = pairs[2 * i * stride + 1];
      sums.sum_of_squares += real * real + imaginary * imaginary;
      if (!std::isfinite(real) || !std::isfinite(imaginary)) ++sums.nonfinite;
    }
  }

  void AddRun(std::int64_t offset, std::int64_t stride, std::int64_t count, NumberSums& sums) const {
    const char* at =
        data_ + offset * static_cast<std::int64_t>(kNumberBytes[static_cast<std::size_t>(type_)]);
    switch (type_) {
      case NumberType::kFloat32: {
        const auto* numbers = reinterpret_cast<const float*>(at);
        return AddEach(count, sums, [&](std::int64_t i) { return double{numbers[i * stride]}; });
      }
      case NumberType::kFloat64: {
        const auto* numbers = reinterpret_cast<const double*>(at);
        return AddEach(count, sums, [&](std::int64_t i) { return numbers[i * stride]; });
      }
      case NumberType::kFloat16: {
        const auto* numbers = reinterpret_cast<const std::uint16_t*>(at);
        return AddEach(count, sums, [&](std::int64_t i) { return FromHalf(numbers[i * stride]); });
      }
      case NumberType::kBfloat16: {
        const auto* numbers = reinterpret_cast<const std::uint16_t*>(at);
        return AddEach(count, sums, [&](std::int64_t i) { return FromBfloat16(numbers[i * stride]); });
      }
      case NumberType::kComplex64:
        return AddComplex(reinterpret_cast<const float*>(at), stride, count, sums);
      case NumberType::kComplex128:
        return AddComplex(reinterpret_cast<const double*>(at), stride, count, sums);
    }
  }

  const char* data_;
  NumberType type_;
  std::vector<Dimension> dimensions_;
  std::int64_t count_ = 1;
};

}  // namespace probing::console
