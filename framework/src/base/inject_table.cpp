// SPDX-License-Identifier: Apache-2.0
#include "base/inject_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/text.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::uint32_t bit(FaultAction action) { return 1U << static_cast<unsigned>(action); }

constexpr std::uint32_t kEverywhere = bit(FaultAction::kKill) | bit(FaultAction::kStop) |
                                      bit(FaultAction::kThrow) | bit(FaultAction::kSleep) |
                                      bit(FaultAction::kExit);
constexpr std::uint32_t kNan = bit(FaultAction::kNan);
constexpr std::uint32_t kFull = bit(FaultAction::kEnospc);
constexpr std::uint32_t kFlip = bit(FaultAction::kBitflip);

using P = FaultPoint;
using T = Thrown;
// In the order of FaultPoint, which is that of a run.
constexpr std::array kPoints{
    PointSpec{P::kStartLaunch, "start.launch", T::kEnvironment, 0,
              "MPI is up, nothing has been read"},
    PointSpec{P::kStartReady, "start.ready", T::kForeign, 0,
              "all is ready, before the first step; the log is open"},
    PointSpec{P::kDataOpen, "data.open", T::kData, 0, "before the data sets are opened"},
    PointSpec{P::kDataDecode, "data.decode", T::kData, 0,
              "on a loader thread, before a sample is decoded"},
    PointSpec{P::kDataNext, "data.next", T::kData, 0, "before a micro-batch is taken"},
    PointSpec{P::kForward, "forward", T::kForeign, kNan,
              "after forward of a micro-batch; nan: its loss"},
    PointSpec{P::kBackward, "backward", T::kForeign, 0, "before backward of a micro-batch"},
    PointSpec{P::kGradientPost, "gradient.post", T::kForeign, kNan,
              "before a bucket of gradients is posted; nan: its first number"},
    PointSpec{P::kCollectiveWait, "collective.wait", T::kCommunication, 0,
              "before a wait for an operation between ranks"},
    PointSpec{P::kProgressStep, "progress.step", T::kCommunication, 0,
              "on the progress thread, before it advances an operation"},
    PointSpec{P::kAgree, "agree", T::kForeign, 0,
              "after backward, before ranks agree on loss and norm"},
    PointSpec{
        P::kUpdate, "update", T::kForeign, 0,
        "ranks have agreed, no parameter has changed (with train.update_in_backward all have)"},
    PointSpec{
        P::kUpdateDone, "update.done", T::kForeign, kFlip,
        "parameters have changed; bitflip: in this rank's copy of them, which its node shares"},
    PointSpec{P::kEvalBatch, "eval.batch", T::kForeign, 0, "before each batch of an evaluation"},
    PointSpec{P::kCheckpointBegin, "checkpoint.begin", T::kCheckpoint, 0,
              "on every rank, before a checkpoint is begun"},
    PointSpec{P::kCheckpointOpen, "checkpoint.open", T::kCheckpoint, kFull,
              "before its temporary directory is made"},
    PointSpec{P::kCheckpointWrite, "checkpoint.write", T::kCheckpoint, kFull,
              "before each piece of its files, of 1 MiB at most"},
    PointSpec{P::kCheckpointFsync, "checkpoint.fsync", T::kCheckpoint, kFull,
              "before each of its files is brought to the disk"},
    PointSpec{P::kCheckpointWritten, "checkpoint.written", T::kCheckpoint, kFlip,
              "model.h5 is on the disk; bitflip: in it"},
    PointSpec{P::kCheckpointManifest, "checkpoint.manifest", T::kCheckpoint, kFull,
              "before its manifest is written"},
    PointSpec{P::kCheckpointRename, "checkpoint.rename", T::kCheckpoint, kFull,
              "it is whole, before it gets its name"},
    PointSpec{P::kCheckpointLatest, "checkpoint.latest", T::kCheckpoint, kFull,
              "it is committed, before `latest` is moved to it"},
    PointSpec{P::kCheckpointBest, "checkpoint.best", T::kCheckpoint, kFull,
              "before `best` is moved to it"},
    PointSpec{P::kCheckpointRotate, "checkpoint.rotate", T::kCheckpoint, kFull,
              "before an old one is renamed for its deletion"},
    PointSpec{P::kCheckpointDelete, "checkpoint.delete", T::kCheckpoint, 0,
              "before an old one, renamed already, is deleted"},
    PointSpec{P::kResumeRead, "resume.read", T::kCheckpoint, 0,
              "on every rank, before a checkpoint is read"},
    PointSpec{P::kLogWrite, "log.write", T::kCheckpoint, kFull,
              "before each write to log.txt, metrics or state.json"},
    PointSpec{P::kEnd, "end", T::kForeign, 0, "all is done and saved, before MPI_Finalize"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    if (static_cast<std::size_t>(kPoints[i].point) != i) return false;
  }
  return true;
}
static_assert(in_order());

