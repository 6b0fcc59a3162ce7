#include "launcher/ssh/node_messages.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/number_in.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kPlanWord = "ddprun-plan ";
constexpr std::string_view kSignalWord = "signal ";
constexpr int kSignalMax = 64;
/// Longer ones count as this.
constexpr std::chrono::milliseconds kTimeMax = std::chrono::hours(24 * 365);

/// A body: NAME, NUL, VALUE, NUL, and so on. No NUL can be in a path, an argument or a variable;
/// one in a text for people ends it.
class BodyWriter {
 public:
  void add(std::string_view name, std::string_view value) {
    body_.append(name).push_back('\0');
    body_.append(value.substr(0, value.find('\0'))).push_back('\0');
  }
  void add(std::string_view name, std::chrono::milliseconds value) {
    add(name, fmt::format("{}", std::min(value, kTimeMax).count()));
  }
  void add(std::string_view name, int value) { add(name, fmt::format("{}", value)); }
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::string body_;
};

/// Takes the value; false: it is not what it should be.
using Field = std::function<bool(std::string_view value)>;
using Fields = std::map<std::string_view, Field>;

Field text(std::string& into) {
  return [&into](std::string_view value) {
    into = value;
    return true;
  };
}
Field number(int& into, int least) {
  return [&into, least](std::string_view value) {
    const auto found = number_in<int>(value);
    if (!found || *found < least) return false;
    into = *found;
    return true;
  };
}
Field time(std::chrono::milliseconds& into) {
  return [&into](std::string_view value) {
    const auto found = number_in<std::int64_t>(value);
    if (!found || *found < 0 || *found > kTimeMax.count()) return false;
    into = std::chrono::milliseconds(*found);
    return true;
  };
}
Field signals(std::vector<int>& into) {
  return [&into](std::string_view value) {
    const auto found = number_in<int>(value);
    if (!found || *found < 1 || *found > kSignalMax) return false;
    into.push_back(*found);
    return true;
  };
}
Field flag(bool& into) {
  return [&into](std::string_view value) {
    into = value == "1";
    return value == "1" || value == "0";
  };
}
Field list(std::vector<std::string>& into) {
  return [&into](std::string_view value) {
    into.emplace_back(value);
    return true;
  };
}

/// Empty: it was read.
std::string read_body(std::string_view body, const Fields& fields) {
  if (!body.empty() && body.back() != '\0') return "its last value has no end";
  const auto next = [&body] {
    const auto end = body.find('\0');
    const std::string_view word = body.substr(0, end);
    body.remove_prefix(end + 1);
    return word;
  };
  while (!body.empty()) {
    const std::string_view name = next();
    if (body.empty()) return "its last name has no value";
    const std::string_view value = next();
    const auto field = fields.find(name);
    if (field == fields.end()) return "it has a name that is not known";
    if (!field->second(value)) return fmt::format("its value of {} is wrong", field->first);
  }
  return "";
}

template <class T>
boost::system::result<T, std::string> no_such(std::string why) {
  return {boost::system::in_place_error, std::move(why)};
}

}  // namespace

std::string encode(const NodePlan& plan) {
  BodyWriter writer;
  writer.add("host", plan.host);
  writer.add("run-id", plan.run_id);
  writer.add("secret", plan.secret);
  writer.add("mark", plan.mark);
  writer.add("launcher", plan.launcher);
  writer.add("rank", plan.rank);
  writer.add("min-nodes", plan.min_nodes);
  writer.add("max-nodes", plan.max_nodes);
  writer.add("slots", plan.slots);
  writer.add("wants-error-file", plan.wants_error_file ? 1 : 0);
  writer.add("stdout-is-terminal", plan.stdout_is_terminal ? 1 : 0);
  writer.add("stderr-is-terminal", plan.stderr_is_terminal ? 1 : 0);
  writer.add("grace-period", plan.stop.grace_period);
  writer.add("kill-timeout", plan.stop.kill_timeout);
  for (const int signal : plan.stop.signals) writer.add("stop-signal", signal);
  writer.add("folder", plan.folder);
  for (const std::string& word : plan.command) writer.add("word", word);
  for (const std::string& variable : plan.environment) writer.add("variable", variable);
  return fmt::format("{}{}\n", kPlanWord, writer.body().size()) + writer.body();
}

