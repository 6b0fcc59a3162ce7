// The whole terminal, by ncurses. The only file that knows it: its header defines and declares
// names such as `move`, `lines` and `columns`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/system/result.hpp>

#include "launcher/ctl/top_screen.hpp"

namespace ddprun::ctl {

enum class Key { none, other, quit, up, down, page_up, page_down, first, last, order, help };

/// One at a time in a process. Signals are the caller's: ncurses' own handlers must not run, so
/// SIGINT, SIGTERM, SIGTSTP and SIGWINCH are blocked before.
class TerminalScreen {
 public:
  /// Switches the terminal of stdin and stdout to a screen of its own. Errors: why it cannot be
  /// done, in words for a message.
  static boost::system::result<TerminalScreen, std::string> open();

  /// Gives the terminal back, as it was.
  ~TerminalScreen();
  TerminalScreen(TerminalScreen&& other) noexcept;

  [[nodiscard]] ScreenSize size() const;
  void draw(const std::vector<TopLine>& drawn);
  /// The next key that was typed; `none`: no other one was.
  Key read_key();
  /// The terminal has another size.
  void resize();
  /// Gives the terminal back to the shell, until `resume`.
  void suspend();
  void resume();

 private:
  struct Session;
  explicit TerminalScreen(std::unique_ptr<Session> session);

  std::unique_ptr<Session> session_;
};

}  // namespace ddprun::ctl
