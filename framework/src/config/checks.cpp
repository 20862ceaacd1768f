// SPDX-License-Identifier: Apache-2.0
#include "config/checks.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "config/fields.hpp"
#include "config/values.hpp"

namespace trireme {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

class Checker {
 public:
  Checker(const Config& config, const KeyPlaces& places, Problems& problems)
      : config_(config), places_(places), problems_(problems) {}

  void check_run() {
    const std::string& name = config_.run.name;
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == '-';
    };
    const bool plain = !name.empty() && name.size() <= 128 && name[0] != '.' && name[0] != '-' &&
                       std::ranges::all_of(name, allowed);
    const char* from_file =
        places_.written.contains("run.name") ? "" : " (from the file's name); set run.name";
    demand(plain, {"run.name"},
           quoted(name) + " is not a plain file name; expected at most 128 letters, digits, '.', " +
               "'_' and '-', not starting with '.' or '-'" + from_file);
    demand(!config_.run.dir.empty(), {"run.dir"}, "is empty; expected the path of a folder");
    demand(config_.run.time_limit == 0 || config_.run.time_limit > config_.run.time_margin,
           {"run.time_limit", "run.time_margin"},
           number_text(config_.run.time_limit) + " s leaves no time to train; expected more than " +
               "run.time_margin (" + number_text(config_.run.time_margin) + " s)");
  }

  void check_data() {
    const std::size_t means = config_.data.mean.size();
    const std::size_t stds = config_.data.std.size();
    demand(means == 0 || stds == 0 || means == stds, {"data.std", "data.mean"},
           "has " + std::to_string(stds) + " elements, data.mean has " + std::to_string(means) +
               "; expected one a channel in both");
  }

  void check_model() {
    const bool is_default = config_.model.init_std == ModelConfig{}.init_std;
    demand(
        config_.model.init == "normal" || is_default, {"model.init_std", "model.init"},
        "has no effect with model.init: " + config_.model.init + "; it is for normal; delete it");
    demand(config_.model.init_strict || !config_.model.init_from.empty(),
           {"model.init_strict", "model.init_from"},
           "has no effect without model.init_from; delete it");
    demand(!contains(config_.model.freeze, ""), {"model.freeze"},
           "has an empty pattern; expected one on parameter names such as 'layers.0.*'");
  }

  void check_optimizer() {
    const OptimizerConfig& optimizer = config_.optimizer;
    demand(!optimizer.nesterov || optimizer.momentum > 0,
           {"optimizer.nesterov", "optimizer.momentum"},
           "needs momentum; expected optimizer.momentum > 0");
    for (std::size_t i = 0; i < optimizer.groups.size(); ++i) check_group(optimizer.groups[i], i);
  }

  void check_schedule() {
    const ScheduleConfig& schedule = config_.schedule;
    demand(schedule.name != "step" || schedule.step_size > 0,
           {"schedule.step_size", "schedule.name"},
           "is missing; expected a number > 0 with schedule.name: step");
    demand(schedule.duration == 0 || schedule.warmup < schedule.duration,
           {"schedule.warmup", "schedule.duration"},
           number_text(schedule.warmup) + " is too long; expected less than schedule.duration (" +
               number_text(schedule.duration) + ")");
  }

  void check_train() {
    const TrainConfig& train = config_.train;
    demand(train.epochs > 0 || train.max_steps > 0, {"train.epochs", "train.max_steps"},
           "is missing; expected epochs > 0 or max_steps > 0 in section train");
    demand(train.micro_batch <= train.global_batch, {"train.micro_batch", "train.global_batch"},
           std::to_string(train.micro_batch) +
               " is out of range; expected at most train.global_batch (" +
               std::to_string(train.global_batch) + ")");
    demand(!train.update_in_backward || train.clip_norm == 0,
           {"train.update_in_backward", "train.clip_norm"},
           "knows no whole gradient to clip; expected train.clip_norm: 0");
    demand(train.patience == 0 || config_.data.validation_fraction > 0,
           {"train.patience", "data.validation_fraction"},
           "needs a validation split; expected data.validation_fraction > 0");
    demand(train.patience == 0 || train.eval_every_epochs > 0,
           {"train.patience", "train.eval_every_epochs"},
           "needs evaluations while training; expected train.eval_every_epochs > 0");
  }

