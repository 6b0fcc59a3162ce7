// Scalars for TensorBoard: its event files are TFRecords of `Event` messages (tensorflow's
// core/util/event.proto and core/lib/io/record_writer).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "trainer/run/appended_file.hpp"
#include "trainer/run/report_lines.hpp"

namespace ddprun::trainer {

/// A record: length, masked CRC-32C of the length, message, masked CRC-32C of the message.
/// `seconds`: since 1970. Pure.
std::string event_record(double seconds, std::int64_t step, std::span<const Scalar> scalars);
/// What a file begins with. Pure.
std::string first_event_record(double seconds);
/// That a session begins with `step`: TensorBoard drops points of earlier sessions from there on,
/// which this one repeats. Pure.
std::string session_start_record(double seconds, std::int64_t step);

/// A file of its own for each start of a run: TensorBoard reads all of a directory, and shows a
/// step that is repeated once.
class EventFile {
 public:
  /// Makes `directory`/events.out.tfevents.SECONDS.HOST.PROCESS, for a run that goes on after
  /// `steps`. Throws std::system_error.
  explicit EventFile(const std::filesystem::path& directory, std::int64_t steps = 0);
  /// Throws std::system_error where the disk is full.
  void append(std::int64_t step, std::span<const Scalar> scalars);

 private:
  AppendedFile file_;
};

}  // namespace ddprun::trainer
