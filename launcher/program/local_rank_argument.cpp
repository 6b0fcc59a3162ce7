#include "launcher/program/local_rank_argument.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "launcher/program/declared_option.hpp"

namespace ddprun::launcher {
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
