// What a program tells of its own command line, as data, and the texts that are made from it: the
// help, the man page, the same page in Markdown, the completions of four shells. Pure. Each program
// builds its ProgramText only when it is asked for one of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The shells with a completion, as choices of an option.
inline constexpr std::string_view kShells = "bash|zsh|fish|tcsh";

/// How options are written: true of each of our programs.
inline constexpr std::string_view kOptionRules =
    "Names have dashes or underscores (--like-this, --like_this). A value follows = or is the next "
    "word.";

struct OptionText {
  /// Every spelling with its dashes; the first is the one that is shown.
  std::vector<std::string> names{};
  /// `N`; shells offer folders for FOLDER and DIR, files for FILE.
  std::string placeholder{};
  /// Words that the value may be.
  std::vector<std::string> choices{};
  /// The option alone means the first of `choices`, which need not be typed.
  bool value_optional = false;
  /// The value is optional, and one of the topics of the help (texts/help_topic.hpp).
  bool takes_topic = false;
  /// One sentence, no full stop.
  std::string help{};
  /// Further sentences, for the man page.
  std::string more{};
  std::string default_text{};
  /// The environment variable that gives the default.
  std::string variable{};
  /// Not empty: the option is accepted and does nothing; this is the reason.
  std::string no_effect{};
  /// The heading. Options of one group stand together.
  std::string group{};
  /// A whole command line with this option; shown by the man page and in Markdown.
  std::string example{};
};

/// Something to type, or that is seen, and what it means.
struct Term {
  std::string term{};
  std::string meaning{};
};

/// A part behind the options.
struct TextSection {
  std::string title{};
  /// One paragraph a line, before the terms.
  std::string text{};
  std::vector<Term> terms{};
  bool in_help = true;
};

struct ProgramText {
  std::string name{};
  /// The man page's: `ddprun-train`, section 1.
  std::string page{};
  int page_section = 1;
  /// After the name in the page's first line.
  std::string purpose{};
  std::string synopsis{};
  /// What -h prints, about 25 lines; empty: all of the help.
  std::string short_help{};
  /// One paragraph a line.
  std::string description{};
  std::vector<Term> examples{};
  /// What holds beside the rules that all our programs have for names and values.
  std::string option_rules{};
  std::vector<OptionText> options{};
  /// For the options that CommandLine adds; the term is the option's name (`--listen`).
  std::vector<Term> option_examples{};
  std::vector<TextSection> sections{};
  std::string see_also{};
  /// The words of a group or a section in --help=WORD, `a|b`; the term is its title, and the first
  /// word is shown. Without an entry it is the first word of the title. What shares a word is shown
  /// together.
  std::vector<Term> topics{};
  /// Not empty: the program of ours that starts this one. Other packages have programs of the same
  /// name, so the completions are for `LAUNCHER NAME`, and for NAME alone only if the one on PATH
  /// is in the launcher's folder, and no installation keeps ours in ../libexec/LAUNCHER.
  std::string launcher{};
  /// The first word that is no option is one of these; they are also completed.
  std::vector<Term> commands{};
  /// A PROGRAM follows the options, and what follows it is not ours.
  bool takes_program = false;
  /// Programs of ours that may be PROGRAM; each has a completion of its own, in a file named as its
  /// page is (NAME-PROGRAM).
  std::vector<Term> own_programs{};
};

/// What stands behind the name: `=N`, `=prefix|raw`, `[=json]`, `[=TOPIC]` or nothing.
std::string value_hint(const OptionText& option);

/// No line is longer than 80 columns, except where the program's own lines are.
std::string help(const ProgramText& program);

/// One group or section as `help` shows it, with its heading. Empty: it has no such title.
std::string help_part(const ProgramText& program, std::string_view title);

/// One option as `help` shows it.
std::string help_entry(const OptionText& option);

/// Something else to type, in the same two columns.
std::string help_entry(std::string_view typed, std::string_view meaning);

/// One option with all that its manual page has: sentences, default, variable, example.
std::string help_of_option(const OptionText& option);

/// Roff with the man macros: for a file or `man -l -`.
std::string man_page(const ProgramText& program);

/// The manual page in Markdown. The heading of an option is its name alone, so that its anchor is
/// `#--its-name`. Documents (docs/name.md) are linked as `../name.md`.
std::string markdown_page(const ProgramText& program);

/// The words of `--man`, and the page that each prints: roff is the first.
inline constexpr std::string_view kManFormats = "roff|markdown";
std::string page_in(const ProgramText& program, std::string_view format);

/// The script for `bash`, `zsh`, `fish` or `tcsh`; empty for any other shell. The function is
/// `_ddprun_NAME` in bash and `_PAGE` in zsh, where it is the name of the file, too.
std::string completion(const ProgramText& program, std::string_view shell);

}  // namespace ddprun
