#include "rendezvous/daemon/status_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/printable.hpp"
#include "proto/run_id.hpp"

namespace ddprun::rdzv {
namespace {

using Row = std::array<std::string, 4>;

std::string count_of(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

const char* what_outlives(const proto::Status& status) {
  if (!status.journal) return "no journal: jobs end with this rendezvous";
  return status.durable ? "the journal is on the disk: jobs outlive this rendezvous"
                        : "the journal cannot be written now: jobs restart if this rendezvous ends";
}

Row row_of(const proto::MemberStatus& member) {
  const std::string silent = describe(member.silent_for);
  return {member.node_name.empty() ? "(has not joined)" : printable(member.node_name),
          member.group_rank ? std::to_string(*member.group_rank) : "-",
          member.connected
              ? "attached, heard " + silent + " ago"
              : "gone, silent for " + silent + (member.silent_for_longer ? " or longer" : ""),
          printable(member.agent)};
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1],
                        row[2], widths[2], row[3]);
  return text;
}

std::string text_of(const proto::JobStatus& job) {
  std::string text =
      fmt::format("\njob {}{}: {}", printable(job.run_id),
                  job.run_id == proto::kDefaultRunId ? " (started without --rdzv-id)" : "",
                  job.phase.empty() ? "no node has joined" : job.phase);
  if (job.round) text += fmt::format(", round {}", *job.round);
  text += fmt::format(", epoch {}, {} old\n", job.epoch, describe(job.age));
  if (job.max_nodes > 0)
    text += fmt::format("  nodes: {} (min {}, max {}); restarts: {} of {}\n", job.nodes,
                        job.min_nodes, job.max_nodes, job.restart_count, job.max_restarts);
  if (!job.members.empty()) {
    std::vector<Row> rows = {{"NODE", "GROUP RANK", "CONNECTION", "AGENT"}};
    for (const auto& member : job.members) rows.push_back(row_of(member));
    text += table(rows);
  }
  const auto listed = static_cast<int>(job.members.size());
  if (job.nodes > listed)
    text += fmt::format("  and {}\n", count_of(job.nodes - listed, "more node"));
  return text;
}

}  // namespace

void append_page(proto::Status& status, proto::Status page) {
  std::vector<proto::JobStatus> jobs = std::move(status.jobs);
  for (proto::JobStatus& job : page.jobs) {
    if (jobs.empty() || jobs.back().run_id != job.run_id) {
      jobs.push_back(std::move(job));
      continue;
    }
    std::vector<proto::MemberStatus> members = std::move(jobs.back().members);
    members.insert(members.end(), std::make_move_iterator(job.members.begin()),
                   std::make_move_iterator(job.members.end()));
    jobs.back() = std::move(job);
    jobs.back().members = std::move(members);
  }
  status = std::move(page);
  status.jobs = std::move(jobs);
}

std::string status_text(const proto::Status& status, const std::string& place) {
  std::string text = fmt::format("rendezvous at {}: {}; {}\n", place,
                                 count_of(status.job_count, "job"), what_outlives(status));
  for (const proto::JobStatus& job : status.jobs) text += text_of(job);
  const auto listed = static_cast<int>(status.jobs.size());
  if (status.job_count > listed)
    text += fmt::format("\nand {}; --run-id=ID shows one\n",
                        count_of(status.job_count - listed, "more job"));
  return text;
}

}  // namespace ddprun::rdzv
