// An event of the job as JSON. The names are those of docs/ddpctl.md, and stay.
#pragma once

#include <string>
#include <string_view>

#include "agent/events/event_log.hpp"

namespace ddprun::agent {

/// `worker_ended`.
std::string_view name_of(const Happening& what);

/// One object in one line. `node`: the name of this one.
std::string event_json(const JobEvent& event, const std::string& node);

}  // namespace ddprun::agent
