// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "unit/config/support.hpp"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// The part of JSON Schema 2020-12 that config_schema writes.
class Validator {
 public:
  bool accepts(const json& schema, const json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    return type_fits(schema, value) && any_fits(schema, value) && pattern_fits(schema, value) &&
           value_fits(schema, value) && members_fit(schema, value) &&
           conditions_hold(schema, value);
  }

 private:
  static bool type_fits(const json& schema, const json& value) {
    if (!schema.contains("type")) return true;
    const std::string type = schema["type"];
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number());
  }
  bool any_fits(const json& schema, const json& value) const {
    const json choices = schema.value("anyOf", json::array());
    return choices.empty() ||
           std::ranges::any_of(choices, [&](const json& choice) { return accepts(choice, value); });
  }
  static bool pattern_fits(const json& schema, const json& value) {
    if (!schema.contains("pattern") || !value.is_string()) return true;
    const auto text = value.get<std::string>();
    return text.size() >= schema.value("minLength", 0U) &&
           std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
  }
  static bool value_fits(const json& schema, const json& value) {
    if (schema.contains("const") && schema["const"] != value) return false;
    const auto& choices = schema.value("enum", json::array());
    if (!choices.empty() && std::ranges::find(choices, value) == choices.end()) return false;
    if (!value.is_number()) return true;
    return !(schema.contains("minimum") && value < schema["minimum"]) &&
           !(schema.contains("maximum") && value > schema["maximum"]) &&
           !(schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) &&
           !(schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]);
  }
  bool members_fit(const json& schema, const json& value) const {
    if (value.is_array() && schema.contains("items")) {
      return std::ranges::all_of(value, [&](const json& v) { return accepts(schema["items"], v); });
    }
    if (!value.is_object()) return true;
    for (const json& key : schema.value("required", json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, member] : value.items()) {
      const bool known = properties.contains(key);
      if (known && !accepts(properties[key], member)) return false;
      if (!known && !schema.value("additionalProperties", true)) return false;
    }
    return true;
  }
  bool conditions_hold(const json& schema, const json& value) const {
    for (const json& part : schema.value("allOf", json::array())) {
      if (accepts(part["if"], value) && !accepts(part["then"], value)) return false;
    }
    return true;
  }
};

json schema() { return json::parse(config_schema(test_parts())); }

const json kDocument = {
    {"model", {{"name", "mlp"}, {"hidden", {8}}}},
    {"data", {{"name", "synthetic"}, {"mean", {0.5}}}},
    {"optimizer", {{"name", "sgd"}, {"lr", 0.1}, {"groups", {{{"match", "*"}, {"lr", 0}}}}}},
    {"loss", {{"smoothing", 0.2}}},
    {"train", {{"global_batch", 32}}}};

json changed(const char* section, const char* key, const json& value) {
  json document = kDocument;
  document[section][key] = value;
  return document;
}

TEST(ConfigSchema, AcceptsWhatTheReaderAccepts) {
  EXPECT_TRUE(Validator().accepts(schema(), kDocument));
  EXPECT_TRUE(Validator().accepts(schema(), changed("schedule", "name", "cosine")));
  EXPECT_TRUE(Validator().accepts(schema(), changed("loss", "name", "cross_entropy")));
  EXPECT_TRUE(Validator().accepts(schema(), changed("network", "ucx_tls", {"tcp", "self"})));
  for (const json& time : {json(90), json(1.5), json("1h30m"), json("2d"), json("45s")})
    EXPECT_TRUE(Validator().accepts(schema(), changed("run", "time_limit", time))) << time;
}

TEST(ConfigSchema, RefusesWhatTheReaderRefuses) {
  const std::vector<json> documents = {
      changed("optimizer", "lerning_rate", 1),
      changed("optimizer", "lr", "fast"),
      changed("optimizer", "lr", 0),
      changed("optimizer", "momentum", 1),
      changed("optimizer", "name", "sdg"),
      changed("optimizer", "groups", {{{"lr", 1}}}),
      changed("optimizer", "groups", {{{"match", "*"}, {"rate", 1}}}),
      changed("train", "global_batch", 0),
      changed("train", "max_steps", 1.5),
      changed("data", "mean", 0.5),
      changed("data", "std", {0}),
      changed("data", "shuffle", "yes"),
      changed("data", "name", "imagenet"),
      changed("model", "name", "vit"),
      changed("metric", "name", "bleu"),
      changed("run", "time_limit", -1),
      changed("run", "time_limit", ""),
      changed("run", "time_limit", "90"),
      changed("run", "time_limit", "30m1h"),
      changed("network", "transport", "udp"),
      changed("network", "interfaces", "eth0"),
      changed("network", "ucx_tls", {"udp"}),
      changed("wires", "transport", "tcp"),
  };
  for (const json& document : documents) {
    EXPECT_FALSE(Validator().accepts(schema(), document)) << document;
  }
  json missing = kDocument;
  missing["train"].erase("global_batch");
  EXPECT_FALSE(Validator().accepts(schema(), missing));
  missing.erase("train");
  EXPECT_FALSE(Validator().accepts(schema(), missing));
}

TEST(ConfigSchema, OptionsBelongToThePartThatIsNamed) {
  EXPECT_FALSE(Validator().accepts(schema(), changed("model", "width", 8)));
  EXPECT_FALSE(Validator().accepts(schema(), changed("model", "hidden", {0})));
  json other = kDocument;
  other["model"] = {{"name", "convnet"}, {"width", 8}, {"dropout", 1}};
  EXPECT_TRUE(Validator().accepts(schema(), other));
  other["model"]["dropout"] = 0.5;  // an integer in this model, a number in mlp
  EXPECT_FALSE(Validator().accepts(schema(), other));
  EXPECT_FALSE(Validator().accepts(schema(), changed("loss", "name", "mse")))
      << "smoothing is left";
}

TEST(ConfigSchema, DescribesEveryKeyAndGivesItsDefault) {
  const json document = schema();
  for (const Section& section : config_sections()) {
    for (const FieldSpec& field : section.fields) {
      const json& key = document["properties"][section.name]["properties"][field.key];
      EXPECT_EQ(key["description"], field.help) << field.key;
      const bool fixed = !field.limits.required && field.limits.default_note.empty();
      EXPECT_EQ(key.contains("default"), fixed) << field.key;
    }
  }
}

TEST(ConfigReference, ListsEveryKeyOfEverySectionGroupAndPart) {
  const std::string page = config_reference(test_parts());
  for (const Section& section : config_sections()) {
    EXPECT_THAT(page, HasSubstr("\n## " + section.name + "\n\n" + section.help));
    for (const FieldSpec& field : section.fields) {
      EXPECT_THAT(page, HasSubstr("\n| `" + field.key + "` | "));
    }
  }
  for (const FieldSpec& field : group_fields()) EXPECT_THAT(page, HasSubstr(field.help));
  EXPECT_THAT(page, HasSubstr("### model.name: mlp\n\nA plain network.\n\n| key |"));
  EXPECT_THAT(page, HasSubstr("| `hidden` | list of integers | `[64, 32]` | [1, 4096] | Widths"));
  EXPECT_THAT(page, HasSubstr("### data.name: cifar10\n\nNo keys of its own.\n"));
  EXPECT_THAT(page, HasSubstr("| `name` | text | required | sgd \\| adam \\| adamw \\| muon |"));
  EXPECT_THAT(page, HasSubstr("Only for sgd, muon."));
}

}  // namespace
}  // namespace trireme
