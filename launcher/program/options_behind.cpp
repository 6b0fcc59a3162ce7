#include "launcher/program/options_behind.hpp"

#include <algorithm>

#include "base/joined.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/program/declared_option.hpp"

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

}  // namespace ddprun::launcher
