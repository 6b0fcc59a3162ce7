// The files that are written when the job is over: that of --report, emptied before it starts, and
// a copy of the error file of the culprit.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "agent/agent.hpp"

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

/// What to write there: the culprit's error file with its exit code in `message.errorCode`; where
/// no worker is to blame (a signal, no port), the reason in the same form. None: the job succeeded,
/// or the culprit left no error file. Pure.
std::optional<std::string> error_file_copy(const agent::AgentResult& result,
                                           std::chrono::system_clock::time_point now);

/// Replaces the file. Empty, or the line for the user about what failed.
std::string write_error_file_copy(const std::string& path, const std::string& json);

}  // namespace ddprun::launcher