struct ActionSpec {
  FaultAction action;
  const char* name;
  const char* number;  // what stands behind "="; null: nothing does
  double most;         // of it
};
constexpr std::array kActions{
    ActionSpec{FaultAction::kKill, "kill", nullptr, 0},
    ActionSpec{FaultAction::kStop, "stop", nullptr, 0},
    ActionSpec{FaultAction::kThrow, "throw", nullptr, 0},
    ActionSpec{FaultAction::kSleep, "sleep", "SECONDS", 86400},
    ActionSpec{FaultAction::kExit, "exit", "CODE", 255},
    ActionSpec{FaultAction::kNan, "nan", nullptr, 0},
    ActionSpec{FaultAction::kEnospc, "enospc", nullptr, 0},
    ActionSpec{FaultAction::kBitflip, "bitflip", nullptr, 0},
};

std::string usage_of(const ActionSpec& spec) {
  return spec.number == nullptr ? spec.name : std::string(spec.name) + "=" + spec.number;
}

const ActionSpec& action_spec(FaultAction action) {
  return *std::ranges::find(kActions, action, &ActionSpec::action);
}

bool allowed(const PointSpec& point, FaultAction action) {
  return ((kEverywhere | point.extra) & bit(action)) != 0;
}

std::string actions_of(const PointSpec& point) {
  std::vector<std::string> names;
  for (const ActionSpec& spec : kActions) {
    if (allowed(point, spec.action)) names.push_back(usage_of(spec));
  }
  return joined(names);
}

template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& spec : table) names.emplace_back(spec.name);
  return names;
}

[[noreturn]] void refuse(const std::string& why) { throw ConfigError(printable(why)); }

