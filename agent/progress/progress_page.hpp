// The page by which a worker reports how far it is: read, never mapped (a worker may cut it), and
// never trusted. Layout: docs/progress.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

inline constexpr std::size_t kProgressPageBytes = 64;
/// With requests to save and what a round's time went into, which pages of older programs do not
/// have.
inline constexpr std::size_t kLongPageBytes = 128;
inline constexpr std::size_t kPhaseBytesMax = 24;

/// What a worker says of its time since its round began. Each time is CLOCK_MONOTONIC in ns.
struct PageTimes {
  std::uint64_t first_step = 0;
  std::uint64_t first_ns = 0;  ///< of its first update
  std::uint64_t reached_ns =
      0;  ///< when it was at the step that earlier rounds had reached; 0: not yet
  std::uint64_t saving_ns = 0;   ///< how long it has saved, up to its last update
  std::uint64_t waiting_ns = 0;  ///< how long it has waited for other workers, up to then

  friend bool operator==(const PageTimes&, const PageTimes&) = default;
};

struct ProgressPage {
  std::uint64_t step = 0;
  std::uint64_t time_ns = 0;  ///< by the worker's own words
  std::string phase;          ///< printable ASCII; other bytes have become '?'
  std::uint32_t place = 0;    ///< number of the update within its step
  bool watched = true;        ///< false: the worker asks not to be watched now
  /// The number of the newest request to save that is met, 0 if none is; none: the worker does not
  /// say that it saves when asked.
  std::optional<std::uint32_t> saved = std::nullopt;
  std::optional<PageTimes> times = std::nullopt;  ///< none: the worker does not say

  friend bool operator==(const ProgressPage&, const ProgressPage&) = default;
};

/// What a phase counts as, by its name: enum ddprun_phase_kind of worker/ddprun_progress.h.
enum class PhaseKind { work, saving, waiting };
PhaseKind kind_of_phase(std::string_view phase);

/// Both empty: nothing has been written yet.
struct PageReading {
  std::optional<ProgressPage> page;
  std::string problem;  ///< why it is no page
};

/// The first bytes of a page file, at most kLongPageBytes of them. Pure; takes any bytes.
PageReading parse_progress_page(std::string_view bytes);

/// A file that is not there, or an empty path, is a page that was not written. Never waits.
PageReading read_progress_page(const std::string& path);

/// Why a worker is told to end: ddprun_stop of worker/ddprun_progress.h.
enum class StopReason : std::uint64_t {
  save = 1,  ///< nothing has failed: it may save its state first
  now = 2,   ///< a worker or node has failed
};

/// Into the page that a worker has made; without one nothing is written. Never waits.
void write_stop_reason(const std::string& path, StopReason reason);

/// Asks the worker to write a checkpoint and go on. Only into a page with `saved`. Never waits.
void write_save_request(const std::string& path, std::uint32_t number);

/// A further round begins for a worker that goes on: its times count from the next update on, and
/// `reached` is the highest step so far. Only into a page with times. Never waits.
void begin_round_in_page(const std::string& path, std::uint64_t reached);

/// `step 5 in phase "forward"`
std::string place_words(std::uint64_t step, const std::string& phase);

}  // namespace ddprun::agent