  void check_parallel() {
    const ParallelConfig& parallel = config_.parallel;
    const bool chosen = parallel.bucket_mb == 0;
    demand(parallel.edge_bucket_mb == 0 || !chosen,
           {"parallel.edge_bucket_mb", "parallel.bucket_mb"},
           number_text(parallel.edge_bucket_mb) +
               " goes with a given size of the others, and parallel.bucket_mb: 0 leaves it to be "
               "chosen; set parallel.bucket_mb, too, or delete this key");
    demand(chosen || parallel.edge_bucket_mb <= parallel.bucket_mb,
           {"parallel.edge_bucket_mb", "parallel.bucket_mb"},
           number_text(parallel.edge_bucket_mb) +
               " is out of range; expected at most parallel.bucket_mb (" +
               number_text(parallel.bucket_mb) + ")");
  }

  void check_compression() {
    const ParallelConfig& parallel = config_.parallel;
    const ParallelConfig defaults;
    const std::string& kind = parallel.compression;
    const auto only_for = [&](bool is_default, bool fits, const std::string& key,
                              const std::string& kinds) {
      demand(is_default || fits, {"parallel." + key, "parallel.compression"},
             "has no effect with parallel.compression: " + kind + "; it is for " + kinds +
                 "; delete it");
    };
    only_for(!parallel.error_feedback, kind == "fp16" || kind == "bf16", "error_feedback",
             "fp16, bf16");
    only_for(parallel.powersgd_rank == defaults.powersgd_rank, kind == "powersgd", "powersgd_rank",
             "powersgd");
    only_for(parallel.powersgd_start == defaults.powersgd_start, kind == "powersgd",
             "powersgd_start", "powersgd");
    demand(config_.run.device == "cpu" || (kind != "fp16" && kind != "bf16"),
           {"parallel.compression", "run.device"},
           kind + " is for gradients of CPUs; expected none or powersgd with run.device: " +
               config_.run.device);
    demand(kind == "none" || parallel.shard_over == "node",
           {"parallel.compression", "parallel.shard_over"},
           kind + " needs parallel.shard_over: node");
    demand(kind == "none" || config_.train.precision == "fp32",
           {"parallel.compression", "train.precision"},
           kind + " cannot hold the gradients of train.precision: " + config_.train.precision +
               "; expected fp32");
  }

  void check_sync_every() {
    const ParallelConfig& parallel = config_.parallel;
    if (parallel.sync_every == 1) return;
    demand(parallel.compression == "none", {"parallel.sync_every", "parallel.compression"},
           "more than 1 sums no gradients over nodes, so that parallel.compression: " +
               parallel.compression +
               " has nothing to act on; expected parallel.compression: none");
    demand(parallel.shard_over == "node", {"parallel.sync_every", "parallel.shard_over"},
           "more than 1 lets each node update its own parameters; expected parallel.shard_over: "
           "node");
    demand(!parallel.sync_batch_norm, {"parallel.sync_batch_norm", "parallel.sync_every"},
           "shares statistics of nodes that train for themselves; expected parallel.sync_every: 1");
    demand(config_.data.drop_last, {"parallel.sync_every", "data.drop_last"},
           "more than 1 needs batches of equal size; expected data.drop_last: true");
  }

  void check_network() {
    const NetworkConfig& network = config_.network;
    constexpr std::int64_t kLeast = 1024;  // room for the library's own header
    demand(network.rendezvous_bytes == 0 || network.rendezvous_bytes >= kLeast,
           {"network.rendezvous_bytes"},
           std::to_string(network.rendezvous_bytes) + " is out of range; expected 0 or at least " +
               std::to_string(kLeast));
    check_words("network.interfaces", network.interfaces, "[eth0] or [10.0.0.0/16]");
    check_words("network.ucx_devices", network.ucx_devices, "[\"mlx5_0:1\"]");
    const bool all = network.ucx_tls.empty() || contains(network.ucx_tls, "all");
    demand(all || network.interfaces.empty() || contains(network.ucx_tls, "tcp"),
           {"network.interfaces", "network.ucx_tls"},
           "has no effect: network.ucx_tls lists no tcp; expected it there, or no interfaces");
  }