boost::system::result<NodePlan, std::string> decode_plan(std::string_view body) {
  NodePlan plan;
  const std::string wrong = read_body(body, {{"host", text(plan.host)},
                                             {"run-id", text(plan.run_id)},
                                             {"secret", text(plan.secret)},
                                             {"mark", text(plan.mark)},
                                             {"launcher", text(plan.launcher)},
                                             {"rank", number(plan.rank, 0)},
                                             {"min-nodes", number(plan.min_nodes, 1)},
                                             {"max-nodes", number(plan.max_nodes, 1)},
                                             {"slots", number(plan.slots, 0)},
                                             {"wants-error-file", flag(plan.wants_error_file)},
                                             {"stdout-is-terminal", flag(plan.stdout_is_terminal)},
                                             {"stderr-is-terminal", flag(plan.stderr_is_terminal)},
                                             {"grace-period", time(plan.stop.grace_period)},
                                             {"kill-timeout", time(plan.stop.kill_timeout)},
                                             {"stop-signal", signals(plan.stop.signals)},
                                             {"folder", text(plan.folder)},
                                             {"word", list(plan.command)},
                                             {"variable", list(plan.environment)}});
  if (!wrong.empty()) return no_such<NodePlan>(wrong);
  if (plan.host.empty() || plan.secret.empty() || plan.mark.empty() || plan.command.empty() ||
      plan.max_nodes < plan.min_nodes)
    return no_such<NodePlan>("a part of it is missing");
  return plan;
}

std::optional<std::size_t> plan_bytes(std::string_view line) {
  if (!line.starts_with(kPlanWord)) return std::nullopt;
  const auto bytes = number_in<std::size_t>(line.substr(kPlanWord.size()));
  return bytes && *bytes <= kPlanBytesMax ? bytes : std::nullopt;
}

std::string signal_line(int signal) { return fmt::format("{}{}\n", kSignalWord, signal); }

std::optional<int> signal_in(std::string_view line) {
  if (!line.starts_with(kSignalWord)) return std::nullopt;
  const auto signal = number_in<int>(line.substr(kSignalWord.size()));
  return signal && *signal > 0 && *signal <= kSignalMax ? signal : std::nullopt;
}

std::string greeting(std::string_view version) {
  return fmt::format("{}ddprun-node {}\n", kRecordByte, version);
}

std::string encode(const NodeEnd& end, std::string_view mark) {
  BodyWriter writer;
  writer.add("exit-code", end.exit_code);
  writer.add("has-culprit", end.has_culprit ? 1 : 0);
  writer.add("reports", end.reports ? 1 : 0);
  writer.add("cancelled", end.cancelled ? 1 : 0);
  writer.add("text", end.text);
  writer.add("json", end.json);
  writer.add("error-file", end.error_file);
  return fmt::format("{}{} {}\n", kRecordByte, mark, writer.body().size()) + writer.body();
}

boost::system::result<NodeEnd, std::string> decode_end(std::string_view body) {
  NodeEnd end;
  const std::string wrong = read_body(body, {{"exit-code", number(end.exit_code, 0)},
                                             {"has-culprit", flag(end.has_culprit)},
                                             {"reports", flag(end.reports)},
                                             {"cancelled", flag(end.cancelled)},
                                             {"text", text(end.text)},
                                             {"json", text(end.json)},
                                             {"error-file", text(end.error_file)}});
  if (!wrong.empty()) return no_such<NodeEnd>(wrong);
  return end;
}

}  // namespace ddprun::launcher
