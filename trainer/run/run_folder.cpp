#include "trainer/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/file_name.hpp"
#include "base/open_file.hpp"
#include "trainer/comm/process_watch.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kOutFolder = "ddprun-out";
constexpr const char* kRunPrefix = "run-";
constexpr const char* kMarkFile = "job";

/// The highest N among the directories run-N of which `is_meant` holds; 0: none.
int highest_run(const std::filesystem::path& folder,
                const std::function<bool(const std::filesystem::path&)>& is_meant) {
  int highest = 0;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(folder, ignored), end; it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kRunPrefix)) continue;
    int number = 0;
    const char* first = name.data() + std::string_view(kRunPrefix).size();
    std::from_chars(first, name.data() + name.size(), number);
    if (number > highest && is_meant(it->path())) highest = number;
  }
  return highest;
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
  return !options.out.empty() || !environment.run_id.empty();
}

std::filesystem::path choose_out(const Options& options, const WorkerEnvironment& environment,
                                 const std::filesystem::path& base) {
  if (!options.out.empty()) return options.out;
  const std::filesystem::path folder = base / kOutFolder;
  if (!environment.run_id.empty()) return folder / file_name_of(environment.run_id);
  const std::string mark = environment.restarted() ? job_mark(environment) : "";
  if (environment.restarted()) {
    const int mine = highest_run(folder, [&](const std::filesystem::path& run) {
      return mark.empty() || read_mark(run) == mark;
    });
    // Without a mark there is at most one run that can be meant, and it may have no folder yet.
    if (mine > 0 || mark.empty())
      return folder / fmt::format("{}{:04}", kRunPrefix, std::max(mine, 1));
  }
  const int highest = highest_run(folder, [](const std::filesystem::path&) { return true; });
  return folder / fmt::format("{}{:04}", kRunPrefix, highest + 1);
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
