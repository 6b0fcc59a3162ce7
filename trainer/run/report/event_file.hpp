// Files that a run appends to: lines of metrics, and scalars for TensorBoard. Event files are
// TFRecords of `Event` messages (tensorflow's core/util/event.proto and core/lib/io/record_writer).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "trainer/run/report/report_lines.hpp"

namespace ddprun::trainer {

class AppendedFile {
 public:
  /// Makes the file and its folder where they are missing. Throws std::system_error with the path.
  explicit AppendedFile(const std::filesystem::path& path);

  /// In one write, so that a reader never finds part of a piece, also after a kill. Throws
  /// std::system_error with the path where the piece does not fit; then no part of it stays.
  void append(const std::string& piece);

 private:
  std::string path_;
  UniqueFd fd_;
};

/// Whether a file of lines ends within a line, as after a crash of the machine. No file, and what
/// is not a regular one, does not.
bool ends_within_line(const std::filesystem::path& path);

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
