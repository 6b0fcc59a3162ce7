#include "agent/progress/progress_page.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/open_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {
namespace {

constexpr std::string_view kMagic = "ddprun";
constexpr std::uint16_t kVersion = 1;
constexpr std::uint32_t kNotWatched = 1;
constexpr std::uint32_t kSaves = 2;

constexpr std::size_t kVersionAt = 6;
constexpr std::size_t kStepAt = 8;
constexpr std::size_t kTimeAt = 16;
constexpr std::size_t kPhaseAt = 24;
constexpr std::size_t kPlaceAt = 48;
constexpr std::size_t kFlagsAt = 52;
constexpr std::size_t kStopAt = 56;
constexpr std::size_t kSaveAt = 64;
constexpr std::size_t kSavedAt = 68;
constexpr std::size_t kReachedStepAt = 72;
constexpr std::size_t kFirstStepAt = 80;
constexpr std::size_t kFirstTimeAt = 88;
constexpr std::size_t kReachedTimeAt = 96;
constexpr std::size_t kSavingAt = 104;
constexpr std::size_t kWaitingAt = 112;

template <class Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::string phase_of(std::string_view bytes) {
  std::string phase(bytes.substr(0, bytes.find('\0')));
  std::replace_if(
      phase.begin(), phase.end(), [](char c) { return c < ' ' || c > '~' || c == '"'; }, '?');
  return phase;
}

/// Into a file of so many bytes: one that is cut is not made longer.
template <class Number>
void write_number(const std::string& path, std::size_t page_bytes, Number number, off_t at) {
  if (path.empty()) return;
  const Result<UniqueFd> fd = open_own_file(path, O_WRONLY);
  struct stat status {};
  if (!fd || fstat(fd->get(), &status) != 0) return;
  if (status.st_size < static_cast<off_t>(page_bytes)) return;
  static_cast<void>(!pwrite(fd->get(), &number, sizeof number, at));
}

PageReading no_page(std::string problem) { return {std::nullopt, std::move(problem)}; }

}  // namespace

PageReading parse_progress_page(std::string_view bytes) {
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; })) return {};
  if (bytes.size() < kProgressPageBytes)
    return no_page(fmt::format("it has {} of {} bytes", bytes.size(), kProgressPageBytes));
  // The first update writes magic and version last: until then there is no page.
  const auto version = number_at<std::uint16_t>(bytes, kVersionAt);
  const auto begun = bytes.substr(0, std::min(bytes.find('\0'), kMagic.size()));
  if (version == 0 && kMagic.starts_with(begun)) return {};
  if (!bytes.starts_with(kMagic)) return no_page("it does not begin with `ddprun`");
  if (version != kVersion)
    return no_page(fmt::format("its version is {}, this ddprun reads {}", version, kVersion));
  ProgressPage page;
  page.step = number_at<std::uint64_t>(bytes, kStepAt);
  page.time_ns = number_at<std::uint64_t>(bytes, kTimeAt);
  page.phase = phase_of(bytes.substr(kPhaseAt, kPhaseBytesMax));
  page.place = number_at<std::uint32_t>(bytes, kPlaceAt);
  const auto flags = number_at<std::uint32_t>(bytes, kFlagsAt);
  page.watched = (flags & kNotWatched) == 0;
  if ((flags & kSaves) != 0 && bytes.size() >= kLongPageBytes)
    page.saved = number_at<std::uint32_t>(bytes, kSavedAt);
  if (bytes.size() >= kLongPageBytes && number_at<std::uint64_t>(bytes, kFirstTimeAt) != 0)
    page.times = {number_at<std::uint64_t>(bytes, kFirstStepAt),
                  number_at<std::uint64_t>(bytes, kFirstTimeAt),
                  number_at<std::uint64_t>(bytes, kReachedTimeAt),
                  number_at<std::uint64_t>(bytes, kSavingAt),
                  number_at<std::uint64_t>(bytes, kWaitingAt)};
  return {page, ""};
}

PageReading read_progress_page(const std::string& path) {
  if (path.empty()) return {};
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    if (errno == ENOENT) return {};
    return no_page(std::string("it cannot be opened: ") + std::strerror(errno));
  }
  std::array<char, kLongPageBytes> bytes;
  const ssize_t count = pread(fd.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return no_page(std::string("it cannot be read: ") + std::strerror(errno));
  return parse_progress_page({bytes.data(), static_cast<std::size_t>(count)});
}

void write_stop_reason(const std::string& path, StopReason reason) {
  // A worker that does not get it ends as it does without ddprun.
  write_number(path, kProgressPageBytes, static_cast<std::uint64_t>(reason), kStopAt);
}

void write_save_request(const std::string& path, std::uint32_t number) {
  write_number(path, kLongPageBytes, number, kSaveAt);
}

PhaseKind kind_of_phase(std::string_view phase) {
  if (phase.starts_with("save") || phase.find("checkpoint") != std::string_view::npos)
    return PhaseKind::saving;
  for (const std::string_view begin : {"all-", "barrier", "share", "wait"})
    if (phase.starts_with(begin)) return PhaseKind::waiting;
  return PhaseKind::work;
}

void begin_round_in_page(const std::string& path, std::uint64_t reached) {
  const auto page = read_progress_page(path).page;
  if (!page || !page->times) return;
  write_number(path, kLongPageBytes, reached, kReachedStepAt);
  for (const std::size_t at : {kReachedTimeAt, kSavingAt, kWaitingAt, kFirstTimeAt})
    write_number(path, kLongPageBytes, std::uint64_t{0}, static_cast<off_t>(at));
}

std::string place_words(std::uint64_t step, const std::string& phase) {
  if (phase.empty()) return fmt::format("step {}", step);
  return fmt::format("step {} in phase \"{}\"", step, phase);
}

}  // namespace ddprun::agent