// "'x' is no KIND; did you mean ...?", or all there are.
[[noreturn]] void refuse_unknown(const char* kind, const std::string& word,
                                 const std::vector<std::string>& known) {
  const std::string hint = did_you_mean(word, known);
  refuse("'" + word + "' is no " + kind + "; " +
         (hint.empty() ? "expected one of " + joined(known) : hint));
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void read_rank(Fault& fault, const std::string& value) {
  if (value == "all") {
    fault.rank = Fault::kEveryRank;
    return;
  }
  const auto rank = number_of<int>(value);
  if (!rank || *rank < 0) refuse("rank=" + value + "; expected a rank, from 0, or all");
  fault.rank = *rank;
}

void read_point(Fault& fault, const std::string& value) {
  const auto found = std::ranges::find(kPoints, std::string_view(value), &PointSpec::name);
  if (found == kPoints.end()) refuse_unknown("point", value, names_in(kPoints));
  fault.point = found->point;
}

void read_hit(Fault& fault, const std::string& value) {
  fault.every_hit = value.ends_with('+');
  const auto hit = number_of<std::int64_t>(
      std::string_view(value).substr(0, value.size() - (fault.every_hit ? 1 : 0)));
  if (!hit || *hit < 1) {
    refuse("hit=" + value +
           "; expected a number from 1, as in hit=3, or hit=3+ for that one and "
           "all later ones");
  }
  fault.hit = *hit;
}

void read_action(Fault& fault, const std::string& value) {
  const std::size_t equals = value.find('=');
  const std::string name = value.substr(0, equals);
  const auto found = std::ranges::find(kActions, std::string_view(name), &ActionSpec::name);
  if (found == kActions.end()) refuse_unknown("action", name, names_in(kActions));
  fault.action = found->action;
  if (found->number == nullptr) {
    if (equals != std::string::npos) refuse("action=" + value + "; expected action=" + name);
    return;
  }
  const auto number =
      number_of<double>(equals == std::string::npos ? std::string_view()
                                                    : std::string_view(value).substr(equals + 1));
  const bool whole =
      fault.action != FaultAction::kExit || (number && std::floor(*number) == *number);
  if (!number || !(*number >= 0 && *number <= found->most) || !whole) {
    std::ostringstream text;
    text << "action=" << value << "; expected action=" << usage_of(*found) << ", from 0 to "
         << found->most;
    refuse(text.str());
  }
  fault.number = *number;
}

struct KeySpec {
  const char* name;
  void (*read)(Fault& fault, const std::string& value);
  bool required;
};
constexpr std::array kKeys{KeySpec{"rank", read_rank, true}, KeySpec{"point", read_point, true},
                           KeySpec{"hit", read_hit, false}, KeySpec{"action", read_action, true}};

constexpr const char* kForm =
    "expected rank=RANK,point=POINT,hit=N,action=ACTION, as in "
    "rank=1,point=checkpoint.rename,hit=3,action=kill";

}  // namespace

const PointSpec& point_spec(FaultPoint point) { return kPoints[static_cast<std::size_t>(point)]; }

std::string action_text(const Fault& fault) {
  const ActionSpec& spec = action_spec(fault.action);
  std::ostringstream text;
  text << spec.name;
  if (spec.number != nullptr) text << "=" << fault.number;
  return text.str();
}

Fault parse_fault(const std::string& text) {
  Fault fault;
  std::array<bool, kKeys.size()> seen{};
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) refuse("'" + word + "'; " + kForm);
    const std::string key = word.substr(0, equals);
    const auto found = std::ranges::find(kKeys, std::string_view(key), &KeySpec::name);
    if (found == kKeys.end()) refuse_unknown("key", key, names_in(kKeys));
    bool& known = seen[static_cast<std::size_t>(found - kKeys.begin())];
    if (known) refuse(key + " stands there twice; " + kForm);
    known = true;
    found->read(fault, word.substr(equals + 1));
  }
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if (kKeys[i].required && !seen[i]) refuse(std::string(kKeys[i].name) + " is missing; " + kForm);
  }
  const PointSpec& point = point_spec(fault.point);
  if (!allowed(point, fault.action)) {
    refuse("action=" + action_text(fault) + " has no meaning at " + point.name +
           "; expected one of " + actions_of(point));
  }
  return fault;
}

std::string text_of(const Fault& fault) {
  return "rank=" + (fault.rank == Fault::kEveryRank ? "all" : std::to_string(fault.rank)) +
         ",point=" + point_spec(fault.point).name + ",hit=" + std::to_string(fault.hit) +
         (fault.every_hit ? "+" : "") + ",action=" + action_text(fault);
}

std::string fault_reference() {
  constexpr std::array kThrown{"3", "4", "6", "6", "70"};  // in the order of Thrown
  std::string text = "| point | when | code of `throw` | further actions |\n|---|---|---|---|\n";
  for (const PointSpec& point : kPoints) {
    std::vector<std::string> extra;
    for (const ActionSpec& spec : kActions) {
      if ((point.extra & bit(spec.action)) != 0) extra.push_back("`" + usage_of(spec) + "`");
    }
    text += std::string("| `") + point.name + "` | " + point.when + " | " +
            kThrown[static_cast<std::size_t>(point.thrown)] + " | " + joined(extra) + " |\n";
  }
  return text;
}

}  // namespace trireme
