// The files of a run's log folder: FOLDER/attempt_RESTARTS/LOCALRANK/stdout.log and so on,
// torchrun's layout.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

/// FOLDER/attempt_RESTARTS
std::string attempt_folder(const std::string& folder, int restart_count);
/// FOLDER/attempt_RESTARTS/LOCALRANK
std::string worker_folder(const std::string& folder, int restart_count, int local_rank);
/// FOLDER/attempt_RESTARTS/LOCALRANK/stdout.log, or stderr.log
std::string stream_file(const std::string& folder, int restart_count, int local_rank,
                        bool standard_error);

/// Makes worker_folder with its parent. Errors: the system's.
Result<void> make_worker_folder(const std::string& folder, int restart_count, int local_rank);

/// Opens a file for appending, empty if it is new. Errors: the system's.
Result<UniqueFd> open_log_file(const std::string& path);

/// The last lines of a file, at most so many, each cut to so many bytes; none when it can't be
/// read. Looks at the last 64 KiB only.
std::vector<std::string> last_lines_of(const std::string& path, std::size_t lines_max,
                                       std::size_t line_bytes_max);

}  // namespace ddprun::agent
