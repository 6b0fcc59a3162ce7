#include "trainer/run/plan/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <string_view>
#include <utility>

#include "base/latest_link.hpp"
#include "base/open_file.hpp"
#include "base/time_stamp.hpp"
#include "trainer/comm/process_watch.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kOutFolder = "ddprun-out";
constexpr const char* kMarkFile = "job";

/// Whether free_name() gives such a name: STAMP or STAMP_N. Runs of ddprun's own run ids have
/// STAMP_3f9c2a1b, and belong to those jobs.
bool has_no_run_id(std::string_view name) {
  constexpr std::size_t kDigitsMax = 3;
  if (!begins_with_time_stamp(name)) return false;
  name.remove_prefix(kTimeStampBytes);
  if (name.empty()) return true;
  const std::string_view digits = name.substr(1);
  return name.front() == '_' && !digits.empty() && digits.size() <= kDigitsMax &&
         digits.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The directory that was written to last, among those of runs without a run id of which `is_meant`
/// holds; empty: none.
std::filesystem::path last_run(const std::filesystem::path& folder,
                               const std::function<bool(const std::filesystem::path&)>& is_meant) {
  std::pair<std::filesystem::file_time_type, std::string> last;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(folder, ignored), end; it != end;
       it.increment(ignored)) {
    std::string name = it->path().filename().string();
    if (!has_no_run_id(name) || !is_meant(it->path())) continue;
    const auto written = std::filesystem::last_write_time(it->path(), ignored);
    if (last.second.empty() || std::pair(written, name) > last) last = {written, std::move(name)};
  }
  return last.second.empty() ? std::filesystem::path() : folder / last.second;
}

/// Not a name that lead_latest_to() gives: its link would take the run into another one's folder.
std::string name_of_run(const std::string& run_id) {
  std::string name = file_name_of(run_id);
  return name == kLatestName || name == kLatestTextName ? "_" + name : name;
}

/// The first of NAME, NAME_2, NAME_3 and so on that is not there.
std::filesystem::path free_name(const std::filesystem::path& folder, const std::string& name) {
  std::filesystem::path path = folder / name;
  std::error_code ignored;
  for (int i = 2; std::filesystem::exists(std::filesystem::symlink_status(path, ignored)); ++i)
    path = folder / fmt::format("{}_{}", name, i);
  return path;
}

/// The job as no other one is called that runs now; empty: not known.
std::string job_mark(const WorkerEnvironment& environment) {
  if (environment.job_socket.empty()) return {};
  return own_identity().boot_id + " " + environment.job_socket + "\n";
}

/// Empty: there is none.
std::string read_mark(const std::filesystem::path& run) {
  constexpr std::size_t kMarkBytesMax = 4096;
  const auto file = open_own_file(run / kMarkFile, O_RDONLY);
  std::string mark(kMarkBytesMax, '\0');
  const ssize_t count = file ? ::read(file->get(), mark.data(), mark.size()) : 0;
  mark.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return mark;
}

}  // namespace

bool names_its_run(const Options& options, const WorkerEnvironment& environment) {
  return !options.checkpoints.out.empty() || !environment.run_id.empty();
}

std::filesystem::path choose_out(const Options& options, const WorkerEnvironment& environment,
                                 const std::filesystem::path& base, const std::string& now) {
  if (!options.checkpoints.out.empty()) return options.checkpoints.out;
  const std::filesystem::path folder = base / kOutFolder;
  if (!environment.run_id.empty()) return folder / name_of_run(environment.run_id);
  if (environment.restarted()) {
    const std::string mark = job_mark(environment);
    auto mine = last_run(folder, [&](const std::filesystem::path& run) {
      return mark.empty() || read_mark(run) == mark;
    });
    if (!mine.empty()) return mine;
  }
  return free_name(folder, now);
}

void mark_run(const Options& options, const WorkerEnvironment& environment,
              const std::filesystem::path& out) {
  const std::string mark = job_mark(environment);
  if (names_its_run(options, environment) || mark.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(out, ignored);
  // Without it a restart begins a new run.
  const auto file = open_own_file(out / kMarkFile, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file) static_cast<void>(!::write(file->get(), mark.data(), mark.size()));
}

}  // namespace ddprun::trainer
