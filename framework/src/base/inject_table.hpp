// SPDX-License-Identifier: Apache-2.0
// What there is to inject, and where it makes sense.
#pragma once

#include <cstdint>
#include <string>

#include "base/inject.hpp"

namespace trireme {

// What `throw` throws: what would be thrown there if something had failed.
enum class Thrown : std::uint8_t { kData, kCheckpoint, kCommunication, kEnvironment, kForeign };

struct PointSpec {
  FaultPoint point;
  const char* name;
  Thrown thrown;
  std::uint32_t extra;  // bits 1 << FaultAction: besides those that make sense everywhere
  const char* when;
};

const PointSpec& point_spec(FaultPoint point);
std::string action_text(const Fault& fault);  // "sleep=5"

}  // namespace trireme
