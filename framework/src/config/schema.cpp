// SPDX-License-Identifier: Apache-2.0
// The JSON Schema that editors check a configuration against while it is written.
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "config/read.hpp"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Value& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

void add_range(Json& schema, const Limits& limits) {
  if (limits.min) schema[limits.above_min ? "exclusiveMinimum" : "minimum"] = *limits.min;
  if (limits.max) schema[limits.below_max ? "exclusiveMaximum" : "maximum"] = *limits.max;
}

Json scalar_schema(const char* type, const Limits& limits) {
  Json schema{{"type", type}};
  add_range(schema, limits);
  if (!limits.choices.empty()) schema["enum"] = limits.choices;
  return schema;
}

// A time as a text: "1h30m".
const Json kTime{
    {"type", "string"}, {"minLength", 2}, {"pattern", "^(\\d+d)?(\\d+h)?(\\d+m)?(\\d+s)?$"}};

Json type_schema(const FieldSpec& field) {
  switch (field.type) {
    case ValueType::kBool:
      return scalar_schema("boolean", field.limits);
    case ValueType::kInteger:
      return scalar_schema("integer", field.limits);
    case ValueType::kNumber:
      if (field.limits.time) return {{"anyOf", {scalar_schema("number", field.limits), kTime}}};
      return scalar_schema("number", field.limits);
    case ValueType::kText:
      return scalar_schema("string", field.limits);
    case ValueType::kIntegers:
      return {{"type", "array"}, {"items", scalar_schema("integer", field.limits)}};
    case ValueType::kNumbers:
      return {{"type", "array"}, {"items", scalar_schema("number", field.limits)}};
    case ValueType::kTexts:
      return {{"type", "array"}, {"items", scalar_schema("string", field.limits)}};
  }
  throw InternalError("a value type without a schema");
}

Json field_schema(const FieldSpec& field) {
  Json schema = type_schema(field);
  schema["description"] = field.help;
  const bool fixed_default = !field.limits.required && field.limits.default_note.empty();
  if (fixed_default && field.default_value.index() != 0) {
    schema["default"] = to_json(field.default_value);
  }
  return schema;
}

template <class Owner>
Json object_schema(const std::vector<Field<Owner>>& fields) {
  Json schema{{"type", "object"}, {"additionalProperties", false}};
  Json required = Json::array();
  for (const Field<Owner>& field : fields) {
    schema["properties"][field.key] = field_schema(field);
    if (field.limits.required) required.push_back(field.key);
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

// Options are properties of the section as a whole; a condition on `name` types those of the part
// that is chosen and forbids the others.
void add_parts(Json& schema, const Section& section, const DeclaredOptions& declared) {
  const std::vector<std::string> names = section.registered->names(declared);
  schema["properties"]["name"]["enum"] = names;
  for (const std::string& name : names) {
    for (const OptionSpec& option : declared_options(section, declared, name)) {
      schema["properties"][option.name] = true;
    }
  }
  const bool has_default = schema["properties"]["name"].contains("default");
  for (const std::string& name : names) {
    Json condition{{"properties", {{"name", {{"const", name}}}}}};
    // Without a name, the default's condition holds, and only that.
    if (!has_default || schema["properties"]["name"]["default"] != name) {
      condition["required"] = {"name"};
    }
    Json properties = Json::object();
    for (const auto& [key, unused] : schema["properties"].items()) {
      if (schema["properties"][key] == true) properties[key] = false;
    }
    for (const OptionSpec& option : declared_options(section, declared, name)) {
      properties[option.name] = field_schema(option_field(option));
    }
    if (!properties.empty()) {
      schema["allOf"].push_back({{"if", condition}, {"then", {{"properties", properties}}}});
    }
  }
}

}  // namespace

std::string config_schema(const DeclaredOptions& declared) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Trireme configuration"},
              {"type", "object"},
              {"additionalProperties", false}};
  Json required = Json::array();
  for (const Section& section : config_sections()) {
    Json part = object_schema(section.fields);
    part["description"] = section.help;
    if (section.has_groups) {
      part["properties"]["groups"] = {{"type", "array"}, {"items", object_schema(group_fields())}};
    }
    if (section.registered) add_parts(part, section, declared);
    if (part.contains("required")) required.push_back(section.name);
    schema["properties"][section.name] = part;
  }
  schema["required"] = required;
  return schema.dump(2) + "\n";
}

}  // namespace trireme
