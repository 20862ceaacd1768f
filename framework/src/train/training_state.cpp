// SPDX-License-Identifier: Apache-2.0
#include "train/training_state.hpp"

#include <nlohmann/json.hpp>

#include "trireme/error.hpp"

namespace trireme {

using Json = nlohmann::ordered_json;

std::string to_json(const StateDocument& document) {
  Json json;
  json["step"] = document.state.step;
  json["epoch"] = document.epoch;
  json["best_metric"] =
      document.state.best_metric ? Json(*document.state.best_metric) : Json(nullptr);
  json["best_step"] = document.state.best_step;
  json["evaluations_without_best"] = document.state.evaluations_without_best;
  json["evaluation_pending"] = document.state.evaluation_pending;
  json["evaluated_to"] = document.state.evaluated_to;
  json["world_size"] = document.world_size;
  json["num_nodes"] = document.num_nodes;
  json["environment"] = Json::parse(document.environment);
  json["config"] = document.config;
  return json.dump(2);
}

StateDocument parse_state(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    StateDocument document;
    document.state.step = json.at("step").get<std::int64_t>();
    document.epoch = json.at("epoch").get<double>();
    if (!json.at("best_metric").is_null())
      document.state.best_metric = json.at("best_metric").get<double>();
    document.state.best_step = json.at("best_step").get<std::int64_t>();
    document.state.evaluations_without_best =
        json.at("evaluations_without_best").get<std::int64_t>();
    document.state.evaluation_pending = json.value("evaluation_pending", false);
    const std::int64_t before = document.state.step - (document.state.evaluation_pending ? 1 : 0);
    document.state.evaluated_to = json.value("evaluated_to", before);
    document.world_size = json.at("world_size").get<int>();
    document.num_nodes = json.value("num_nodes", 0);
    document.environment = json.at("environment").dump();
    document.config = json.at("config").get<std::string>();
    return document;
  } catch (const Json::exception& error) {
    throw CheckpointError(where + ": the training state does not read: " + error.what() +
                          "; the checkpoint was written by another program or version");
  }
}

}  // namespace trireme
