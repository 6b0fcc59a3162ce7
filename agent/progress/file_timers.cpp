#include "agent/progress/file_timers.hpp"

#include <algorithm>
#include <csignal>
#include <limits>

#include <nlohmann/json.hpp>

namespace ddprun::agent {
namespace {

using Json = nlohmann::json;

// Times beyond it do not fit into nanoseconds.
constexpr double kSecondsMax = 9e9;

std::optional<long long> integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<long long>();
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

std::optional<TimerRequest> parse_timer_request(std::string_view line) {
  const auto json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto pid = integer(json, "pid");
  const auto scope = json.find("scope_id");
  const auto expires = json.find("expiration_time");
  const auto signal = integer(json, "signal");
  if (!pid || *pid < 1 || *pid > std::numeric_limits<int>::max()) return std::nullopt;
  if (scope == json.end() || !scope->is_string()) return std::nullopt;
  if (expires == json.end() || !expires->is_number()) return std::nullopt;
  if (!signal || *signal > SIGRTMAX) return std::nullopt;
  TimerRequest request;
  request.pid = static_cast<int>(*pid);
  request.scope = scope->get<std::string>();
  request.signal = static_cast<int>(std::max(*signal, 0LL));
  const double seconds = expires->get<double>();
  if (!(seconds < 0)) {
    const std::chrono::duration<double> since_epoch(std::min(seconds, kSecondsMax));
    request.expires =
        FileTimers::Time(std::chrono::duration_cast<FileTimers::Time::duration>(since_epoch));
  }
  return request;
}

bool FileTimers::take(std::string_view line, Time now) {
  const auto request = parse_timer_request(line);
  if (!request) return false;
  const std::pair key(request->pid, request->scope);
  if (!request->expires) {
    timers_.erase(key);
    return true;
  }
  if (timers_.size() >= kTimersMax && timers_.find(key) == timers_.end()) return false;
  timers_[key] = {*request->expires, now, request->signal};
  return true;
}

bool FileTimers::feed(std::string_view bytes, Time now) {
  bool good = true;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const bool ended = end != std::string_view::npos;
    const std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(ended ? end + 1 : bytes.size());
    too_long_ = too_long_ || line_.size() + piece.size() > kTimerLineBytesMax;
    if (too_long_) {
      line_.clear();
    } else {
      line_ += piece;
    }
    if (!ended) continue;
    if (too_long_ || !take(line_, now)) good = false;
    line_.clear();
    too_long_ = false;
  }
  return good;
}

std::optional<FileTimers::Time> FileTimers::next() const {
  const auto first = std::min_element(
      timers_.begin(), timers_.end(),
      [](const auto& a, const auto& b) { return a.second.expires < b.second.expires; });
  if (first == timers_.end()) return std::nullopt;
  return first->second.expires;
}

std::vector<ExpiredTimer> FileTimers::expired(Time now) {
  std::map<int, std::pair<Time, ExpiredTimer>> first;  // by pid
  std::vector<int> over;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) continue;
    over.push_back(key.first);
    if (timer.signal <= 0) continue;
    const auto known = first.find(key.first);
    if (known != first.end() && known->second.first <= timer.expires) continue;
    first[key.first] = {timer.expires,
                        {key.first, printable(key.second), timer.signal, now - timer.since}};
  }
  for (const int pid : over) forget(pid);
  std::vector<ExpiredTimer> expired;
  for (auto& [pid, timer] : first) expired.push_back(std::move(timer.second));
  return expired;
}

void FileTimers::forget(int pid) {
  std::erase_if(timers_, [pid](const auto& entry) { return entry.first.first == pid; });
}

void FileTimers::postpone(std::chrono::nanoseconds pause) {
  const auto by = std::chrono::duration_cast<Time::duration>(pause);
  for (auto& [key, timer] : timers_) timer.expires += by;
}

}  // namespace ddprun::agent
