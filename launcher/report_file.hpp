// The file of --report.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// What became of a report file.
struct ReportFileResult {
  int error = 0;     ///< errno; 0: all went well
  int standard = 0;  ///< STDOUT_FILENO or STDERR_FILENO where the path leads to what these write to
};

/// Writes the report there, in place of what the file held; where our own stdout or stderr goes to
/// it, behind what they have written. Waits for a reader at most 2 s.
ReportFileResult write_report_file(const std::string& path, std::string_view json);

}  // namespace ddprun::launcher
