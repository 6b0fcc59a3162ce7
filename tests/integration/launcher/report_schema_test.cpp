// Real reports against docs/report.schema.json, in both directions.
#include <regex.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;

namespace {

/// Checks documents against a JSON Schema, of which it knows what ours uses and refuses the rest.
/// Remembers which properties were met, so that a schema can be found too large.
class JsonSchema {
 public:
  using Json = nlohmann::json;

  explicit JsonSchema(Json schema) : root_(std::move(schema)) {}

  /// What is wrong first, with its place; empty: nothing.
  std::string wrong_with(const Json& document) { return check(document, root_, "#"); }

  /// `#/$defs/round/end`, ...: properties of the schema that no document had.
  std::set<std::string> never_met() const {
    std::set<std::string> all;
    collect(root_, "#", all);
    for (const std::string& name : met_) all.erase(name);
    return all;
  }

 private:
  /// `name` is the schema's place in the schema: that of its definition.
  std::string check(const Json& value, const Json& schema, const std::string& name) {
    for (const auto& [key, rule] : schema.items()) {
      std::string wrong = check_rule(value, schema, key, rule, name);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string check_rule(const Json& value, const Json& schema, const std::string& key,
                         const Json& rule, const std::string& name) {
    const auto no = [&](const std::string& what) {
      return name + ": " + value.dump() + " " + what;
    };
    static const std::set<std::string> kWords{"$schema", "title", "description", "$defs"};
    if (kWords.count(key) != 0) return "";
    if (key == "$ref") {
      const auto target = rule.get<std::string>();
      return check(value, root_.at(Json::json_pointer(target.substr(1))), target);
    }
    if (key == "type") return has_type(value, rule) ? "" : no("is no " + rule.dump());
    if (key == "enum")
      return std::find(rule.begin(), rule.end(), value) != rule.end() ? "" : no("is not listed");
    if (key == "minimum") return value >= rule ? "" : no("is too small");
    if (key == "maximum") return value <= rule ? "" : no("is too large");
    if (key == "pattern") return matches(value, rule) ? "" : no("has another form");
    if (key == "oneOf") return check_one(value, rule, name);
    if (key == "required") {
      for (const auto& wanted : rule)
        if (!value.contains(wanted)) return name + ": has no " + wanted.dump();
      return "";
    }
    if (key == "items") {
      for (const auto& item : value)
        if (std::string wrong = check(item, rule, name); !wrong.empty()) return wrong;
      return "";
    }
    if (key == "properties") return check_properties(value, schema, rule, name);
    if (key == "additionalProperties") return "";  // with `properties`
    return name + ": this checker does not know " + key;
  }

  std::string check_one(const Json& value, const Json& choices, const std::string& name) {
    int fitting = 0;
    std::string wrong;
    for (const auto& choice : choices) {
      const std::string problem = check(value, choice, name);
      fitting += problem.empty() ? 1 : 0;
      wrong += problem + "; ";
    }
    return fitting == 1 ? "" : name + ": " + std::to_string(fitting) + " choices fit: " + wrong;
  }

  std::string check_properties(const Json& value, const Json& schema, const Json& properties,
                               const std::string& name) {
    for (const auto& [key, member] : value.items()) {
      if (!properties.contains(key)) {
        if (schema.value("additionalProperties", true)) continue;
        return name + ": " + key + " is not in the schema";
      }
      met_.insert(name + "/" + key);
      if (std::string wrong = check(member, properties[key], name + "/" + key); !wrong.empty())
        return wrong;
    }
    return "";
  }

  // The C library's: what g++ makes of std::regex under sanitizers does not pass its own warnings.
  static bool matches(const std::string& text, const std::string& pattern) {
    regex_t compiled;
    if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
    const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
    regfree(&compiled);
    return found;
  }

  static bool has_type(const Json& value, const Json& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == "null" && value.is_null();
  }

  static void collect(const Json& schema, const std::string& name, std::set<std::string>& all) {
    if (schema.contains("properties"))
      for (const auto& [key, ignored] : schema["properties"].items()) all.insert(name + "/" + key);
    if (schema.contains("$defs"))
      for (const auto& [key, inner] : schema["$defs"].items())
        collect(inner, name + "/$defs/" + key, all);
  }

  Json root_;
  std::set<std::string> met_;
};

}  // namespace

TEST_CASE("reports match their schema and use every key of it") {
  std::ifstream stream(DDPRUN_SOURCE "/docs/report.schema.json");
  JsonSchema schema(nlohmann::json::parse(stream));
  const auto check = [&schema](const std::vector<std::string>& options, const std::string& script) {
    INFO(script);
    const auto report =
        nlohmann::json::parse(test::run_script(options, script, "/nowhere").report);  // no debugger
    INFO(report.dump(1));
    CHECK(schema.wrong_with(report) == "");
  };
  check({}, "exit 0");
  check({"--max-restarts=1"}, "$W progress 5 load; exit 3");
  check({"--progress-timeout=0.4"}, "exec $W progress 5 load sleep 60");
  check({"--nproc-per-node=2"},
        "test $RANK = 0 || kill -SEGV $$; trap '' TERM; echo 'OSError: Broken pipe' >&2; exit 1");
  check({"--nproc-per-node=2"},
        "test $RANK = 0 || exec $W progress 5 load sleep 60; "
        "echo 'RuntimeError: Timed out waiting 8000ms for recv' >&2; /bin/sleep 0.3; exit 1");
  check({"--nproc-per-node=2"},
        "test $RANK = 0 || exit 0; /bin/sleep 0.5; echo 'OSError: Broken pipe' >&2; exit 1");
  check({}, "kill -INT $PPID; exec $W sleep 60");
  check({"--chaos=1,kill=0.05,faults=1", "--max-restarts=1"},
        "test $TORCHELASTIC_RESTART_COUNT = 1 || exec $W sleep 60");
  const test::TempDir logs;
  check({"--nproc-per-node=2", "--redirects=3", "--log-dir=" + logs.path().string()},
        "trap '' TERM; echo 'ValueError: bad lr' >&2; exit 1");
  // Jobs of several nodes have these (many_nodes_verdict_test.cpp).
  std::set<std::string> never{"#/$defs/failed_worker/first_sign_uncertainty_seconds"};
  for (const char* key : {"evidence", "host", "ranks", "sign", "sign_text", "silent_for_seconds",
                          "silent_for_longer", "more_nodes"})
    never.insert(std::string("#/$defs/lost_node/") + key);
  for (const char* key : {"host", "reason", "times"})  // preflight_test.cpp
    never.insert(std::string("#/$defs/unsound_node/") + key);
  never.insert("#/$defs/round/kept_workers");  // elastic_test.cpp
  auto without_error = never;
  without_error.insert("#/$defs/failed_worker/error");
  CHECK(schema.never_met() == without_error);
  const test::TempDir folder;
  std::ofstream(folder / "broken") << "\x7f"
                                      "ELF";
  std::filesystem::permissions(folder / "broken", std::filesystem::perms::owner_all);
  test::Job job;
  const std::string file = (folder / "report.json").string();
  test::run({test::program("ddprun"), "--report=" + file, (folder / "broken").string()},
            job.settings());
  std::ifstream broken(file);
  CHECK(schema.wrong_with(nlohmann::json::parse(broken)) == "");
  CHECK(schema.never_met() == never);

  auto other = nlohmann::json{{"outcome", "lost"}};
  CHECK(schema.wrong_with(other) != "");
}
