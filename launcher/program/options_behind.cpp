#include "launcher/program/options_behind.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/joined.hpp"
#include "launcher/options/option_table.hpp"

namespace ddprun::launcher {

namespace {

bool is_declared(std::string_view source, const OptionRow& row) {
  const auto all = spellings(row);
  const std::vector<std::string_view> views(all.begin(), all.end());
  return declared_option(source, views).has_value();
}

}  // namespace

std::string launcher_options_behind(const ProgramChoice& program, std::size_t own_arguments,
                                    const FileProbe& files) {
  // Nobody knows what other programs take: a shell script may well start nodes itself.
  if (program.kind != ProgramChoice::Kind::python_script &&
      program.kind != ProgramChoice::Kind::python_module)
    return "";
  const auto own = program.argv.end() - static_cast<std::ptrdiff_t>(own_arguments);
  std::vector<std::string> behind;
  std::optional<std::string> source;
  for (auto argument = own; argument != program.argv.end() && *argument != "--"; ++argument) {
    const auto typed = std::string_view(*argument).substr(0, argument->find('='));
    const OptionRow* row = option_spelled(typed);
    if (row == nullptr || !only_launchers_have(*row)) continue;
    if (!source) source = source_of(program, own_arguments, files);
    if (!is_declared(*source, *row)) behind.emplace_back(typed);
  }
  if (behind.empty()) return "";
  return joined(behind, ", ") + (behind.size() > 1 ? " stand" : " stands") + " behind " +
         program.name + ", so ddprun passes " + (behind.size() > 1 ? "them" : "it") + " to " +
         program.name + "; options of ddprun stand before the program";
}

namespace {

constexpr std::size_t kSourceBytesMax = 1024 * 1024;
constexpr std::array<std::string_view, 2> kDeclarations = {"add_argument", "option"};

/// True where `call`, all that stands before the quoted name, ends inside the brackets of a
/// declaration: `parser.add_argument("-r", `.
bool ends_in_declaration(std::string_view call) {
  const auto open = call.rfind('(');
  if (open == std::string_view::npos) return false;
  // Between the bracket and the name there may be other names of the same option.
  const auto between = call.substr(open + 1);
  const bool names_only = between.find_first_not_of(
                              " \t\r\n\\,\"'-_"
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == std::string_view::npos;
  if (!names_only || std::count(between.begin(), between.end(), '=') != 0) return false;
  const auto name = call.substr(0, open);
  const auto line = name.substr(name.rfind('\n') + 1);
  if (line.find('#') != std::string_view::npos) return false;  // commented out
  return std::any_of(kDeclarations.begin(), kDeclarations.end(),
                     [&](std::string_view known) { return name.ends_with(known); });
}

/// The text of `package.module` under the current folder; empty: the module lies elsewhere.
std::string module_source(std::string path, const FileProbe& files) {
  std::replace(path.begin(), path.end(), '.', '/');
  std::string source = files.contents(path + ".py", kSourceBytesMax);
  return source.empty() ? files.contents(path + "/__main__.py", kSourceBytesMax) : source;
}

}  // namespace

std::string source_of(const ProgramChoice& program, std::size_t own_arguments,
                      const FileProbe& files) {
  const bool module = program.kind == ProgramChoice::Kind::python_module;
  if (!module && program.kind != ProgramChoice::Kind::python_script) return "";
  const std::string& script = program.argv[program.argv.size() - own_arguments - 1];
  return module ? module_source(script, files) : files.contents(script, kSourceBytesMax);
}

std::optional<std::string> declared_option(std::string_view source,
                                           std::span<const std::string_view> spellings) {
  std::size_t first = std::string_view::npos;
  std::optional<std::string> declared;
  for (const std::string_view spelling : spellings) {
    for (const char quote : {'"', '\''}) {
      const std::string quoted = quote + std::string(spelling) + quote;
      for (auto at = source.find(quoted); at < first; at = source.find(quoted, at + 1)) {
        if (!ends_in_declaration(source.substr(0, at))) continue;
        first = at;
        declared = std::string(spelling);
      }
    }
  }
  return declared;
}

namespace {

constexpr std::array<std::string_view, 2> kSpellings = {"--local_rank", "--local-rank"};

}  // namespace

std::optional<std::string> declared_local_rank_option(std::string_view source) {
  return declared_option(source, kSpellings);
}

std::string add_local_rank_argument(ProgramChoice& program, std::size_t own_arguments,
                                    LocalRankArgument wanted, const FileProbe& files) {
  const auto own = program.argv.end() - static_cast<std::ptrdiff_t>(own_arguments);
  const bool given = std::any_of(own, program.argv.end(), [](const std::string& argument) {
    return std::any_of(kSpellings.begin(), kSpellings.end(),
                       [&](std::string_view spelling) { return argument.starts_with(spelling); });
  });
  if (given) return "";
  std::string option;
  std::string note;
  switch (wanted) {
    case LocalRankArgument::none:
      return "";
    case LocalRankArgument::dash:
      option = "--local-rank";
      break;
    case LocalRankArgument::underscore:
      option = "--local_rank";
      break;
    case LocalRankArgument::automatic: {
      const std::string& script = *std::prev(own);
      const auto declared = declared_local_rank_option(source_of(program, own_arguments, files));
      if (!declared) return "";
      option = *declared;
      note = script + " declares " + option + ": every worker gets it, as under " +
             "torch.distributed.launch (--local-rank-argument=none turns this off)";
      break;
    }
  }
  program.argv.insert(own, option + "=${local_rank}");
  return note;
}

}  // namespace ddprun::launcher
