// The file of --report: emptied before the job starts, written when it is over.
#pragma once

#include <optional>
#include <string>

namespace ddprun::launcher {

/// What became of a report file.
struct ReportFileResult {
  int error = 0;           ///< errno; 0: all went well
  bool to_stdout = false;  ///< the path leads to what our stdout goes to
  bool to_stderr = false;
};

/// The error of a ReportFileResult, for people.
std::string why_not_written(int error);

/// Empties the file, or makes it, so that a report of an earlier job does not outlive one that is
/// killed. Pipes and devices are left alone, and so is what our own stdout or stderr goes to. Of
/// pipes and devices only the permission to write is looked at.
ReportFileResult empty_report_file(const std::string& path);

/// Whether the last line on our outputs was not ended, as line_start wants it.
struct UnfinishedLines {
  std::optional<bool> on_stdout;
  std::optional<bool> on_stderr;
};

/// Writes the report there, in place of what the file held; where our own stdout or stderr goes to
/// it, behind what they have written, on a line of its own. Waits for a reader at most 2 s.
ReportFileResult write_report_file(const std::string& path, const std::string& json,
                                   const UnfinishedLines& unfinished);

}  // namespace ddprun::launcher
