// What the launcher and ddprun on a host of --hosts tell each other through ssh. Pure.
//
// The host's stdout: anything that its login shell prints; a greeting; the output of the job; a
// record of the job's end. Its stdin: a plan, once the greeting has come; then signals. The end of
// stdin ends the node. The membership of the job takes another way: the socket that ssh forwards.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/system/result.hpp>

#include "machine/processes/stop_settings.hpp"

namespace ddprun::launcher {

inline constexpr std::size_t kPlanBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kEndBytesMax = 256 * 1024 * 1024;

/// So much later than its workers must have ended a node is killed: its own warden gives up after 5
/// s.
inline constexpr std::chrono::seconds kNodeEndMargin{10};

/// All that a node is told. No text in it has a NUL.
struct NodePlan {
  std::string host;    ///< as the user named it; the node's name
  std::string run_id;  ///< of the job
  std::string secret;  ///< of the job; only its nodes have it
  std::string mark;    ///< begins the record of the end, so that no worker's line can be one
  /// Path there, which leads to the rendezvous. It is no part of the message: the command line has
  /// it.
  std::string socket;
  std::string launcher;  ///< HOST:PORT of the rendezvous, for people
  int rank = 0;          ///< place in the list of hosts
  int min_nodes = 1;
  int max_nodes = 1;
  int slots = 0;  ///< workers, if --nproc-per-node is not given; 0: not told either
  bool wants_error_file = false;
  bool stdout_is_terminal = false;  ///< the launcher's
  bool stderr_is_terminal = false;
  /// For the first process there. Signals that only the workers get are none of its business.
  machine::StopSettings stop;
  std::string folder;                    ///< to run in; empty: where ssh begins
  std::vector<std::string> command;      ///< ddprun's, with the launcher's own name and options
  std::vector<std::string> environment;  ///< NAME=VALUE, to set there
};

/// With its length in front.
std::string encode(const NodePlan& plan);
/// `body` is what follows the line that tells the length. The error is why it is no plan.
boost::system::result<NodePlan, std::string> decode_plan(std::string_view body);
/// How many bytes follow the line in front of the plan, which is given without its end. None: it is
/// no such line, or too many follow.
std::optional<std::size_t> plan_bytes(std::string_view line);

/// Behind the plan, for each signal to the job.
std::string signal_line(int signal);
/// None: the line, without its end, is none of these.
std::optional<int> signal_in(std::string_view line);

/// The first thing that ddprun on a host prints, on stdout and on stderr.
std::string greeting(std::string_view version);

/// How the job ended, as one node knows it.
struct NodeEnd {
  int exit_code = 0;
  bool has_culprit = false;  ///< the culprit ran there
  bool reports = false;      ///< the rendezvous chose this node to report
  bool cancelled = false;    ///< a signal ended the job, or this node's part in it
  std::string text;          ///< the report for the screen
  std::string json;          ///< the report as JSON; empty: --report is not given
  std::string error_file;    ///< for TORCHELASTIC_ERROR_FILE; empty: nothing is to be written
};
/// The record of the end behind all output. `mark` is the plan's.
std::string encode(const NodeEnd& end, std::string_view mark);
/// `body` is what follows the mark and the length.
boost::system::result<NodeEnd, std::string> decode_end(std::string_view body);

/// What begins the greeting and records; programs do not print it.
inline constexpr char kRecordByte = '\x1e';

}  // namespace ddprun::launcher
