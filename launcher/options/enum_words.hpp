// The words of the options that take an enumeration: the rows offer them, options.cpp turns
// them back into values.
#pragma once

#include "agent/streams/log_settings.hpp"
#include "launcher/options/log_options.hpp"
#include "launcher/options/options.hpp"
#include "machine/cpus/placement.hpp"
#include "texts/words.hpp"

namespace ddprun::agent {

constexpr auto words_for(LogPolicy) {
  using enum LogPolicy;
  return std::array{Word{automatic, "auto"}, Word{drop, "drop"}, Word{block, "block"}};
}

constexpr auto words_for(StdinMode) {
  using enum StdinMode;
  return std::array{Word{rank0, "rank0"}, Word{all, "all"}, Word{none, "none"}};
}

constexpr auto words_for(OnSilence) {
  using enum OnSilence;
  return std::array{Word{report, "report"}, Word{restart, "restart"}};
}

}  // namespace ddprun::agent

namespace ddprun::machine {

constexpr auto words_for(NumaBinding) {
  using enum NumaBinding;
  return std::array{Word{node, "node"}, Word{socket, "socket"}, Word{exclusive, "exclusive"},
                    Word{core_complex, "core-complex"}};
}

}  // namespace ddprun::machine

namespace ddprun::launcher {

constexpr auto words_for(LocalRankArgument) {
  using enum LocalRankArgument;
  return std::array{Word{automatic, "auto"}, Word{dash, "dash"}, Word{underscore, "underscore"},
                    Word{none, "none"}};
}

constexpr auto words_for(GpuVisibility) {
  using enum GpuVisibility;
  return std::array{Word{all, "all"}, Word{own, "own"}};
}

constexpr auto words_for(OutputMode) {
  using enum OutputMode;
  return std::array{Word{prefix, "prefix"}, Word{raw, "raw"}, Word{pty, "pty"}, Word{pipe, "pipe"}};
}

constexpr auto words_for(FoldMode) {
  using enum FoldMode;
  return std::array{Word{automatic, "auto"}, Word{always, "always"}, Word{off, "off"}};
}

constexpr auto words_for(ColourMode) {
  using enum ColourMode;
  return std::array{Word{automatic, "auto"}, Word{always, "always"}, Word{never, "never"}};
}

constexpr auto words_for(ExitCodeRule) {
  using enum ExitCodeRule;
  return std::array{Word{first, "first"}, Word{one, "one"}};
}

constexpr auto words_for(Containment) {
  using enum Containment;
  return std::array{Word{automatic, "auto"}, Word{tree, "tree"}, Word{cgroup, "cgroup"},
                    Word{pidns, "pidns"}};
}

constexpr auto words_for(RdzvAuth) {
  using enum RdzvAuth;
  return std::array{Word{automatic, "auto"}, Word{required, "required"}, Word{munge, "munge"}};
}

constexpr auto words_for(WorkerStore) {
  using enum WorkerStore;
  return std::array{Word{agent, "agent"}, Word{rank0, "rank0"}};
}

}  // namespace ddprun::launcher
