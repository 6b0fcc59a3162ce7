// Events of the job, and its ledger, as JSON. The names are those of docs/ddpctl.md and
// docs/report.md, and stay.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "agent/events/event_log.hpp"
#include "agent/events/ledger.hpp"

namespace ddprun::agent {

/// `worker_ended`.
std::string_view name_of(const Happening& what);

/// One object in one line. `node`: the name of this one.
std::string event_json(const JobEvent& event, const std::string& node);

nlohmann::ordered_json ledger_json(const LedgerEntries& ledger);

}  // namespace ddprun::agent
