// The two ends of a worker's stream: a pipe or a pseudo-terminal.
#pragma once

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

struct StreamPair {
  UniqueFd ours;  ///< non-blocking
  UniqueFd workers;
};

/// A pipe. Errors: the system's.
Result<StreamPair> make_stream_pipe();
/// A pseudo-terminal of the size of the terminal `like`, less the columns of a prefix. Errors: the
/// system's.
Result<StreamPair> make_pseudo_terminal(int like, int prefix_columns);

}  // namespace ddprun::agent
