// SPDX-License-Identifier: Apache-2.0
#include "comm/wire_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::size_t kBlock = 256;  // elements; scratch on the stack
constexpr float kMaxF16 = 65504.0f;
constexpr float kMaxBF16 = 3.3895314e38f;

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);  // quiet
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

// Where the processor has no instruction for it. |value| <= kMaxF16, infinite or NaN.
std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);  // NaN
  if (magnitude == 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // below 2^-14: multiples of 2^-24
    // Adding 0.5 lets the addition round to them; its last bits are the result.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

float from_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinite or NaN
    return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  }
  if (magnitude < 0x400) {
    return std::copysign(static_cast<float>(magnitude) * 0x1p-24f, std::bit_cast<float>(sign));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
}

#if defined(__x86_64__)
bool has_f16c() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // clang 14's __builtin_cpu_supports has no f16c
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0 &&
           __builtin_cpu_supports("avx") != 0;
  }();
  return has;
}

// The multiples of eight; returns how many elements that are.
__attribute__((target("avx,f16c"))) std::size_t round_eights(const float* values, std::size_t count,
                                                             std::uint16_t* wire) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(wire + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(values + i),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}

__attribute__((target("avx,f16c"))) std::size_t widen_eights(const std::uint16_t* wire,
                                                             std::size_t count, float* values) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(values + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(wire + i))));
  }
  return i;
}
#else
bool has_f16c() { return false; }
std::size_t round_eights(const float*, std::size_t, std::uint16_t*) { return 0; }
std::size_t widen_eights(const std::uint16_t*, std::size_t, float*) { return 0; }
#endif

void round_to(WireType type, const float* values, std::size_t count, std::uint16_t* wire) {
  if (type == WireType::kBF16) {
    std::transform(values, values + count, wire, to_bf16);
    return;
  }
  const std::size_t done = has_f16c() ? round_eights(values, count, wire) : 0;
  std::transform(values + done, values + count, wire + done, to_f16);
}

// One block: exact values in `sums`, what is left of them over.
void encode_block(WireType type, const float* sums, std::size_t count, std::uint16_t* wire,
                  float* residual, WireCounts* counts) {
  const float most = type == WireType::kF16 ? kMaxF16 : kMaxBF16;
  float clamped[kBlock], back[kBlock];
  std::uint64_t saturated = 0, underflowed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(sums[i]);
    const bool beyond = magnitude > most && magnitude <= std::numeric_limits<float>::max();
    clamped[i] = beyond ? std::copysign(most, sums[i]) : sums[i];
    saturated += beyond ? 1 : 0;
  }
  round_to(type, clamped, count, wire);
  decode(type, wire, count, back);
  for (std::size_t i = 0; i < count; ++i) underflowed += back[i] == 0 && sums[i] != 0 ? 1 : 0;
  if (residual != nullptr) {
    for (std::size_t i = 0; i < count; ++i) residual[i] = sums[i] - back[i];
  }
  if (counts == nullptr) return;
  counts->saturated += saturated;
  counts->underflowed += underflowed;
}

}  // namespace

std::size_t wire_size(WireType type, DType dtype) {
  return type == WireType::kSame ? size_of(dtype) : sizeof(std::uint16_t);
}

void encode(WireType type, const float* values, float* residual, std::size_t count,
            std::uint16_t* wire, WireCounts* counts) {
  TRIREME_ASSERT(type != WireType::kSame, "kSame needs no code");
  float sums[kBlock];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t length = std::min(kBlock, count - at);
    for (std::size_t i = 0; i < length; ++i) {
      sums[i] = residual == nullptr ? values[at + i] : values[at + i] + residual[at + i];
    }
    encode_block(type, sums, length, wire + at, residual == nullptr ? nullptr : residual + at,
                 counts);
  }
}

void decode(WireType type, const std::uint16_t* wire, std::size_t count, float* values) {
  TRIREME_ASSERT(type != WireType::kSame, "kSame needs no code");
  if (type == WireType::kBF16) {
    std::transform(wire, wire + count, values, from_bf16);
    return;
  }
  const std::size_t done = has_f16c() ? widen_eights(wire, count, values) : 0;
  std::transform(wire + done, wire + count, values + done, from_f16);
}

}  // namespace trireme
