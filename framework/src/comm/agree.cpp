// SPDX-License-Identifier: Apache-2.0
#include "comm/agree.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "comm/hash.hpp"
#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Items = std::vector<std::string>;

// Lengths before items, so that {"ab", "c"} and {"a", "bc"} differ.
std::string pack(const Items& items) {
  std::string text;
  for (const std::string& item : items) text += std::to_string(item.size()) + ":" + item;
  return text;
}

Items unpack(const std::string& text) {
  Items items;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t colon = text.find(':', at);
    const std::size_t length = std::stoull(text.substr(at, colon - at));
    items.push_back(text.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  return items;
}

std::optional<std::string> item(const Items& items, std::size_t index) {
  if (index >= items.size()) return std::nullopt;
  return items[index];
}

// "'fc1.weight' on rank 0, 'fc2.weight' on rank 1-2"; empty: all have the same.
std::string differences(const std::vector<Items>& lists, std::size_t index) {
  std::map<std::optional<std::string>, std::vector<int>> ranks_with;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    ranks_with[item(lists[rank], index)].push_back(static_cast<int>(rank));
  }
  if (ranks_with.size() == 1) return {};
  std::string text;
  for (const auto& [value, ranks] : ranks_with) {
    text += (text.empty() ? "" : ", ") + (value ? "'" + *value + "'" : std::string("nothing")) +
            " on rank " + rank_list(ranks);
  }
  return text;
}

}  // namespace

void require_equal(Communicator& communicator, std::string_view what, const Items& items) {
  const std::string packed = pack(items);
  const std::vector<std::string> hashes =
      communicator.exchange(std::to_string(fnv1a(std::as_bytes(std::span(packed)))));
  const auto differs = [&](const std::string& other) { return other != hashes.front(); };
  if (std::none_of(hashes.begin(), hashes.end(), differs)) return;

  std::vector<Items> lists;  // [rank]
  for (const std::string& text : communicator.exchange(packed)) lists.push_back(unpack(text));
  for (std::size_t i = 0;; ++i) {  // ends, because the lists differ
    const std::string difference = differences(lists, i);
    if (difference.empty()) continue;
    throw CommError("ranks differ in " + std::string(what) + ", item " + std::to_string(i + 1) +
                    ": " + difference +
                    "; all ranks must run the same program with the same configuration");
  }
}

bool any_rank(Communicator& communicator, bool mine) {
  double count = mine ? 1 : 0;
  communicator.all_reduce({&count, 1, DType::kF64}).wait();
  return count > 0;
}

}  // namespace trireme
