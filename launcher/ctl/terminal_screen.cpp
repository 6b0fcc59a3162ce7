#include "launcher/ctl/terminal_screen.hpp"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.hpp"

#define NCURSES_NOMACROS 1
#include <ncurses.h>
#include <term.h>

namespace ddprun::ctl {
namespace {

constexpr short kRedPair = 1;
constexpr short kYellowPair = 2;
constexpr int kEscapeDelayMs = 25;  // between the bytes of one key

/// Empty: it can show a screen.
std::string why_unusable() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
    return "stdin and stdout are not both a terminal";
  const char* const name = std::getenv("TERM");
  if (name == nullptr || *name == '\0') return "TERM is not set";
  int found = 0;
  const bool is_known = setupterm(name, STDOUT_FILENO, &found) == OK;
  if (!is_known && found < 0) return "the system has no descriptions of terminals (terminfo)";
  if (!is_known) return fmt::format("the terminal TERM={} is unknown here", printable(name));
  const char* const moves = tigetstr("cup");
  const bool can_move = moves != nullptr && moves != reinterpret_cast<char*>(-1);  // NOLINT
  del_curterm(cur_term);
  if (!can_move) return fmt::format("the terminal TERM={} cannot move its cursor", printable(name));
  return "";
}

}  // namespace

struct TerminalScreen::Session {
  explicit Session(SCREEN* opened) : screen(opened) {}
  ~Session() {
    endwin();
    delscreen(screen);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void follow_size() const {
    winsize window{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0)
      resizeterm(window.ws_row, window.ws_col);
  }
  /// ncurses' attributes.
  [[nodiscard]] attr_t look_of(Paint paint) const {
    switch (paint) {
      case Paint::plain:
        return A_NORMAL;
      case Paint::title:
        return A_BOLD;
      case Paint::warning:
        return A_BOLD | (has_colours ? static_cast<attr_t>(COLOR_PAIR(kYellowPair)) : A_NORMAL);
      case Paint::heading:
        return A_REVERSE;
      case Paint::failed:
        return A_BOLD | (has_colours ? static_cast<attr_t>(COLOR_PAIR(kRedPair)) : A_NORMAL);
      case Paint::quiet:
        return A_DIM;
    }
    return A_NORMAL;
  }

  SCREEN* const screen;
  const bool utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  bool has_colours = false;
};

TerminalScreen::TerminalScreen(std::unique_ptr<Session> session) : session_(std::move(session)) {}
TerminalScreen::~TerminalScreen() = default;
TerminalScreen::TerminalScreen(TerminalScreen&& other) noexcept = default;

boost::system::result<TerminalScreen, std::string> TerminalScreen::open() {
  using Opened = boost::system::result<TerminalScreen, std::string>;
  if (std::string why = why_unusable(); !why.empty())
    return Opened(boost::system::in_place_error, std::move(why));
  std::setlocale(LC_CTYPE, "");
  // Unlike initscr(), which ends the program.
  SCREEN* const screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr)
    return Opened(boost::system::in_place_error, std::string("the terminal cannot be set up"));
  auto session = std::make_unique<Session>(screen);
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(kEscapeDelayMs);
  curs_set(0);
  const char* const no_colours = std::getenv("NO_COLOR");
  if ((no_colours == nullptr || *no_colours == '\0') && has_colors() && start_color() == OK) {
    use_default_colors();
    init_pair(kRedPair, COLOR_RED, -1);
    init_pair(kYellowPair, COLOR_YELLOW, -1);
    session->has_colours = true;
  }
  session->follow_size();
  return TerminalScreen(std::move(session));
}

ScreenSize TerminalScreen::size() const {
  return {getmaxx(stdscr), getmaxy(stdscr), session_->utf8};
}

void TerminalScreen::draw(const std::vector<TopLine>& drawn) {
  werase(stdscr);
  for (int row = 0; row < static_cast<int>(drawn.size()) && row < getmaxy(stdscr); ++row) {
    const TopLine& line = drawn[static_cast<std::size_t>(row)];
    const attr_t look = session_->look_of(line.paint);
    wattrset(stdscr, static_cast<int>(look));
    if (line.paint == Paint::heading) mvwhline(stdscr, row, 0, ' ' | look, getmaxx(stdscr));
    mvwaddnstr(stdscr, row, 0, line.text.c_str(), -1);
  }
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

Key TerminalScreen::read_key() {
  switch (wgetch(stdscr)) {
    case ERR:
      return Key::none;
    case 'q':
    case 'Q':
      return Key::quit;
    case KEY_UP:
    case 'k':
      return Key::up;
    case KEY_DOWN:
    case 'j':
      return Key::down;
    case KEY_PPAGE:
      return Key::page_up;
    case KEY_NPAGE:
    case ' ':
      return Key::page_down;
    case KEY_HOME:
    case 'g':
      return Key::first;
    case KEY_END:
    case 'G':
      return Key::last;
    case 's':
      return Key::order;
    case 'h':
    case '?':
      return Key::help;
    default:
      return Key::other;
  }
}

void TerminalScreen::resize() { session_->follow_size(); }

void TerminalScreen::suspend() { endwin(); }

void TerminalScreen::resume() {
  session_->follow_size();
  clearok(stdscr, TRUE);
  wrefresh(stdscr);
}

}  // namespace ddprun::ctl
