// The names in a journal of all that its records hold.
#pragma once

#include <string_view>
#include <tuple>

#include "proto/membership_fields.hpp"
#include "rendezvous/service/job.hpp"

namespace ddprun::proto {

template <>
inline constexpr std::string_view kKind<rdzv::JobBegan> = "job_began";
template <>
inline constexpr auto kFields<rdzv::JobBegan> = std::tuple{
    field("incomplete_not_before_ns", &rdzv::JobBegan::incomplete_not_before),
};
template <>
inline constexpr std::string_view kKind<rdzv::SessionBegan> = "session_began";
template <>
inline constexpr auto kFields<rdzv::SessionBegan> = std::tuple{
    required("agent", &rdzv::SessionBegan::agent),
    field("addr", &rdzv::SessionBegan::addr),
    field("lease_ns", &rdzv::SessionBegan::lease),
    field("age_ns", &rdzv::SessionBegan::age),
};
template <>
inline constexpr std::string_view kKind<rdzv::SessionLost> = "session_lost";
template <>
inline constexpr auto kFields<rdzv::SessionLost> = std::tuple{
    required("agent", &rdzv::SessionLost::agent),
    field("sign", &rdzv::SessionLost::sign),
    field("silent_for_ns", &rdzv::SessionLost::silent_for),
    field("silent_for_longer", &rdzv::SessionLost::silent_for_longer),
    field("clock", &rdzv::SessionLost::clock),
};
template <>
inline constexpr std::string_view kKind<rdzv::SessionOver> = "session_over";
template <>
inline constexpr auto kFields<rdzv::SessionOver> =
    std::tuple{required("agent", &rdzv::SessionOver::agent)};
template <>
inline constexpr std::string_view kKind<rdzv::PastHeard> = "past_heard";
template <>
inline constexpr auto kFields<rdzv::PastHeard> = std::tuple{
    field("workers_may_run_until_ns", &rdzv::PastHeard::workers_may_run_until),
};
template <>
inline constexpr std::string_view kKind<rdzv::MemoryLost> = "memory_lost";
template <>
inline constexpr auto kFields<rdzv::MemoryLost> = std::tuple{
    field("workers_may_run_until_ns", &rdzv::MemoryLost::workers_may_run_until),
};
template <>
inline constexpr std::string_view kKind<rdzv::DeadlinePassed> = "deadline_passed";
template <>
inline constexpr auto kFields<rdzv::DeadlinePassed> = std::tuple{};
template <>
inline constexpr std::string_view kKind<rdzv::JobOver> = "job_over";
template <>
inline constexpr auto kFields<rdzv::JobOver> = std::tuple{
    required("next_epoch", &rdzv::JobOver::next_epoch),
    required("finished", &rdzv::JobOver::finished),
    field("ended_at_ns", &rdzv::JobOver::ended_at),
    field("incomplete_not_before_ns", &rdzv::JobOver::incomplete_not_before),
};

// Snapshots
// -------------------------------------------------------------------------

/// For counts of restarts, changes and the like: one can always be added.
inline constexpr Limits kTimes = between(0, 1'000'000'000);
template <>
inline constexpr auto kFields<rdzv::RestartHistory> = std::tuple{
    field("restart_count", &rdzv::RestartHistory::restart_count, kTimes),
    field("restarts_at_ns", &rdzv::RestartHistory::restarts,
          list(rdzv::RestartHistory::kRestartsMax)),
    field("short_rounds", &rdzv::RestartHistory::short_rounds, kTimes),
    field("stuck_rounds", &rdzv::RestartHistory::stuck_rounds, kTimes),
    field("furthest_step", &rdzv::RestartHistory::furthest_step),
    field("in_a_row", &rdzv::RestartHistory::in_a_row, kTimes),
};
template <>
inline constexpr auto kFields<rdzv::MembershipSnapshot> = std::tuple{
    field("settings", &rdzv::MembershipSnapshot::settings),
    required("round", &rdzv::MembershipSnapshot::round),
    field("restarts", &rdzv::MembershipSnapshot::restarts),
    field("node_changes", &rdzv::MembershipSnapshot::node_changes, kTimes),
    field("joins", &rdzv::MembershipSnapshot::joins),
    field("past", &rdzv::MembershipSnapshot::past),
    field("incomplete_not_before_ns", &rdzv::MembershipSnapshot::incomplete_not_before),
    field("last_refusal", &rdzv::MembershipSnapshot::last_refusal, kText),
    field("has_leftovers", &rdzv::MembershipSnapshot::has_leftovers),
    field("checks", &rdzv::MembershipSnapshot::checks),
    field("unsound", &rdzv::MembershipSnapshot::unsound, list(kUnsoundNodesMax)),
};
template <>
inline constexpr std::string_view kKind<rdzv::JobRestored> = "job_restored";
template <>
inline constexpr auto kFields<rdzv::JobRestored> = std::tuple{
    required("began_at_ns", &rdzv::JobRestored::began_at),
    field("lost_any", &rdzv::JobRestored::lost_any),
    required("membership", &rdzv::JobRestored::membership),
};
template <>
inline constexpr auto kFields<rdzv::Node> = std::tuple{
    field("name", &rdzv::Node::name),
    field("role", &rdzv::Node::role),
    required("workers", &rdzv::Node::local_world_size, between(1, kWorkersPerNodeMax)),
    field("requested_group_rank", &rdzv::Node::requested_group_rank, kNodes),
    field("insists_on_rank", &rdzv::Node::insists_on_rank),
    field("wants_report", &rdzv::Node::wants_report),
    field("store_port", &rdzv::Node::store_port),
    field("store_addr", &rdzv::Node::store_addr),
    field("store_clients_max", &rdzv::Node::store_clients_max),
    field("checks_first", &rdzv::Node::checks_first),
    field("kept", &rdzv::Node::kept, kWorkersOfNode),
    field("knows_kept", &rdzv::Node::knows_kept),
};
template <>
inline constexpr auto kFields<rdzv::Seat> = std::tuple{
    field("group_rank", &rdzv::Seat::group_rank, between(0, kNodesMax - 1)),
    field("first_rank", &rdzv::Seat::first_rank, kRank),
    field("first_role_rank", &rdzv::Seat::first_role_rank, kRank),
    field("role_world_size", &rdzv::Seat::role_world_size, kWorldSize),
    field("keep", &rdzv::Seat::keep, kLocalRanks),
};
template <>
inline constexpr auto kFields<rdzv::NodeSnapshot> = std::tuple{
    required("node", &rdzv::NodeSnapshot::node),
    field("order", &rdzv::NodeSnapshot::order),
    field("seat", &rdzv::NodeSnapshot::seat),
    field("is_checked", &rdzv::NodeSnapshot::is_checked),
    field("failed_rounds", &rdzv::NodeSnapshot::failed_rounds, kTimes),
    field("stepped_back", &rdzv::NodeSnapshot::stepped_back),
};
template <>
inline constexpr std::string_view kKind<rdzv::SessionRestored> = "session_restored";
template <>
inline constexpr auto kFields<rdzv::SessionRestored> = std::tuple{
    required("agent", &rdzv::SessionRestored::agent),
    field("acknowledged", &rdzv::SessionRestored::acknowledged),
    field("addr", &rdzv::SessionRestored::addr),
    field("lease_ns", &rdzv::SessionRestored::lease),
    field("node_name", &rdzv::SessionRestored::node_name),
    field("boot_id", &rdzv::SessionRestored::boot_id),
    field("outcome", &rdzv::SessionRestored::outcome),
    field("node", &rdzv::SessionRestored::node),
};
template <>
inline constexpr std::string_view kKind<rdzv::LossesRestored> = "losses_restored";
template <>
inline constexpr auto kFields<rdzv::LossesRestored> = std::tuple{
    required("process", &rdzv::LossesRestored::process),
    field("losses", &rdzv::LossesRestored::losses),
};

}  // namespace ddprun::proto
