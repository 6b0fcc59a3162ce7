#include "launcher/report/error_file_copy.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/bounded_write.hpp"
#include "base/json_text.hpp"
#include "base/unique_handle.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kWriteLimit{2};

/// As Python's subprocess: a signal is a negative code.
int python_exit_code(const ExitStatus& exit) { return exit.by_signal ? -exit.value : exit.value; }

}  // namespace

std::optional<std::string> error_file_copy(const agent::AgentResult& result,
                                           std::chrono::system_clock::time_point now) {
  const proto::Finished& finished = result.finished;
  if (finished.outcome == proto::Finished::Outcome::succeeded) return std::nullopt;
  if (!finished.verdict) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    const Json json = {
        {"message",
         {{"message", "ddprun: " + finished.reason},
          {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(seconds)}}}}}};
    return json_text(json, -1, /*ascii=*/true);
  }
  const proto::WorkerFailure& culprit = finished.verdict->culprit.failure;
  const auto found = result.error_files.find(culprit.local_rank);
  if (found == result.error_files.end()) return std::nullopt;
  Json json = Json::parse(found->second, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const int code = python_exit_code(culprit.exit);
  const auto message = json.find("message");
  if (code != 0 && message != json.end() && message->is_object()) (*message)["errorCode"] = code;
  return json_text(json, -1, /*ascii=*/true);
}

std::string write_error_file_copy(const std::string& path, const std::string& json) {
  const UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644));
  if (fd && write_within(fd.get(), json + "\n", kWriteLimit)) return "";
  return std::string(proto::env::kErrorFile) + "=" + path +
         ": the error could not be copied there: " + std::strerror(errno);
}

}  // namespace ddprun::launcher
