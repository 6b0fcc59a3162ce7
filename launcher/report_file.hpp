// The file of --report: emptied before the job starts, written when it is over.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// What became of a report file.
struct ReportFileResult {
  int error = 0;     ///< errno; 0: all went well
  int standard = 0;  ///< STDOUT_FILENO or STDERR_FILENO where the path leads to what these write to
};

/// Empties the file, or makes it, so that a report of an earlier job does not outlive one that is
/// killed. Pipes and devices are left alone, and so is what our own stdout or stderr goes to.
ReportFileResult empty_report_file(const std::string& path);

/// Writes the report there, in place of what the file held; where our own stdout or stderr goes to
/// it, behind what they have written. Waits for a reader at most 2 s.
ReportFileResult write_report_file(const std::string& path, std::string_view json);

}  // namespace ddprun::launcher
