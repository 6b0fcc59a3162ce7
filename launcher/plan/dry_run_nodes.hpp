// What --dry-run shows of a job of several nodes. For dry_run.cpp only.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// Titles and texts.
using DryRunRows = std::vector<std::pair<std::string, std::string>>;

double seconds(std::chrono::nanoseconds duration);

/// Whether only a round of several nodes decides what the variable will be.
bool of_the_round(const LaunchPlan& plan, std::string_view name);

/// What the scheduler has said in place of options, and from where; empty: nothing.
std::string cluster_text(const LaunchPlan& plan);
nlohmann::ordered_json cluster_json(const LaunchPlan& plan);

/// How the nodes meet; empty: there is one.
DryRunRows nodes_rows(const LaunchPlan& plan);

/// How the nodes meet, for a plan with a rendezvous. Never the secret itself.
nlohmann::ordered_json rendezvous_json(const LaunchPlan& plan);

}  // namespace ddprun::launcher
