#include "daemon/rules.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/file.h"
#include "base/text.h"

namespace probing::daemon {
namespace {

constexpr std::string_view kSuffix = ".sql";
// The user's own code is what lies outside the standard library and installed packages.
constexpr std::string_view kPlaces = R"SQL((
  SELECT host, pid, CASE WHEN own IS NULL OR own = innermost THEN innermost
                    ELSE own || ', below ' || innermost END AS place
  FROM (SELECT host, pid, arg_min(text, depth) AS innermost, arg_min(text, depth) FILTER (is_own) AS own
        FROM (SELECT host, pid, depth, func || ' (' || parse_filename(file) || ':' || lineno || ')' AS text,
                     NOT regexp_matches(file, '/lib/python3\.\d+/|/(site|dist)-packages/|^<') AS is_own
              FROM global.python.backtrace)
        GROUP BY host, pid)))SQL";
constexpr std::size_t kMaxRuleBytes = 1 << 20;

std::string_view Trimmed(std::string_view text) { return Trim(text, " \t\r\n"); }

// The value of "-- key: value", or nothing.
bool TakeHeader(std::string_view line, std::string_view key, std::string& value) {
  if (!line.starts_with("--")) return false;
  line = Trimmed(line.substr(2));
  if (!line.starts_with(key) || !line.substr(key.size()).starts_with(':')) return false;
  value = std::string(Trimmed(line.substr(key.size() + 1)));
  return true;
}

}  // namespace

bool Rule::MayFind(std::string_view asked) const {
  if (asked == class_name) return true;
  for (std::string_view rest = also; !rest.empty();) {
    if (TakePart(rest, ' ') == asked) return true;
  }
  return false;
}

Result<Rule> ParseRule(std::string name, std::string_view text) {
  Rule rule;
  rule.name = std::move(name);
  bool has_statement = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = TakePart(rest, '\n');
    if (!has_statement && (TakeHeader(line, "class", rule.class_name) ||
                           TakeHeader(line, "also", rule.also) || TakeHeader(line, "about", rule.about)))
      continue;
    has_statement = has_statement || (!Trimmed(line).empty() && !Trimmed(line).starts_with("--"));
    rule.sql += std::string(line) + "\n";
  }
  if (rule.class_name.empty())
    return Error{Code::kUsage, "the rule " + rule.name + " has no class", "begin it with `-- class: NAME`"};
  if (!has_statement) return Error{Code::kUsage, "the rule " + rule.name + " has no statement", ""};
  return rule;
}

std::string RuleSql(const Rule& rule, const RuleValues& values) {
  const auto number = [](double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3f", value);
    return std::string(text.data());
  };
  const std::array words{
      std::pair<std::string_view, std::string>{"{places}", kPlaces},
      std::pair<std::string_view, std::string>{"{patience}", number(values.patience_s)},
      std::pair<std::string_view, std::string>{"{window}", number(values.window_s)},
      std::pair<std::string_view, std::string>{"{asked}", values.all_deaths ? "true" : "false"},
  };
  std::string sql = rule.sql;
  for (const auto& [word, text] : words) {
    for (std::size_t at = 0; (at = sql.find(word, at)) != std::string::npos; at += text.size())
      sql.replace(at, word.size(), text);
  }
  return sql;
}

std::vector<Rule> LoadRules(const std::string& directory, std::vector<std::string>& problems) {
  std::vector<Rule> rules;
  const auto add = [&](std::string name, std::string_view text) {
    Result<Rule> rule = ParseRule(std::move(name), text);
    if (!rule.ok()) {
      problems.push_back(rule.error().message);
      return;
    }
    const auto same = std::ranges::find(rules, rule->name, &Rule::name);
    if (same == rules.end())
      rules.push_back(std::move(*rule));
    else
      *same = std::move(*rule);
  };
  for (const RuleText& own : OwnRules()) add(std::string(own.name), own.text);
  const Result<std::vector<std::string>> names =
      directory.empty() ? std::vector<std::string>() : ListDirectory(directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (!name.ends_with(kSuffix)) continue;
    const Result<std::string> text = ReadFile(directory + "/" + name);
    if (!text.ok() || text->size() > kMaxRuleBytes) {
      problems.push_back(text.ok() ? directory + "/" + name + " is no SQL file" : text.error().message);
      continue;
    }
    add(name.substr(0, name.size() - kSuffix.size()), *text);
  }
  std::ranges::sort(rules, {}, &Rule::name);
  return rules;
}

std::vector<Rule> LoadStoreRules(const std::string& directory, std::vector<std::string>& problems) {
  std::vector<Rule> rules;
  std::string left_out;
  for (const RuleText& own : OwnStoreRules()) {
    Result<Rule> rule = ParseRule(std::string(own.name), own.text);
    if (rule.ok()) rules.push_back(std::move(*rule));
  }
  for (const Rule& rule : LoadRules(directory, problems)) {
    if (std::ranges::find(rules, rule.name, &Rule::name) == rules.end())
      left_out += (left_out.empty() ? "" : ", ") + rule.name;
  }
  if (!left_out.empty())
    problems.push_back("left out, because a store cannot be asked for them: " + left_out);
  return rules;
}

}  // namespace probing::daemon
