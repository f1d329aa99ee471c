#include "query/time_range.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"

namespace probing::query {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The same value whenever it is asked for in one transaction.
bool IsStableFunction(const std::string& name) {
  static constexpr std::array kStable{"now",
                                      "current_timestamp",
                                      "get_current_timestamp",
                                      "transaction_timestamp",
                                      "today",
                                      "-",
                                      "+",
                                      "*",
                                      "/",
                                      "current_date",
                                      "to_days",
                                      "to_hours",
                                      "to_minutes",
                                      "to_seconds",
                                      "to_milliseconds",
                                      "to_weeks",
                                      "to_microseconds",
                                      "to_months",
                                      "to_timestamp",
                                      "make_timestamp",
                                      "make_timestamp_ns",
                                      "make_timestamptz",
                                      "epoch_ms",
                                      "date_trunc",
                                      "strptime"};
  return std::ranges::find(kStable, name) != kStable.end();
}

// Constants, casts and such functions of them. Anything else may depend on a row.
bool IsStable(const Json& expression) {
  const std::string kind = TextOf(expression, "class");
  if (kind == "CONSTANT") return true;
  if (kind == "CAST") return expression.contains("child") && IsStable(expression["child"]);
  if (kind != "FUNCTION" || !IsStableFunction(TextOf(expression, "function_name"))) return false;
  const auto children = expression.find("children");
  return children != expression.end() && children->is_array() && std::ranges::all_of(*children, IsStable);
}

// `timestamp` or `name.timestamp`. REQUIRES: there is one table only.
bool IsTimestamp(const Json& expression) {
  if (TextOf(expression, "class") != "COLUMN_REF") return false;
  const auto names = expression.find("column_names");
  return names != expression.end() && names->is_array() && !names->empty() && names->back().is_string() &&
         LowerCase(names->back().get<std::string>()) == "timestamp";
}

void AddBound(const Json& expression, bool is_lower, std::vector<TimeBound>& bounds) {
  if (IsStable(expression)) bounds.push_back({is_lower, expression.dump()});
}

void AddComparison(const Json& left, const Json& right, const std::string& type,
                   std::vector<TimeBound>& bounds) {
  const bool on_the_left = IsTimestamp(left);
  if (!on_the_left && !IsTimestamp(right)) return;
  const Json& other = on_the_left ? right : left;
  const bool is_greater = type == "COMPARE_GREATERTHAN" || type == "COMPARE_GREATERTHANOREQUALTO";
  const bool is_less = type == "COMPARE_LESSTHAN" || type == "COMPARE_LESSTHANOREQUALTO";
  const bool is_equal = type == "COMPARE_EQUAL";
  if (is_equal || (on_the_left ? is_greater : is_less)) AddBound(other, true, bounds);
  if (is_equal || (on_the_left ? is_less : is_greater)) AddBound(other, false, bounds);
}

// What must hold for every row. Of OR and NOT nothing is used.
void AddConditions(const Json& expression, std::vector<TimeBound>& bounds) {
  const std::string kind = TextOf(expression, "class");
  const std::string type = TextOf(expression, "type");
  if (kind == "CONJUNCTION" && type == "CONJUNCTION_AND" && expression.contains("children")) {
    for (const Json& child : expression["children"]) AddConditions(child, bounds);
  } else if (kind == "COMPARISON" && expression.contains("left") && expression.contains("right")) {
    AddComparison(expression["left"], expression["right"], type, bounds);
  } else if (kind == "BETWEEN" && type == "COMPARE_BETWEEN" && expression.contains("input") &&
             expression.contains("lower") && expression.contains("upper")) {
    if (!IsTimestamp(expression["input"])) return;
    AddBound(expression["lower"], true, bounds);
    AddBound(expression["upper"], false, bounds);
  }
}

std::string NameOf(const Json& table) {
  std::string name;
  for (const char* key : {"catalog_name", "schema_name", "table_name"}) {
    const std::string part = TextOf(table, key);
    if (!part.empty()) name += (name.empty() ? "" : ".") + part;
  }
  return LowerCase(name);
}

void Walk(const Json& node, std::vector<TimeCondition>& found) {
  if (node.is_array()) {
    for (const Json& child : node) Walk(child, found);
    return;
  }
  if (!node.is_object()) return;
  const auto from = node.find("from_table");
  const auto where = node.find("where_clause");
  const bool reads_one = from != node.end() && TextOf(*from, "type") == "BASE_TABLE";
  if (TextOf(node, "type") == "SELECT_NODE" && reads_one) {
    TimeCondition& condition = found.emplace_back();
    condition.table = NameOf(*from);
    // Columns that are given other names are not ours to understand.
    const auto renamed = from->find("column_name_alias");
    const bool keeps_names = renamed == from->end() || renamed->empty();
    if (keeps_names && where != node.end()) AddConditions(*where, condition.bounds);
  } else if (TextOf(node, "type") == "BASE_TABLE") {
    found.push_back({NameOf(node), {}});  // in a join
  }
  for (const auto& [key, child] : node.items()) {
    if (!(reads_one && key == "from_table")) Walk(child, found);
  }
}

// Names that WITH gives: what is read under them is seen where they are defined.
void CollectCtes(const Json& node, std::set<std::string>& names) {
  if (node.is_object() && node.contains("cte_map") && node["cte_map"].contains("map")) {
    for (const Json& entry : node["cte_map"]["map"]) names.insert(LowerCase(TextOf(entry, "key")));
  }
  if (!node.is_structured()) return;
  for (const Json& child : node) CollectCtes(child, names);
}

}  // namespace

std::vector<TimeCondition> FindTimeConditions(std::string_view serialized) {
  std::vector<TimeCondition> found;
  const Json json = Json::parse(serialized, nullptr, false);
  if (!json.is_object() || !json.contains("statements")) return found;
  Walk(json["statements"], found);
  std::set<std::string> ctes;
  CollectCtes(json["statements"], ctes);
  std::erase_if(found, [&](const TimeCondition& condition) { return ctes.contains(condition.table); });
  return found;
}

std::string SelectStatement(std::string_view expression_json) {
  const Json nothing = nullptr;
  const Json from{{"type", "EMPTY"}, {"alias", ""}, {"sample", nothing}};
  const Json node{{"type", "SELECT_NODE"},
                  {"modifiers", Json::array()},
                  {"cte_map", {{"map", Json::array()}}},
                  {"select_list", Json::array({Json::parse(expression_json, nullptr, false)})},
                  {"from_table", from},
                  {"where_clause", nothing},
                  {"group_expressions", Json::array()},
                  {"group_sets", Json::array()},
                  {"aggregate_handling", "STANDARD_HANDLING"},
                  {"having", nothing},
                  {"sample", nothing},
                  {"qualify", nothing}};
  const Json statement{{"node", node}, {"named_param_map", Json::array()}};
  return Json{{"error", false}, {"statements", Json::array({statement})}}.dump();
}

}  // namespace probing::query
