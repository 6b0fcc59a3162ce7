// Standard input of a job that is started in the background (`ddprun ... &`) and whose standard
// input is the shell's terminal. Workers have sessions of their own, so the kernel would not keep
// them from reading there, and they would get what is typed for the shell. They get a pipe, and the
// first process, which belongs to the terminal's session, fills it while the job is in front.
#pragma once

#include <poll.h>

#include <optional>
#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::warden {

/// Standard input is the terminal of this session, and another process group is in front. For a
/// process of the job's group.
bool is_in_background();

class BackgroundInput {
 public:
  /// Puts the pipe in the place of our standard input, or /dev/null where that terminal cannot be
  /// opened. None: nothing fills it; and nothing is changed where standard input is no terminal of
  /// this session, or the job is in front. The process that calls `pass_on` must block SIGTTIN and
  /// have the process group of the job; no other may keep this object.
  static std::optional<BackgroundInput> replace_stdin();

  /// For poll: there may be something to do. Never ready while input stays unread, because the job
  /// is in the background.
  [[nodiscard]] pollfd ready() const;
  /// Moves what there is, a few lines at most, without waiting. False: the input has ended.
  bool pass_on();

 private:
  BackgroundInput(UniqueFd terminal, UniqueFd edges, UniqueFd pipe);

  UniqueFd terminal_;  // opened for us: its flags are not the shell's
  UniqueFd edges_;     // an epoll: readable once for each time that something is typed
  UniqueFd pipe_;
  std::string waiting_;         // what the pipe has no room for yet
  bool may_have_more_ = false;  // the terminal, without a new edge: `pass_on` was long enough
};

}  // namespace ddprun::warden
