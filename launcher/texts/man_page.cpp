#include "launcher/texts/man_page.hpp"

#include <string_view>

#include "base/version.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/texts/help.hpp"

namespace ddprun::launcher {
namespace {

/// Text that roff prints as it stands: dashes can be copied, nothing at the line's start is a
/// request.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else if (c == '.' && (result.empty() || result.back() == '\n')) {
      result += "\\&.";
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }

std::string row_text(const OptionRow& row) {
  std::string names;
  for (const auto& spelling : spellings(row)) {
    names += (names.empty() ? "" : ", ") + bold(spelling);
  }
  std::string text = ".TP\n" + names + roff(value_hint(row)) + "\n" + roff(row.help) + ".\n";
  if (!row.more.empty()) text += roff(row.more) + "\n";
  if (!row.no_effect.empty()) text += "It has no effect: " + roff(row.no_effect) + ".\n";
  const auto shown = row.default_text.empty() ? row.default_value : row.default_text;
  if (!shown.empty()) text += "Default: " + roff(shown) + ".\n";
  if (!row.environment.empty()) text += "Variable: " + bold(row.environment) + ".\n";
  return text;
}

constexpr std::string_view kVariables = R"(.SH ENVIRONMENT
.TP
\fBPET_\fINAME\fR
Default of the option of that name, as for torchrun; the command line wins.
A flag takes a number (not 0 is on) or true, false, yes, no, on, off.
An empty variable counts as not set, with one warning.
.TP
\fBPYTHON_EXEC\fR
The Python that runs scripts and modules.
.TP
\fBLOGLEVEL\fR
Level of ddprun\(aqs own messages where \fB\-\-log\-level\fR is absent.
.TP
\fBCUDA_VISIBLE_DEVICES\fR
GPUs that the job may use: numbers, GPU\- and MIG\- names. As for CUDA, entries after an invalid one are ignored.
.TP
\fBOMP_NUM_THREADS\fR
Set to 1 for several workers where it is absent, as torchrun does.
.PP
Workers find the variables of torchrun\(aqs contract: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the others.
)";

constexpr std::string_view kExitCodes = R"(.SH EXIT STATUS
.TP
0
All workers ended with 0, or there was nothing to start (\fB\-\-help\fR, \fB\-\-dry\-run\fR).
.TP
1
A text (\fB\-\-help\fR, \fB\-\-dry\-run\fR) could not be written to stdout.
.TP
2
The command line is wrong; nothing was started.
.TP
126
PROGRAM is there, but can not be executed.
.TP
127
PROGRAM, or the Python that it needs, was not found.
.PP
Other codes come from a job that failed or was stopped.
)";

}  // namespace

std::string man_page() {
  std::string text =
      ".TH DDPRUN 1 \"\" \"ddprun " + roff(ddprun::version()) + "\" \"User Commands\"\n" +
      ".SH NAME\nddprun \\- start the workers of a training job and bring them back when one "
      "fails\n"
      ".SH SYNOPSIS\n" +
      bold("ddprun") + " [\\fIOPTIONS\\fR] \\fIPROGRAM\\fR [\\fIARGUMENTS\\fR...]\n" +
      ".SH DESCRIPTION\n"
      "Starts the workers of a job on this machine, one per GPU, gives each the variables that "
      "programs "
      "for "
      "torchrun expect, watches them, and starts the group again when one fails, up to a budget.\n"
      "The command lines of torchrun work unchanged.\n"
      ".SH EXAMPLES\n";
  for (const auto& example : examples()) {
    text += ".TP\n" + bold(example.command) + "\n" + roff(example.what) + ".\n";
  }
  text += ".SH PROGRAM\n" + roff(program_rules()) + ".SH OPTIONS\n";
  text += roff(
              "Long names may be written with dashes or underscores, and shortened as long as they "
              "stay unambiguous. "
              "A value follows = or stands in the next word. Of a repeated option the last one "
              "counts.") +
          "\n";
  const OptionRow* previous = nullptr;
  for (const auto& row : option_table()) {
    if (previous == nullptr || previous->group != row.group)
      text += ".SS " + roff(group_title(row.group)) + "\n";
    text += row_text(row);
    previous = &row;
  }
  return text + std::string(kVariables) + std::string(kExitCodes);
}

}  // namespace ddprun::launcher
