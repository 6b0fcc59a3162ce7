// The words of the options whose values are enumerations: the rows offer them, options.cpp turns
// them back into values.
#pragma once

#include "agent/streams/log_settings.hpp"
#include "base/texts/words.hpp"
#include "launcher/options/log_options.hpp"
#include "launcher/options/options.hpp"
#include "machine/cpus/placement.hpp"

namespace ddprun {

template <>
inline constexpr std::array kWords<machine::NumaBinding>{
    Word{machine::NumaBinding::node, "node"},
    Word{machine::NumaBinding::socket, "socket"},
    Word{machine::NumaBinding::exclusive, "exclusive"},
    Word{machine::NumaBinding::core_complex, "core-complex"},
};
template <>
inline constexpr std::array kWords<launcher::LocalRankArgument>{
    Word{launcher::LocalRankArgument::automatic, "auto"},
    Word{launcher::LocalRankArgument::dash, "dash"},
    Word{launcher::LocalRankArgument::underscore, "underscore"},
    Word{launcher::LocalRankArgument::none, "none"},
};
template <>
inline constexpr std::array kWords<launcher::GpuVisibility>{
    Word{launcher::GpuVisibility::all, "all"},
    Word{launcher::GpuVisibility::own, "own"},
};
template <>
inline constexpr std::array kWords<launcher::OutputMode>{
    Word{launcher::OutputMode::prefix, "prefix"},
    Word{launcher::OutputMode::raw, "raw"},
    Word{launcher::OutputMode::pty, "pty"},
    Word{launcher::OutputMode::pipe, "pipe"},
};
template <>
inline constexpr std::array kWords<launcher::StdinMode>{
    Word{launcher::StdinMode::rank0, "rank0"},
    Word{launcher::StdinMode::all, "all"},
    Word{launcher::StdinMode::none, "none"},
};
template <>
inline constexpr std::array kWords<launcher::ColourMode>{
    Word{launcher::ColourMode::automatic, "auto"},
    Word{launcher::ColourMode::always, "always"},
    Word{launcher::ColourMode::never, "never"},
};
template <>
inline constexpr std::array kWords<agent::LogPolicy>{
    Word{agent::LogPolicy::drop, "drop"},
    Word{agent::LogPolicy::block, "block"},
};
template <>
inline constexpr std::array kWords<launcher::ExitCodeRule>{
    Word{launcher::ExitCodeRule::first, "first"},
    Word{launcher::ExitCodeRule::one, "one"},
};
template <>
inline constexpr std::array kWords<launcher::OnSilence>{
    Word{launcher::OnSilence::report, "report"},
    Word{launcher::OnSilence::restart, "restart"},
};
template <>
inline constexpr std::array kWords<launcher::Containment>{
    Word{launcher::Containment::automatic, "auto"},
    Word{launcher::Containment::tree, "tree"},
    Word{launcher::Containment::cgroup, "cgroup"},
    Word{launcher::Containment::pidns, "pidns"},
};
template <>
inline constexpr std::array kWords<launcher::WorkerStore>{
    Word{launcher::WorkerStore::agent, "agent"},
    Word{launcher::WorkerStore::rank0, "rank0"},
};
template <>
inline constexpr std::array kWords<launcher::LogLevel>{
    Word{launcher::LogLevel::trace, "trace"}, Word{launcher::LogLevel::debug, "debug"},
    Word{launcher::LogLevel::info, "info"},   Word{launcher::LogLevel::warn, "warn"},
    Word{launcher::LogLevel::error, "error"}, Word{launcher::LogLevel::off, "off"},
};

}  // namespace ddprun
