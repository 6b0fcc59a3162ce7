// How large terminals are: ours, and what of it a worker's pseudo-terminal gets.
#pragma once

namespace ddprun::agent {

/// A worker's lines have a prefix: its terminal is narrower than ours by that, but not below this.
inline constexpr int kWorkerColumnsMin = 20;

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};

/// The size of the terminal that `fd` is; 0 x 0 where it is none, has no size, or cannot move its
/// cursor (`TERM=dumb`).
TerminalSize drawing_size(int fd);

/// Whether all that reaches the terminal `fd` comes through us: `other`, our second output, is no
/// pipe: the reader of a pipe (`| tee log`) may write to the terminal at any time.
bool is_ours_alone(int fd, int other);

/// The user's shell has the terminal: the job runs with `&`, or after `bg`.
bool in_background(int fd);

/// Width of a terminal, also by a pseudo-terminal's other end; 0: it has none.
int columns_of(int fd);

/// Gives the pseudo-terminal `pty` (either end) the size of the terminal `like`, less the columns
/// of a prefix. Returns its width; 0: `like` has none, and `pty` was left as it is.
int follow_size(int pty, int like, int prefix_columns);

}  // namespace ddprun::agent