  // Keys that only some choices know must keep their defaults under the others.
  void check_only_for(const Section& section) {
    const auto chooser = std::ranges::find(section.fields, section.chooser, &FieldSpec::key);
    if (chooser == section.fields.end()) return;
    const std::string chooser_key = section.name + "." + section.chooser;
    std::vector<std::string> names{std::get<std::string>(chooser->get(config_))};
    if (section.has_groups) {
      for (const GroupConfig& group : config_.optimizer.groups) {
        if (group.name) names.push_back(*group.name);
      }
    }
    for (const Field<Config>& field : section.fields) {
      const std::vector<std::string>& only_for = field.limits.only_for;
      const bool used = only_for.empty() || std::ranges::any_of(names, [&](const auto& n) {
                          return contains(only_for, n);
                        });
      const std::string key = section.name + "." + field.key;
      demand(used || field.get(config_) == field.default_value, {key, chooser_key},
             "has no effect with " + chooser_key + ": " + names[0] + "; it is for " +
                 joined(only_for) + "; delete it");
    }
  }

 private:
  // Each becomes an element of a list with commas in an environment variable.
  void check_words(const std::string& key, const std::vector<std::string>& words,
                   const std::string& example) {
    const auto bad = std::ranges::find_if(words, [](const std::string& word) {
      return word.empty() || word.find_first_of(", ") != std::string::npos;
    });
    if (bad == words.end()) return;
    demand(false, {key}, quoted(*bad) + " is no name; expected a list such as " + example);
  }

  void check_group(const GroupConfig& group, std::size_t index) {
    const std::string prefix = "optimizer.groups." + std::to_string(index) + ".";
    const std::string name = group.name.value_or(config_.optimizer.name);
    for (const Field<GroupConfig>& field : group_fields()) {
      const std::vector<std::string>& only_for = field.limits.only_for;
      const bool set = field.get(group) != field.default_value;
      demand(!set || only_for.empty() || contains(only_for, name),
             {prefix + field.key, prefix + "name", "optimizer.name"},
             "has no effect with " + name + "; it is for " + joined(only_for) + "; delete it");
    }
    demand(!group.match.empty(), {prefix + "match"},
           "is empty; expected a pattern on parameter names such as '*.bias'");
    demand(!group.duration || config_.schedule.warmup < *group.duration,
           {prefix + "duration", "schedule.warmup"},
           "is too short; expected more than schedule.warmup (" +
               number_text(config_.schedule.warmup) + ")");
  }

  // Reports the first key where `holds` is false and all keys that it speaks of have usable values.
  void demand(bool holds, const std::vector<std::string>& keys, const std::string& text) {
    const auto unreadable = [&](const auto& key) { return places_.unreadable.contains(key); };
    if (holds || std::ranges::any_of(keys, unreadable)) return;
    const auto written = [&](const auto& key) { return places_.written.contains(key); };
    const auto found = std::ranges::find_if(keys, written);
    problems_.add(found == keys.end() ? Place{1, 1} : places_.written.at(*found), keys[0], text);
  }

  const Config& config_;
  const KeyPlaces& places_;
  Problems& problems_;
};

}  // namespace

void check_config(const Config& config, const KeyPlaces& places, Problems& problems) {
  Checker checker(config, places, problems);
  checker.check_run();
  checker.check_model();
  checker.check_data();
  checker.check_optimizer();
  checker.check_schedule();
  checker.check_train();
  checker.check_parallel();
  checker.check_compression();
  checker.check_sync_every();
  checker.check_network();
  for (const Section& section : config_sections()) checker.check_only_for(section);
}

void check_network(const Config& config, const KeyPlaces& places, Problems& problems) {
  Checker checker(config, places, problems);
  checker.check_network();
  checker.check_only_for(*std::ranges::find(config_sections(), "network", &Section::name));
}

}  // namespace trireme
